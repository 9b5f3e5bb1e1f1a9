"""Folding supersteps of one plain task straight from their bytes: what `fast_step_bytes` wrote, and `batch_format` and `evolve` would fold.

Most of a long thread is made of them, and making events of each would take most of the time of loading it. A record
that follows another one of the same run is foreseen but for its time and its values: what stands there is compared, not
parsed. Whatever is not exactly of that shape is left to the general way, which knows everything and names what is wrong.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from pydantic_core import from_json, to_json

from graphrt import events
from graphrt._codec.codec import is_plain
from graphrt._codec.refusal import MAX_DEPTH
from graphrt._engine.outcome import MARKERS
from graphrt._engine.pending_as_data import NO_ITEMS, due_again
from graphrt._journal.batch import LATEST_S
from graphrt._journal.batch_format import VERSION
from graphrt._journal.event_schema import CODES
from graphrt._plan.fields import ADD, APPEND, CALL, LAST
from graphrt.errors import GraphrtError

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.route import Due
    from graphrt._journal.thread_fold import Fold
    from graphrt.stores.protocol import Record

_CODES: Final = (CODES[events.TaskSucceeded], CODES[events.SuperstepCommitted])
_STRUCTURE: Final = re.compile(
    rb'\[%d,[^,]+,("[^"\\,]*"),(\d+),\[\],\[\[%d,0,\[(\d+)(,0,\d+\](?:,\[\[[\d,]*\]\])?\],\[%d,0,)\3((?:,\[[\d,]*\])*\]\]\])'
    % (VERSION, *_CODES)
)
_REST: Final = b"%%b,%%d,[],[[%d,0,[%%d%%b%%d%%b" % _CODES[0]
"""All of a structure but its version and its time, in which there are no commas."""
_VERSION: Final = b"[%d" % VERSION
_NUMBERS: Final = (int, float)
_FITTING: Final[Mapping[int, tuple[type, ...]]] = {APPEND: (list,), ADD: _NUMBERS}
"""What a kind of fold takes and stands on; another one takes all but markers."""


class Shape(NamedTuple):
    """What is the same in all supersteps of one node with the same fields and the same next node."""

    task: bytes
    """What stands between the two numbers of the superstep."""
    commit: bytes
    """What stands after the second one."""
    node: str
    place: int
    """Index of the node."""
    fields: tuple[tuple[str, int, slice], ...]
    """Name, kind of fold and place of the salt in the seal, of what was written, line by line."""
    sealed: int
    """Length of the seal."""
    names: frozenset[str]
    boxed: tuple[str, ...]
    """Fields that may hold a container after it, but for lists that were appended to."""
    due: list[Due]
    """What is due after it."""


class _Run:
    """Records that follow one another, whose structure was compared; their values are still to be read."""

    __slots__ = ("due", "fields", "last", "shapes", "size", "times")

    def __init__(self) -> None:
        self.times: list[bytes] = []
        """When each was, as it stands there."""
        self.shapes: list[Shape] = []
        """Of each."""
        self.fields: dict[str, tuple[int, list[bytes], list[bytes]]] = {}
        """Kind of fold of a field, what was written to it, and the salts of that where the thread is chained."""
        self.due: list[Due] = []
        """What is due after the last one."""
        self.last: int = 0
        """Number of the last entry."""
        self.size: int = 0

    def record(self, field: str, at: int) -> int:
        """Which record has the value number *at* of *field*."""
        wrote = (n for n, shape in enumerate(self.shapes) if field in shape.names)
        return next(itertools.islice(wrote, at, None))


def refold(fold: Fold, records: Sequence[Record], at: int) -> int:
    """Fold *records* from index *at* on while they are such supersteps; returns the index of the first that is not.

    Of a chained thread the rolling digests are compared with the last header, and of each header what needs no hash:
    whatever was folded is what was written, and when. If something differs, half of the records are tried, and so on.
    Every seal is checked where the general way folds, as `replay` does; it is also the one to say which does not fit.
    """
    engine = fold.engine
    if len(engine.due) != 1 or engine.tasks or engine.ephemeral or engine.trail is not None or engine.aliases:
        return at
    end = len(records)
    while at < end:
        run = _foreseen(fold, records, at, end)
        count = len(run.times)
        if not count:
            return at
        try:
            _check_heads(fold, run, records[at : at + count])
            made = _values(fold, run)
        except _MisfitError as misfit:  # those before it are as they should be
            end = at + misfit.at
            continue
        if fold.chain is not None:
            written = {name: (lines, salts) for name, (_, lines, salts) in run.fields.items()}
            if not fold.chain.skip(written, run.last, records[at + count - 1].seal):
                end = at + count // 2
                continue
        _take(fold, run, made)
        return at + count
    return at


def _foreseen(fold: Fold, records: Sequence[Record], at: int, end: int) -> _Run:
    """The records from index *at* on, below *end*, that are what has to come."""
    found = _Run()
    engine = fold.engine
    due, seq, superstep = engine.due, fold.seq, engine.superstep
    cause, run, chained = fold.cause, to_json(fold.run), fold.chain is not None
    shapes: dict[str, Shape] = {}
    times, order, fields = found.times, found.shapes, found.fields
    node = due[0].node.name
    for index in range(at, end):
        last, count, body, seal = records[index]
        if count != 2 or last != seq + 2 or body.__class__ is not bytes:
            break
        text = body[:-9]
        if body[-9:] != b"\n%08x" % crc32(text):
            break
        lines = text.split(b"\n")
        head = lines[0].split(b",", 2)
        superstep += 1
        shape = shapes.get(node)
        if len(head) != 3 or head[0] != _VERSION:
            break
        if shape is None or head[2] != _REST % (run, cause, superstep, shape.task, superstep, shape.commit):
            shape = _met(fold, lines[0], node, superstep, cause, run)
            if shape is None:
                break
            shapes[node] = shape
        if len(lines) != len(shape.fields) + 1 or len(seal) != shape.sealed:
            break
        for line, (name, kind, salt) in enumerate(shape.fields, 1):
            if name not in fields:
                fields[name] = (kind, [], [])
            _, written, salts = fields[name]
            written.append(lines[line])
            if chained:
                salts.append(seal[salt])
        times.append(head[1])
        order.append(shape)
        found.size += len(body) + len(seal)
        seq = cause = last
        due = shape.due
        if len(due) != 1:
            break
        node = due[0].node.name
    found.due, found.last = due, seq
    return found


def _met(fold: Fold, structure: bytes, node: str, superstep: int, cause: int, run: bytes) -> Shape | None:
    """The shape of a record that was not foreseen; None if it is none of ours."""
    found = _STRUCTURE.fullmatch(structure)
    if found is None:
        return None
    run_id, led, number, task, commit = found.groups()
    try:
        shape = _shape(fold, task, commit)
    except (ValueError, LookupError):
        return None
    if shape is None or shape.node != node or int(number) != superstep or int(led) != cause or run_id != run:
        return None
    return shape


class _MisfitError(Exception):
    """A value is not what its field takes, or not readable; *at* is the number of its record."""

    def __init__(self, at: int) -> None:
        self.at = at


def _check_heads(fold: Fold, run: _Run, records: Sequence[Record]) -> None:
    """Compare what the records and their headers say without a hash.

    Raises:
        _MisfitError: They differ, or a time is none.
    """
    times: list[float] = _all_of(run.times, _NUMBERS)
    if not times or max(times) > LATEST_S or min(times) < -LATEST_S:
        raise _MisfitError(next(n for n, time in enumerate(run.times) if not _is_time(time)))
    if fold.chain is not None:
        told = fold.chain.told(range(run.last - 2 * len(times) + 2, run.last + 1, 2), 2, times)
        found = fold.chain.heads([record.seal for record in records])
        if found != told:
            raise _MisfitError(next(n for n, head in enumerate(found) if head != told[n]))


def _is_time(line: bytes) -> bool:
    read = _all_of([line], _NUMBERS)
    return bool(read) and abs(read[0]) <= LATEST_S


def _values(fold: Fold, run: _Run) -> dict[str, list[Any]]:
    """What was written to each field, all of it that counts. Nothing of the engine is changed.

    Raises:
        _MisfitError: One of them is for the general way.
    """
    values, load, fetch = fold.engine.values, fold.reader.codec.load, fold.reader.fetch
    made: dict[str, list[Any]] = {}
    for name, (kind, lines, _) in run.fields.items():
        fits = _FITTING.get(kind)
        if fits is not None and values[name].__class__ not in fits:
            raise _MisfitError(run.record(name, 0))
        read = _all_of(lines, fits)
        if not read:
            for at, line in enumerate(lines):
                try:
                    value = load(line, fetch)
                except (ValueError, GraphrtError):
                    raise _MisfitError(run.record(name, at)) from None
                if value.__class__ in MARKERS if fits is None else value.__class__ not in fits:
                    raise _MisfitError(run.record(name, at))
                read.append(value)
        made[name] = read
    return made


def _all_of(lines: list[bytes], kinds: tuple[type, ...] | None) -> list[Any]:
    """The values of *lines*, read at once; none if they are not plain, or not all of *kinds*."""
    text = b",".join(lines)
    # Of a short line nothing can be too deep: one look at all of them tells whether there is a tag.
    short = max(map(len, lines)) < MAX_DEPTH
    if not (is_plain(text, deep=False) if short else all(map(is_plain, lines))):
        return []
    try:
        read: list[Any] = from_json(b"[%b]" % text, allow_inf_nan=False)
    except ValueError:
        return []
    if len(read) != len(lines) or (kinds is not None and not {value.__class__ for value in read} <= {*kinds}):
        return []
    return read


def _take(fold: Fold, run: _Run, made: dict[str, list[Any]]) -> None:
    """Let the engine stand after the last of the records."""
    engine, count = fold.engine, len(run.times)
    values = engine.values
    for name, read in made.items():
        kind = run.fields[name][0]
        if kind == APPEND:
            values[name].extend(itertools.chain.from_iterable(read))
        elif kind == ADD:
            total = values[name]
            for value in read:  # one after another: how floats are rounded depends on it
                total += value
            values[name] = total
        else:
            values[name] = read[-1]
    for shape in run.shapes:
        engine.visits[shape.place] += 1
    for shape in {shape.node: shape for shape in run.shapes}.values():
        engine.take(values, shape.boxed)
    for name in engine.sizes:
        engine.sizes[name] = len(values[name])
    engine.steps += count
    engine.superstep += count
    engine.due = list(run.due)
    engine.forget_view()
    fold.seq = fold.cause = fold.steps_at = run.last
    fold.tail += run.size
    fold.answers, fold.asked, fold.withdrawn = {}, {}, {}
    fold.nested, fold.reader.beside = [], {}


def _shape(fold: Fold, task: bytes, commit: bytes) -> Shape | None:
    """What a structure tells that has *task* and *commit* as its parts; None if it is not for us."""
    engine: Engine = fold.engine
    known: list[str] = fold.reader.names.known
    fields = engine.fields
    written, _, _ = task.rpartition(b"],[")
    parts: list[list[Any]] = from_json(b"[[0" + written + b"]")
    number, updates = int(parts[0][2]), parts[1:]
    told: list[list[int]] = from_json(b"[0" + commit[:-2])[1:]
    placed: list[int] = updates[0][0] if updates and updates[0] else []
    names = [known[at] for at in placed[::2]]
    if placed[1::2] != list(range(1, len(names) + 1)) or len(set(names)) != len(names) or len(told) > 2:
        return None
    chain, length = fold.chain, len(names) + 1
    cuts = [chain.salt(line) for line in range(1, length)] if chain is not None else [slice(0)] * len(names)
    kinds = [fields[name].kind if name in fields and name in engine.values else CALL for name in names]
    if CALL in kinds:
        return None
    boxed = tuple(
        name
        for name, kind in zip(names, kinds, strict=True)
        if kind == LAST and (fields[name].boxed or name in engine.sizes)
    )
    due: list[int] = told[1] if len(told) == 2 else []
    after = due_again(engine, [known[at] for at in due], NO_ITEMS, NO_ITEMS, NO_ITEMS)
    node = known[number]
    return Shape(
        task,
        commit,
        node,
        engine.plan.by_name[node].index,
        tuple(zip(names, kinds, cuts, strict=True)),
        chain.size(length) if chain is not None else 0,
        frozenset(names),
        boxed,
        after,
    )
