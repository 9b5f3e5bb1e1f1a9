"""Folding the updates of a superstep, in task order, into new values (rules R2, R6, R16). Nothing is changed here.

The result says what to write; appends are kept apart as pending items, since the engine may extend in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from graphrt._engine.task import Task
from graphrt._plan.fields import ABSENT, APPEND, LAST, Field, describe
from graphrt._plan.state import Values, short
from graphrt.commands import DELETE, Replacement
from graphrt.errors import ConcurrentUpdateError, Place, UpdateError, told

CONTAINERS: Final[frozenset[Any]] = frozenset({list, dict, set})
"""Types whose length is watched, and which a reducer gets as a copy."""


@final
class Prefix:
    """In an undo record: the value before was the first *length* items of the one after."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


Undo = dict[str, Any]
"""Field to the value before (ABSENT, a Prefix, or the value)."""


@final
class Folded:
    """What a superstep changes."""

    __slots__ = ("grown", "undo", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """Field to new value; ABSENT removes it."""
        self.grown: dict[str, list[Any]] = {}
        """Append field to the items to add after `values`, or after the current value where that has none."""
        self.undo: list[Undo] = []
        """One for each task that folded, if asked for."""


class FoldError(Exception):
    """A fold that cannot be: the error for the user, and the tasks that must run again."""

    def __init__(self, error: UpdateError, tasks: Sequence[Task]) -> None:
        super().__init__(error)
        self.error = error
        self.tasks = tasks


def fold(
    fields: Mapping[str, Field],
    values: Values,
    tasks: Sequence[Task],
    *,
    ephemeral: Sequence[Field] = (),
    record: bool = False,
    past: bool = False,
    where: Callable[[], Place] = Place,
) -> Folded:
    """Fold the updates of *tasks* over *values*.

    Args:
        past: An entry tells of it already: what reducers made then is not judged now.

    Raises:
        FoldError: Two tasks wrote a last-value field, or a reducer raised, or returned None where that cannot be.
    """
    result = Folded()
    out, grown = result.values, result.grown
    first_undo: Undo = {}
    for field in ephemeral:
        name = field.name
        default = field.reset()
        if values.get(name, ABSENT) is not default and (name in values or default is not ABSENT):
            out[name] = default
            if record:
                first_undo[name] = values.get(name, ABSENT)
    writers: dict[str, Task] = {}
    exclusive: set[str] = set()
    for task in tasks:
        undo: Undo = first_undo
        first_undo = {}
        for update in task.updates:
            for name in update:
                field, value = fields[name], update[name]
                marker = value is DELETE or value.__class__ is Replacement
                if name not in writers:
                    writers[name] = task
                before = writers[name]
                if before is not task and (marker or not field.aggregates or name in exclusive):
                    raise _conflict(field, before, task, tasks, where)
                if marker:
                    exclusive.add(name)
                if record and (marker or name not in undo):
                    _note_before(undo, field, values, out, grown, whole=marker)
                if marker:
                    grown.pop(name, None)
                    out[name] = field.default() if value is DELETE else value.value
                elif field.kind == APPEND:
                    if name in grown:
                        grown[name] += value
                    else:
                        grown[name] = list(value)
                elif field.kind == LAST:
                    out[name] = value
                else:
                    out[name] = _reduced(field, values, out, value, task, tasks, where)
                    if out[name] is None and not (field.nullable or past or value is None):
                        raise _none(field, task, tasks, where)
        if record:
            result.undo.append(undo)
    return result


def _note_before(
    undo: Undo, field: Field, values: Values, out: dict[str, Any], grown: dict[str, list[Any]], *, whole: bool
) -> None:
    """Note in *undo* what *field* is before this write; a Prefix will do if the write only adds at the end.

    Args:
        whole: The write is no appending: the old value itself is needed.
    """
    name = field.name
    known = undo.get(name, undo)
    if known is not undo and known.__class__ is not Prefix:
        return
    base = out[name] if name in out else values.get(name, ABSENT)
    pending = grown.get(name)
    if field.kind != APPEND or ((base is ABSENT or base is None) and pending is None):
        undo[name] = base
        return
    start: Any = [] if base is ABSENT or base is None else base
    length = known.length if known.__class__ is Prefix else len(start) + len(pending or ())
    undo[name] = type(start)([*start, *(pending or ())][:length]) if whole else Prefix(length)


def _reduced(
    field: Field,
    values: Values,
    out: dict[str, Any],
    value: Any,
    task: Task,
    tasks: Sequence[Task],
    where: Callable[[], Place],
) -> Any:
    current = out[field.name] if field.name in out else values.get(field.name, ABSENT)
    if current is ABSENT:
        if field.identity is None:
            return value
        current = field.identity()
    try:
        # A reducer that changes its first argument would change every snapshot: it gets a copy of a container.
        return field.reduce(current.copy() if current.__class__ in CONTAINERS else current, value)
    except Exception as error:  # noqa: BLE001 - user code: it is told as the field allows
        wrote = [t for t in tasks if any(field.name in update for update in t.updates)]
        said = told(error)
        known = f"current {short(current)}, incoming {short(value)} from node {task.node.name!r}"
        if field.untracked:  # what the reducer says may quote a value, and so may the exception itself (rule R16)
            said = type(error).__name__
            known = f"raised at {_place(error)}, incoming from node {task.node.name!r}; the field is untracked"
        raised = UpdateError(
            f"Reducer {field.reducer_name!r} of field {field.name!r} raised {said}",
            code="reducer-failed",
            where=where(),
            known=known,
            fix="Correct the reducer, or what the node returns, then retry.",
            node=task.node.name,
            field=field.name,
        )
        raised.__cause__ = None if field.untracked else error
        raise FoldError(raised, wrote) from raised.__cause__


def _none(field: Field, task: Task, tasks: Sequence[Task], where: Callable[[], Place]) -> FoldError:
    wrote = [t for t in tasks if any(field.name in update for update in t.updates)]
    error = UpdateError(
        f"Reducer {field.reducer_name!r} of field {field.name!r} returned None, which the field cannot be.",
        code="reducer-failed",
        where=where(),
        known=f"{field.name}: {describe(field.annotation)}",
        fix="Return the new value: a method that changes its object, such as list.append, returns None. Then retry.",
        node=task.node.name,
        field=field.name,
    )
    return FoldError(error, wrote)


def _place(error: Exception) -> str:
    """File and line where *error* was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at is not None else "an unknown place"


def _conflict(field: Field, one: Task, two: Task, tasks: Sequence[Task], where: Callable[[], Place]) -> FoldError:
    wrote = [t for t in tasks if any(field.name in update for update in t.updates)]
    nodes = tuple(dict.fromkeys(t.node.name for t in wrote))
    writes = [(t.id, update[field.name]) for t in wrote for update in t.updates if field.name in update]
    why = (
        "which has no aggregating reducer"
        if not field.aggregates
        else "one of them with Overwrite or DELETE, which allows no other write"
    )
    both = f"{one.node.name!r} and {two.node.name!r}" if one.node is not two.node else f"{one.node.name!r} twice"
    return FoldError(
        ConcurrentUpdateError(
            f"Two tasks of one superstep wrote field {field.name!r}, {why}: {both}.",
            where=where(),
            known=f"{', '.join(id_ for id_, _ in writes)} wrote it; the field is untracked"
            if field.untracked
            else ", ".join(f"{id_} wrote {short(value)}" for id_, value in writes),
            fix="Give the field a reducer (Annotated[T, append], ...), or let one node write it.",
            field=field.name,
            nodes=nodes,
            node=two.node.name,
            values=() if field.untracked else tuple(value for _, value in writes),
        ),
        wrote,
    )


def combined(fields: Mapping[str, Field], updates: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Several updates of one task as one: aggregated fields through their reducer, others by the last write."""
    if not updates:
        return None
    if len(updates) == 1:
        return dict(updates[0])
    result: dict[str, Any] = {}
    for update in updates:
        for name, value in update.items():
            marker = value is DELETE or value.__class__ is Replacement
            before = result.get(name, DELETE)
            if marker or before is DELETE or not fields[name].aggregates:
                result[name] = value
            elif before.__class__ is Replacement:
                result[name] = Replacement(fields[name].reduce(before.value, value))
            else:
                result[name] = fields[name].reduce(before, value)
    return result
