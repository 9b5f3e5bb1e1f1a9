"""The possible changes of the lines of a log, and the expected verdict on each."""

from __future__ import annotations

import copy
import json
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.audit.exporting import canonical

from graphrt.audit.offline import Finding, _Check, _heads


class Change(NamedTuple):
    """A changed log."""

    what: str
    lines: tuple[bytes, ...]
    verdicts: frozenset[str]
    """Any of these verdicts is correct, with an anchor."""
    first_bad: frozenset[int]
    """Any of these records is correct as the first one in doubt."""


def is_record(line: bytes) -> bool:
    return line.startswith(b'{"count":')


def places(log: Sequence[bytes]) -> list[int]:
    """For each line, the number of the first record that it belongs to, or that follows it."""
    found, records = [], 0
    for line in log:
        found.append(records + 1)
        records += is_record(line)
    return found


def deletions(log: Sequence[bytes]) -> Iterator[Change]:
    where, last = places(log), max(places(log)) - 1
    for at, line in enumerate(log):
        lines = (*log[:at], *log[at + 1 :])
        if is_record(line):
            yield Change(
                f"without record {where[at]}",
                lines,
                frozenset({"truncated" if where[at] == last else "missing"}),
                frozenset({where[at]}),
            )
        elif line.startswith(b'{"head"'):
            yield Change(f"without the head on line {at + 1}", lines, frozenset({"sound"}), frozenset())
        elif line.startswith(b'{"blob"'):
            yield Change("without the large value", lines, frozenset({"withheld"}), frozenset())
        else:
            yield Change(
                f"without line {at + 1}", lines, frozenset({"unreadable", "altered"}), frozenset({1} if at else ())
            )


def early(line: bytes, before: bytes) -> bool:
    """Whether *line* is a record before its large value: the record is proved, but the large value comes too late."""
    return before.startswith(b'{"blob"') and before[9:73] in line


def duplications(log: Sequence[bytes]) -> Iterator[Change]:
    """Each line a second time, after every line."""
    where = places(log)
    for at, line in enumerate(log):
        for to in range(len(log) + 1):
            lines = (*log[:to], line, *log[to:])
            if lines == tuple(log):
                continue
            first = where[to] + (line == log[to] and is_record(line)) if to < len(log) else max(where)
            kinds = {"duplicated", "altered", "missing", "reordered", "another-log", "unreadable"}
            firsts = {first, first + early(line, log[to])} if 0 < to < len(log) else {first} if to else set()
            yield Change(f"line {at + 1} again before line {to + 1}", lines, frozenset(kinds), frozenset(firsts))


def swaps(log: Sequence[bytes]) -> Iterator[Change]:
    where = places(log)
    for at in range(len(log)):
        for to in range(at + 1, len(log)):
            lines = list(log)
            lines[at], lines[to] = lines[to], lines[at]
            kinds = {"reordered", "altered", "missing", "unreadable", "truncated"}
            firsts = {where[at], where[at] + early(log[to], log[at])} if at else set()
            yield Change(f"lines {at + 1} and {to + 1} swapped", tuple(lines), frozenset(kinds), frozenset(firsts))


def splices(log: Sequence[bytes], other: Sequence[bytes]) -> Iterator[Change]:
    """Each line replaced by that of another log, inserted before it, and with all later lines replaced."""
    where = places(log)
    for at in range(1, len(log)):
        for what, lines in (
            ("replaced", (*log[:at], other[at], *log[at + 1 :])),
            ("put in", (*log[:at], other[at], *log[at:])),
            ("from there on", (*log[:at], *other[at:])),
        ):
            kinds = frozenset({"altered", "duplicated", "missing", "reordered", "another-log", "truncated", "forked"})
            if tuple(lines) != tuple(log):
                yield Change(f"line {at + 1} of another log {what}", lines, kinds, frozenset(range(1, where[at] + 9)))


def truncations(log: Sequence[bytes]) -> Iterator[Change]:
    where = places(log)
    for at in range(1, len(log)):
        # If the last line is a head, the anchor has a copy.
        cut = where[at] - 1 < max(where) - 1
        yield Change(
            f"cut before line {at + 1}",
            tuple(log[:at]),
            frozenset({"truncated"} if cut else {"sound"}),
            frozenset({where[at]} if cut else ()),
        )


def cut_lines(log: Sequence[bytes], step: int = 1) -> Iterator[Change]:
    """Cut inside of a line."""
    where, last = places(log), max(places(log)) - 1
    for at, line in enumerate(log):
        for end in range(1, len(line), step if len(line) < 10_000 else 4_999):
            verdict = "torn" if where[at] > last else "truncated" if at else "unreadable"
            yield Change(
                f"cut in line {at + 1} after {end} bytes",
                (*log[:at], line[:end]),
                frozenset({verdict}),
                frozenset({where[at]} if verdict == "truncated" else ()),
            )


def rewritings(log: Sequence[bytes]) -> Iterator[Change]:
    """Each line with the same meaning, but another spelling."""
    where = places(log)
    for at, line in enumerate(log):
        text = line[:-1]
        value = json.loads(text)
        first = next(iter(value))
        ways = {
            "a space at its end": text + b" ",
            "a space inside": text.replace(b":", b": ", 1),
            "another newline": text + b"\r",
            "a key twice": b'{"%b":0,%b' % (first.encode(), text[1:]),
            "its keys turned round": json.dumps(
                dict(reversed(value.items())), separators=(",", ":"), ensure_ascii=False
            ).encode(),
            "an escape": text.replace(first.encode(), b"\\u%04x%b" % (ord(first[0]), first[1:].encode()), 1),
            "a float": text.replace(b'"seq":', b'"seq":0.5e1', 1),
        }
        for what, new in ways.items():
            if new != text:
                lines = (*log[:at], new + b"\n", *log[at + 1 :])
                yield Change(
                    f"line {at + 1} with {what}",
                    lines,
                    frozenset({"altered"} if at else {"unreadable"}),
                    frozenset({where[at]} if at else ()),
                )


def with_value(log: Sequence[bytes], at: int, **new: object) -> tuple[bytes, ...]:
    """The log with other values in the object on line *at*."""
    value = json.loads(log[at])
    return (*log[:at], canonical({**value, **new}), *log[at + 1 :])


def flips(log: Sequence[bytes], *, bits: int, step: int = 1) -> Iterator[tuple[int, int, bytes]]:
    """Number of the line, of the byte, and the changed line: one bit of each byte, or all of *bits*.

    For a large value, every 101st byte is enough, because all bytes are read alike.
    """
    for at, line in enumerate(log):
        long = step * 101 if len(line) > 10_000 else step
        for byte in [*range(0, len(line) - 300, long), *range(max(0, len(line) - 300), len(line), step)]:
            for bit in range(8) if bits == 8 else [(byte * 5 + at) % 8]:
                yield at, byte, line[:byte] + bytes([line[byte] ^ 1 << bit]) + line[byte + 1 :]


def allowed_after_flip(
    at: int, byte: int, log: Sequence[bytes], where: Sequence[int]
) -> tuple[set[str], set[int | None]]:
    """The correct verdicts and first records after a flip."""
    if at == 0:
        return {"unreadable", "newer-form", "altered", "another-log"}, {None, 1, 2, 9}
    line = log[at]
    if at == len(log) - 1 and byte == len(line) - 1:
        # Without its newline, the last line looks like after a crash. All records are proved before it.
        return {"torn", "altered"}, {where[at], None}
    verdicts = {"altered"}
    if is_record(line) and line.index(b'"seal":"') + 8 <= byte < line.index(b'"seal":"') + 11:
        verdicts |= {"newer-form"}  # the version of the seal
    if line.startswith(b'{"head"'):
        verdicts |= {"another-log"}  # `log` and `thread`
    return verdicts, {where[at], None} if "newer-form" in verdicts else {where[at]}


class Prefixes:
    """The state of the verifier before each line: a late change only costs the verification of the rest."""

    def __init__(self, log: Sequence[bytes], key: bytes, anchor: bytes) -> None:
        self._log = log
        check = _Check([key], _heads(anchor))
        self._before = [cloned(check)]
        for line in log:
            assert check.read(iter([(line[:-1], True)]))
            self._before.append(cloned(check))

    def first_found(self, at: int, changed: bytes) -> Finding | None:
        """The first finding after line *at* was replaced by *changed*, without reading later lines."""
        check = cloned(self._before[at])
        rest = b"".join([changed, *self._log[at + 1 : at + 2]]) if changed[-1:] != b"\n" else changed
        parts = (
            [(part.removesuffix(b"\n"), True) for part in rest.splitlines(keepends=True)] if b"\r" not in rest else []
        )
        if not parts:
            parts = [(part, True) for part in rest.removesuffix(b"\n").split(b"\n")]
        whole = check.read(bad_ends(check, [*parts, *[(line[:-1], True) for line in self._log[at + 1 :]]]))
        if whole and not bad(check):
            check.finish()
        return min(bad(check), key=lambda one: (one.record or 0, one.line or 0), default=None)


def bad(check: _Check) -> list[Finding]:
    return [one for one in check.findings if one.verdict.exit_code in (1, 2)]


def bad_ends(check: _Check, lines: Sequence[tuple[bytes, bool]]) -> Iterator[tuple[bytes, bool]]:
    for line in lines:
        yield line
        if bad(check):
            return


def cloned(check: _Check) -> _Check:
    new = copy.copy(check)
    for name, value in vars(check).items():
        if isinstance(value, (list, dict, set, bytearray, array)):
            setattr(new, name, copy.copy(value))
    new._gaps = [list(gap) for gap in check._gaps]
    new._anchors = {size: list(heads) for size, heads in check._anchors.items()}
    return new
