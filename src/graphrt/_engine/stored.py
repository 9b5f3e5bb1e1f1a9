"""Storability at the node's boundary (rule R7): what cannot be stored exactly is refused before anything is folded.

What was found storable keeps its bytes, so that the journal need not make them again. How values become bytes is the
codec's; where the bytes go is the journal's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._codec import NotStorable
from graphrt._engine.route import Due
from graphrt._engine.task import Task
from graphrt._plan.fields import ABSENT
from graphrt._plan.state import Values
from graphrt.errors import UpdateError

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.engine import Engine


BLOB_BYTES: Final = 65_536
"""A longer value is stored once, by its content."""


@final
class Stamped(dict[str, Any]):
    """A validated update with the bytes that stand for it in the journal."""

    __slots__ = ("blobs", "lines")

    lines: dict[str, bytes]
    """Tracked field to its encoded value, or to the reference to a large one."""
    blobs: dict[str, bytes]
    """Large values by the name that their content gives them."""


def stamped(engine: Engine, task: Task, update: Mapping[str, Any]) -> dict[str, Any]:
    """*update* with its bytes, where the run's store is durable; else *update*.

    Raises:
        UpdateError: A value cannot be stored exactly.
    """
    codec = engine.codec
    if codec is None:
        return update  # type: ignore[return-value]  # updates are dicts of the engine's own
    try:
        return stamp(codec, update, engine.plan.state.untracked)
    except NotStorable as error:
        raise not_storable(engine, task, error, "returned a value") from error


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
    if codec is not None:
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
        if item.is_send:
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
