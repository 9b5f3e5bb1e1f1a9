"""Storability check when a node returns (rule R7): values that cannot be stored exactly are rejected before the fold.

The check is to encode the value. Updates keep their bytes for the journal (`Stamped`), so that a value is encoded only
once. `_codec` defines how values are encoded, and `_journal` where the bytes are stored.

`engine.codec` is None in a run without a store, which accepts everything. With `engine.redactor`, texts in values are
replaced by rules before anything else. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from graphrt._codec import BLOB_BYTES, NotStorable
from graphrt._engine.redacting import redacted_form, redacted_sends, redacted_update, redacted_value
from graphrt._engine.task import Due, Task
from graphrt._plan.fields import ABSENT
from graphrt._plan.state import Values
from graphrt.errors import UpdateError
from graphrt.errors._codes.nodes import NOT_STORABLE, STATE_NOT_STORABLE

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.run_state import RunState


@final
class Stamped(dict[str, Any]):
    """A validated update with the encoded form of its values."""

    __slots__ = ("blobs", "lines")

    lines: dict[str, bytes]
    """Encoded values by tracked field; a value above `BLOB_BYTES` is replaced by a reference to its blob."""
    blobs: dict[str, bytes]
    """Encoded large values, and the bytes of images, audio and documents, by their SHA-256 in hex."""


def stamped(engine: RunState, task: Task, update: Mapping[str, Any]) -> dict[str, Any]:
    """Return *update*, redacted, and as a `Stamped` if there is a store; unchanged without store and redactor.

    Args:
        task: The task whose node returned it, for errors.
        update: Validated values by field.

    Raises:
        UpdateError: A value cannot be stored exactly.
        AuditError: A value could not be redacted.
    """
    if engine.codec is None and engine.redactor is None:
        return update  # type: ignore[return-value]  # updates are dicts of the engine's own
    try:
        if engine.redactor is not None:
            update = redacted_update(engine, update, f"an update of node {task.node.name!r}")
        if engine.codec is None:
            return update  # type: ignore[return-value]  # as above
        return stamp(engine.codec, update, engine.plan.state.untracked)
    except NotStorable as error:
        raise not_storable(engine, task, error, "returned a value") from error


def storable(engine: RunState, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return *values* as a `Stamped` with the encoded tracked values; unchanged in a run without a store.

    Raises:
        NotStorable: A value cannot be stored exactly; its path begins with the field.
    """
    if engine.codec is not None:
        return stamp(engine.codec, values, engine.plan.state.untracked)
    return values  # type: ignore[return-value]  # a dict of the caller's own


def stamp(codec: Codec, values: Mapping[str, Any], untracked: frozenset[str] = frozenset()) -> Stamped:
    """Return *values* as a `Stamped`; fields in *untracked* are not encoded.

    Raises:
        NotStorable: A value cannot be stored exactly; its path begins with the field.
    """
    stamped_values = Stamped(values)
    stamped_values.lines = lines = {}
    blobs: dict[str, bytes] = {}
    stamped_values.blobs = blobs
    for name, value in values.items():
        if name in untracked:
            continue
        files: dict[str, bytes] = {}
        line = codec.dump(value, name, files)
        if files:
            blobs |= files
        elif len(line) > BLOB_BYTES:  # not with references to files, because a blob cannot refer to another one
            line = reference(line, blobs)
        lines[name] = line
    return stamped_values


def reference(line: bytes, blobs: dict[str, bytes]) -> bytes:
    """Add the encoded value *line* to *blobs*, under its SHA-256, and return the encoded reference that replaces it.

    A store keeps each blob once, however many entries refer to it.
    """
    from hashlib import sha256

    name = sha256(line).hexdigest()
    blobs[name] = line
    return b'{"$t":"blob","v":"%s"}' % name.encode()


def tracked(engine: RunState, update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *update* without untracked fields, which never occur in events (R16).

    Encoded bytes are kept. Only this function removes untracked fields from updates for events (decision 0051).
    """
    untracked = engine.plan.state.untracked
    if not untracked or untracked.isdisjoint(update):
        return update
    tracked_values = {name: value for name, value in update.items() if name not in untracked}
    if not isinstance(update, Stamped):
        return tracked_values
    stripped = Stamped(tracked_values)
    stripped.lines, stripped.blobs = update.lines, update.blobs  # untracked fields have no bytes
    return stripped


def with_untracked(engine: RunState, values: Values) -> Values:
    """Set the untracked fields in *values*, which are never stored, to their defaults (R16); return *values*.

    For values that come from a store, and for those that an error shows.
    """
    for name in engine.plan.state.untracked:
        value = engine.fields[name].reset()
        if value is ABSENT:
            values.pop(name, None)
        else:
            values[name] = value
    return values


def state_without_untracked(engine: RunState) -> Any:
    """Return the state, as an instance of the user's class, for an attribute of an error about a limit of the run.

    Untracked fields have their defaults: errors are logged and journalled, where untracked values must not appear
    (R16).
    """
    values = engine.values
    return engine.make_view(with_untracked(engine, dict(values)) if engine.plan.state.untracked else values)


def check_storable(engine: RunState, task: Task, value: Any, what: str, *, is_form: bool = False) -> Any:
    """Check that a *value* of the node can be stored, and return it redacted.

    For values outside of updates: payloads and defaults of questions, results of effects, model replies, and
    arguments of Sends.

    Args:
        what: The action of the node, for errors, such as `sends a value`.
        is_form: Whether the value is a form of graphrt's own; see `redacted_form`.

    Raises:
        UpdateError: The value cannot be stored exactly.
        AuditError: The value could not be redacted.
    """
    codec = engine.codec
    if engine.redactor is not None:
        try:
            redact = redacted_form if is_form else redacted_value
            value = redact(engine, value, f"a value: node {task.node.name!r} {what}")
        except NotStorable as error:
            raise not_storable(engine, task, error, what) from error
    if codec is not None:
        try:
            codec.dump(value, "", {})
        except NotStorable as error:
            raise not_storable(engine, task, error, what) from error
    return value


def check_sends(engine: RunState, due: list[Due]) -> list[Due]:
    """Check that the arguments of the Sends in *due* can be stored, and return *due* with redacted arguments.

    For the Sends of a commit or of an edit.

    Raises:
        UpdateError: One of them cannot be stored exactly.
        AuditError: One of them could not be redacted.
    """
    if engine.redactor is not None:
        try:
            due = redacted_sends(engine, due)
        except NotStorable as error:
            raise not_storable(engine, None, error, "sends an argument") from error
    if engine.codec is None:
        return due
    for item in due:
        if item.is_send:
            try:
                engine.codec.dump(item.arg, "", {})
            except NotStorable as error:
                raise not_storable(engine, None, error, f"sends node {item.node.name!r} an argument") from error
    return due


def state_not_storable(engine: RunState, error: NotStorable, verb: str) -> UpdateError:
    """Return the error for a state that cannot be stored as a whole; *verb* is the method that needed to, such as `prune`.

    Updates and inputs were checked when they entered the thread. What remains is a part of the result of a reducer, of
    which only the class is checked.
    """
    # The path begins with the field, as in `notes[3].when`.
    field = engine.fields.get(re.split(r"\W", error.path, maxsplit=1)[0])
    reducer = engine.plan.update.reducer
    maker = reducer.name if reducer is not None else field.reducer_name if field is not None else None
    return STATE_NOT_STORABLE(
        place=f" at {error.path}" if error.path else "",
        why=error.why,
        maker=f"reducer {maker!r}" if maker is not None else "a reducer",
        verb=verb,
        where=engine.where(),
    )


def not_storable(engine: RunState, task: Task | None, error: NotStorable, what: str) -> UpdateError:
    """Return the error for a value that cannot be stored. *what* is the action of the node, such as `returned a value`.

    Args:
        task: The task whose node produced the value; None if a router did.
    """
    node = task.node.name if task is not None else None
    who = f"Node {node!r}" if node is not None else "The graph"
    place = f" at {error.path}" if error.path else ""
    return NOT_STORABLE(
        who=who,
        did=what,
        place=place,
        why=error.why,
        advice=error.fix,
        node=node,
        # Without a task, the place would show a path as that of a nested graph.
        path=error.path if task is not None else None,
        where=engine.where(task),
    )
