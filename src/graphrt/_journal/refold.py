"""Folding supersteps of one plain task straight from their bytes: what `brief` wrote, and `wire` and `evolve` would fold.

Most of a long thread is made of them, and making events of each would take most of the time of loading it. A record
that follows another one of the same run is foreseen but for its time and its values: what stands there is compared, not
parsed. Whatever is not exactly of that shape is left to the general way, which knows everything and names what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from pydantic_core import from_json

from graphrt import events
from graphrt._codec.codec import is_plain
from graphrt._engine.outcome import MARKERS
from graphrt._engine.standing import NO_ITEMS, due_again
from graphrt._journal.forms import CODES
from graphrt._journal.wire import VERSION
from graphrt._plan.fields import ADD, APPEND, CALL, LAST

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.route import Due
    from graphrt._journal.reader import Fold
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


class Shape(NamedTuple):
    """What is the same in all supersteps of one node with the same fields and the same next node."""

    task: bytes
    """What stands between the two numbers of the superstep."""
    commit: bytes
    """What stands after the second one."""
    node: str
    fields: tuple[tuple[str, int], ...]
    """Name and kind of fold of what was written, line by line."""
    boxed: tuple[str, ...]
    """Fields that may hold a container after it, but for lists that were appended to."""
    due: list[Due]
    """What is due after it."""


def refold(fold: Fold, records: Sequence[Record], at: int) -> int:  # noqa: C901, PLR0912, PLR0915 - hot: once for each record
    """Fold *records* from index *at* on while they are such supersteps; returns the index of the first that is not.

    Raises:
        StoreError: A seal does not fit, or a value cannot be read.
    """
    engine, chain = fold.engine, fold.chain
    due = engine.due
    if len(due) != 1 or engine.tasks or engine.ephemeral or engine.trail is not None or engine.aliases:
        return at
    load, fetch = fold.reader.codec.load, fold.reader.fetch
    values, visits = engine.values, engine.visits
    seq, cause, run, run_id = fold.seq, fold.cause, b"", b""
    superstep, node, tail = engine.superstep, due[0].node, 0
    shapes: dict[str, Shape] = {}
    begin, end = at, len(records)
    while at < end:
        last, count, body, seal = records[at]
        if count != 2 or last != seq + 2 or body.__class__ is not bytes:
            break
        text = body[:-9]
        if body[-9:] != b"\n%08x" % crc32(text):
            break
        lines = text.split(b"\n")
        superstep += 1
        version, _, rest = lines[0].partition(b",")
        when, _, rest = rest.partition(b",")
        shape = shapes.get(node.name)
        if shape is None or rest != _REST % (run, cause, superstep, shape.task, superstep, shape.commit):
            found = _STRUCTURE.fullmatch(lines[0])
            if found is None:
                break
            run_id, led, number, task, commit = found.groups()
            try:
                shape = _shape(fold, task, commit)
            except (ValueError, LookupError):
                break
            if shape is None or shape.node != node.name or int(number) != superstep or int(led) != cause:
                break
            shapes[node.name] = shape
        fields = shape.fields
        if version != _VERSION or len(lines) != len(fields) + 1:
            break
        plain = is_plain(text)
        new: list[Any] = []
        try:
            stamp = from_json(when, allow_inf_nan=False)
            for line, (name, kind) in enumerate(fields, 1):
                value = from_json(lines[line], allow_inf_nan=False) if plain else load(lines[line], fetch)
                if kind == APPEND:
                    fits = value.__class__ is list and values[name].__class__ is list
                elif kind == ADD:
                    fits = value.__class__ in _NUMBERS and values[name].__class__ in _NUMBERS
                else:
                    fits = value.__class__ not in MARKERS
                if not fits:
                    break
                new.append(value)
        except ValueError:
            break
        if len(new) != len(fields) or stamp.__class__ not in _NUMBERS:
            break
        if chain is not None:
            chain.extend([(name, lines[line]) for line, (name, _) in enumerate(fields, 1)])
            chain.check(last, 2, stamp, lines, seal)
        for line, (name, kind) in enumerate(fields):
            if kind == APPEND:
                values[name].extend(new[line])
            elif kind == ADD:
                values[name] += new[line]
            else:
                values[name] = new[line]
        if shape.boxed:
            engine.take(values, shape.boxed)
        visits[node.index] += 1
        seq, cause, run = last, last, run_id
        tail += len(body) + len(seal)
        at += 1
        due = shape.due
        if len(due) != 1:
            break
        node = due[0].node
    if at > begin:
        for name in engine.sizes:
            engine.sizes[name] = len(values[name])
        engine.steps += at - begin
        engine.superstep += at - begin
        engine.due = list(due)
        engine.forget_view()
        fold.seq = fold.cause = fold.steps_at = seq
        fold.run, fold.tail = from_json(run), fold.tail + tail
        fold.answers, fold.nested = {}, []
    return at


def _shape(fold: Fold, task: bytes, commit: bytes) -> Shape | None:
    """What a structure tells that has *task* and *commit* as its parts; None if it is not for us."""
    engine: Engine = fold.engine
    known, fields = fold.reader.names.known, engine.fields
    written, _, _ = task.rpartition(b"],[")
    (_, _, number), *updates = from_json(b"[[0" + written + b"]")
    told: list[list[int]] = from_json(b"[0" + commit[:-2])[1:]
    placed: list[int] = updates[0][0] if updates and updates[0] else []
    names = [known[at] for at in placed[::2]]
    if placed[1::2] != list(range(1, len(names) + 1)) or len(set(names)) != len(names) or len(told) > 2:
        return None
    kinds = [(name, fields[name].kind if name in fields and name in engine.values else CALL) for name in names]
    if any(kind == CALL for _, kind in kinds):
        return None
    boxed = tuple(name for name, kind in kinds if kind == LAST and (fields[name].boxed or name in engine.sizes))
    due: list[int] = told[1] if len(told) == 2 else []
    after = due_again(engine, [known[at] for at in due], NO_ITEMS, NO_ITEMS)
    return Shape(task, commit, known[number], tuple(kinds), boxed, after)
