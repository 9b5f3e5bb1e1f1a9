"""The text form of a case: an exported thread, with the journal's data about the run.

A reviewer has to see what a file adds to a repository, so the parts of the export are text. Each begins with a line `==
kind first second name`, with the numbers of its frame, followed by the lines of its body. JSON is broken over lines and
indented where it is long; other text begins with `| `, and a body that is not text with `64 `. The last line has a
digest of the export.

Reading restores each byte: JSON that would not survive the round trip is written as text or base64 instead.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping
from graphrt.errors import a_type
from graphrt.errors._codes.recorded_runs import BAD_CASE
from graphrt.stores import _archive as archive

_VERSION: Final = "graphrt-case-2"
_KINDS: Final = ("head", "meta", "blob", "snapshot", "staged", "record")
"""Names of the kinds of frames, by number."""
_WIDTH: Final = 110
"""Maximum length of a line into which a longer JSON value is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The content of a case file."""

    thread: str
    """Id of the thread, in production and in the test."""
    graph: str
    """Name of the graph."""
    run: str
    """Id of the run."""
    time: float
    """Time of the clock during the test, in seconds since the epoch."""
    data: bytes
    """The fork that the test continues, as `export_thread` writes it."""


def encode(case: Case) -> str:
    """Return the text form of *case*."""
    about = {"thread": case.thread, "graph": case.graph, "run": case.run, "time": case.time}
    lines = [_VERSION, json.dumps(about)]
    for kind, first, second, name, body in archive.frames(io.BytesIO(case.data)):
        lines.append(f"== {_KINDS[kind]} {first} {second} {_name(name)}".rstrip())
        lines += _body(body)
    return "\n".join([*lines, f"== end {sha256(case.data).hexdigest()}"])


def decode(text: Any) -> Case:
    """Return the case in *text*.

    Raises:
        InputError: *text* is not what `case_of` wrote (`bad-case`).
    """
    if not isinstance(text, str):
        raise BAD_CASE(why=f"it is {a_type(text)}")
    version, _, rest = text.strip().partition("\n")
    if version != _VERSION:
        raise BAD_CASE(why=f"its first line is {version[:40]!r}, not {_VERSION!r}")
    about, *lines = rest.split("\n")
    try:
        *parts, end = lines
        data = _export(parts)
        if end != f"== end {sha256(data).hexdigest()}":
            raise ValueError("it was changed after it was written, or cut off")
        return Case(**json.loads(about), data=data)
    except (ValueError, TypeError, RecursionError) as error:
        raise BAD_CASE(why=f"it cannot be decoded: {error}") from None


def _export(lines: list[str]) -> bytes:
    """Return the export encoded in *lines*.

    Raises:
        ValueError: A line is outside any part, or has a form that `encode` does not write.
    """
    buffer = io.BytesIO()
    writer = archive.Writer(buffer)
    at = [number for number, line in enumerate(lines) if line.startswith("== ")]
    if not at or at[0] != 0:
        raise ValueError("its first part is missing")
    for begin, end in zip(at, [*at[1:], len(lines)], strict=True):
        _, kind, first, second, *name = lines[begin].split(" ", 4)
        body = b"\n".join(_bytes_of(text) for text in _joined(lines[begin + 1 : end]))
        called = _bytes_of_name(name[0]) if name else b""
        writer.frame(archive.Frame(_KINDS.index(kind), int(first), int(second), called, body))
    writer.end()
    return buffer.getvalue()


def _name(name: bytes) -> str:
    """Return the name of a frame as text: itself, or base64 if it has characters that a line cannot show."""
    text = _text(name)
    plain = text is not None and text == text.strip() and not text.startswith("64 ")
    return str(text) if plain else f"64 {base64.b64encode(name).decode()}"


def _bytes_of_name(text: str) -> bytes:
    return base64.b64decode(text[3:], validate=True) if text.startswith("64 ") else text.encode()


def _body(body: bytes) -> Iterator[str]:
    text = _text(body)
    if text is None:
        packed = base64.b64encode(body).decode()
        yield f"64 {packed[:_WIDTH]}"
        yield from (f" {packed[at : at + _WIDTH]}" for at in range(_WIDTH, len(packed), _WIDTH))
        return
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            yield f"| {line}"
            continue
        shown = list(_pretty(value, 0))
        # A number such as 1e5, or a duplicate key, would come back in another form.
        yield from shown if _bytes_of("".join(map(str.strip, shown))) == line.encode() else [f"| {line}"]


def _bytes_of(line: str) -> bytes:
    """Return the bytes of one line of a body, after joining its parts."""
    if line.startswith("| "):
        return line[2:].encode()
    if line.startswith("64 "):
        return base64.b64decode(line[3:], validate=True)
    return _compact(json.loads(line)).encode()


def _joined(lines: list[str]) -> list[str]:
    """Return the lines of a body, each joined with the indented lines after it."""
    joined: list[str] = []
    for line in lines:
        if line.startswith(" ") and joined:
            joined[-1] += line.strip()
        else:
            joined.append(line)
    return joined


def _text(data: bytes) -> str | None:
    """Return *data* as text; None if it is not readable, or cannot be in a source file."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if '"""' not in text and all(part.isprintable() for part in text.split("\n")) else None


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _pretty(value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of a JSON value: one if it is short, else its items, with several short ones per line."""
    compact = _compact(value)
    if len(compact) + indent <= _WIDTH or not value or not (is_list(value) or is_mapping(value)):
        yield " " * indent + compact
        return
    opening, closing = "[]" if is_list(value) else "{}"
    keyed = [("", item) for item in value] if is_list(value) else [(f"{_compact(key)}:", value[key]) for key in value]
    inside = " " * (indent + 1)
    beside = ""  # short items that share a line
    yield " " * indent + opening
    for number, (key, item) in enumerate(keyed, 1):
        first, *more = _pretty(item, indent + 1)
        shown = [key + first.strip(), *more]
        shown[-1] += "," if number < len(keyed) else ""
        if beside and (more or len(inside) + len(beside) + len(shown[0]) > _WIDTH):
            yield inside + beside
            beside = ""
        if more:
            yield inside + shown[0]
            yield from shown[1:]
        else:
            beside += shown[0]
    if beside:
        yield inside + beside
    yield inside + closing
