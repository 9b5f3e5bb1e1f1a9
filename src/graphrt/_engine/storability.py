"""Storability at the node's boundary (rule R7): what cannot be stored exactly is refused before anything is folded.

What was found storable keeps its bytes, so that the journal need not make them again. How values become bytes is the
codec's; where the bytes go is the journal's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._codec import BLOB_BYTES, NotStorable
from graphrt._engine.route import Due
from graphrt._engine.task import Task
from graphrt._plan.fields import ABSENT, own
from graphrt._plan.state import Values
from graphrt.errors import UpdateError

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.engine import Engine


@final
class Stamped(dict[str, Any]):
    """A validated update with the bytes that stand for it in the journal."""

    __slots__ = ("blobs", "lines")

    lines: dict[str, bytes]
    """Tracked field to its encoded value, or to the reference to a large one."""
    blobs: dict[str, bytes]
    """Large values by the name that their content gives them."""


def stamped(engine: Engine, task: Task, update: Mapping[str, Any]) -> dict[str, Any]:
    """*update*, with its bytes where the run's store keeps such.

    Raises:
        UpdateError: A value cannot be stored exactly.
    """
    if engine.codec is None:
        return update  # type: ignore[return-value]  # updates are dicts of the engine's own
    try:
        return storable(engine, update)
    except NotStorable as error:
        raise not_storable(engine, task, error, "returned a value") from error


def storable(engine: Engine, values: Mapping[str, Any]) -> dict[str, Any]:
    """*values*, of which those that are tracked can be stored; with their bytes where the run's store keeps such.

    Every store refuses what a durable one would, so that tests in memory find it (rule R7).

    Raises:
        NotStorable: A value cannot be stored exactly; its path begins with the field.
    """
    codec, untracked = engine.codec, engine.plan.state.untracked
    if engine.stamps and codec is not None:
        return stamp(codec, values, untracked)
    if codec is not None and not is_simple(values.values()):
        for name, value in values.items():
            if name not in untracked:
                codec.dump(value, name)
    return values  # type: ignore[return-value]  # a dict of the caller's own


def kept(engine: Engine, task: Task, update: dict[str, Any]) -> dict[str, Any]:
    """A copy of *update* for a store that keeps objects, of values that could be stored.

    Raises:
        UpdateError: A value cannot be stored exactly.
    """
    made = update.copy()
    try:
        for name, value in update.items():
            kind = value.__class__
            if kind is int:
                if _LOW < value < _HIGH:
                    continue
            elif kind in _ANYWHERE:
                continue
            made[name] = _simple(value, _LEVELS)
    except ValueError:
        return {name: own(value) for name, value in stamped(engine, task, update).items()}
    return made


def is_simple(values: Iterable[Any]) -> bool:
    """Whether *values* surely can be stored, found out in a fraction of the time that the codec takes."""
    try:
        for value in values:
            _simple(value, _LEVELS)
    except ValueError:
        return False
    return True


def _simple(value: Any, most: int) -> Any:
    """A copy of *value* if it is plain data and small: nothing that the codec would refuse.

    Raises:
        ValueError: It may be more than that (that text is no Unicode raises a UnicodeEncodeError, which is one).
    """
    kind = value.__class__
    if kind is str:
        if not value.isascii():
            value.encode()
        if len(value) < _SHORT:
            return value
    elif kind in _ANYWHERE or (kind is int and _LOW < value < _HIGH):
        return value
    elif kind is list:
        if len(value) < _FEW and most:
            items: list[Any] = []
            for item in value:
                items.append(_simple(item, most - 1))  # noqa: PERF401 - in CPython 3.11 it takes less time
            return items
    elif kind is dict and len(value) < _FEW and most and "$t" not in value:
        copied = value.copy()
        for key, item in value.items():
            if key.__class__ is not str or not key.isascii():
                raise ValueError
            if item.__class__ is not str or not item.isascii() or len(item) >= _SHORT:
                copied[key] = _simple(item, most - 1)
        return copied
    raise ValueError


_ANYWHERE: Final = frozenset({bool, float, type(None)})
"""Types all of whose values can be stored."""
_LOW: Final = -(2**63)
_HIGH: Final = 2**63
_SHORT: Final = 100_000
_FEW: Final = 20
_LEVELS: Final = 8
"""With so few items and levels only what nobody writes could be longer than a stored value may be."""


def stamp(codec: Codec, values: Mapping[str, Any], untracked: frozenset[str] = frozenset()) -> Stamped:
    """*values* with the bytes of those that are tracked.

    Raises:
        NotStorable: A value cannot be stored exactly; its path begins with the field.
    """
    made = Stamped(values)
    made.lines = lines = {}
    blobs: dict[str, bytes] = {}
    made.blobs = blobs
    for name, value in values.items():
        if name in untracked:
            continue
        line = codec.dump(value, name)
        if len(line) > BLOB_BYTES:
            line = reference(line, blobs)
        lines[name] = line
    return made


def reference(line: bytes, blobs: dict[str, bytes]) -> bytes:
    """Put the encoded value *line* among *blobs*, and return the reference that stands for it."""
    from hashlib import sha256

    name = sha256(line).hexdigest()
    blobs[name] = line
    return b'{"$t":"blob","v":"%s"}' % name.encode()


def tracked(engine: Engine, update: Mapping[str, Any]) -> Mapping[str, Any]:
    """*update* without untracked fields, which are never stored (rule R16)."""
    untracked = engine.plan.state.untracked
    if not untracked or untracked.isdisjoint(update):
        return update
    kept = {name: value for name, value in update.items() if name not in untracked}
    if not isinstance(update, Stamped):
        return kept
    told = Stamped(kept)
    told.lines, told.blobs = update.lines, update.blobs
    return told


def with_untracked(engine: Engine, values: Values) -> Values:
    """*values* with the defaults of untracked fields, which are never stored (rule R16)."""
    for name in engine.plan.state.untracked:
        value = engine.fields[name].reset()
        if value is ABSENT:
            values.pop(name, None)
        else:
            values[name] = value
    return values


def told_state(engine: Engine) -> Any:
    """The state for an error to have: errors are logged and journalled, so untracked fields are at their defaults."""
    values = engine.values
    return engine.make_view(with_untracked(engine, dict(values)) if engine.plan.state.untracked else values)


def check_storable(engine: Engine, task: Task, value: Any, what: str) -> None:
    """Refuse a *value* of the node that cannot be stored.

    Raises:
        UpdateError: It cannot.
    """
    codec = engine.codec
    if codec is not None and not is_simple((value,)):
        try:
            codec.dump(value)
        except NotStorable as error:
            raise not_storable(engine, task, error, what) from error


def check_sends(engine: Engine, due: Sequence[Due]) -> None:
    """Refuse what a router sends and the store cannot keep.

    Raises:
        UpdateError: It cannot.
    """
    if engine.codec is None:
        return
    for item in due:
        if item.is_send and not is_simple((item.arg,)):
            try:
                engine.codec.dump(item.arg)
            except NotStorable as error:
                raise not_storable(engine, None, error, f"sends node {item.node.name!r} an argument") from error


def not_storable(engine: Engine, task: Task | None, error: NotStorable, what: str) -> UpdateError:
    """The error for a value that cannot be stored; *what* the node did with it, for instance `returned a value`."""
    node = task.node.name if task is not None else None
    who = f"Node {node!r}" if node is not None else "The graph"
    place = f" at {error.path}" if error.path else ""
    return UpdateError(
        f"{who} {what} that cannot be stored{place}: it {error.why}",
        code="not-storable",
        where=engine.where(task),
        known="the thread is as it was at the last commit; nothing of this task was stored",
        fix=f"{error.fix}. Then retry: finished tasks do not run again.",
        node=node,
        path=error.path,
        boundary=True,
    )
