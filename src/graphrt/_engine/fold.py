"""Fold the updates of a superstep, in task order: `fold` computes the changes, and `applied` creates the new values.

Rules: updates fold in task order, never in the order in which tasks finished (R2). Two tasks may write one field only
if its reducer aggregates (R6). Ephemeral fields are reset before the fold, and no error quotes the value of an
untracked field (R16).

The result lists the changes. Items to append are kept separate from other new values, because `applied` may extend the
existing list in place. That keeps the cost of an append independent of the length of the list (decision 0009). Nodes,
steps and callers may keep a list of an older state and must not see it change (R15). So a list grows in place only if
its reference count is `SOLE`, which proves that only the dict of values refers to it; otherwise it is copied. The
result also contains the undo records for steps.

The `kind` of a field says how it folds: LAST takes the last value, APPEND adds items to a list, any other kind calls
the reducer. `ABSENT` is a TypedDict key without a value. `ERASED` stands for a value that was erased from the journal.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._cancellations import failures
from graphrt._engine.erased_values import as_items, reduced_erased
from graphrt._engine.ownership import CONTAINERS, SOLE, getrefcount
from graphrt._engine.task import Task
from graphrt._plan.fields import ABSENT, ADD, APPEND, LAST, Field, describe
from graphrt._plan.state import Values, short
from graphrt._plan.state_reducer import WHOLE, NotAStateError, StateChangedError, StateReducer
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import DELETE, ERASED, Replacement
from graphrt.errors import Place, UpdateError, describe_error
from graphrt.errors._codes.nodes import (
    CONCURRENT_UPDATE,
    REDUCER_FAILED,
    REDUCER_RETURNED_NONE,
    STATE_REDUCER_MUTATED_STATE,
    STATEFUL_TASKS,
)
from graphrt.reducers import items_of

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.run_state import RunState


@final
class Prefix:
    """Entry of an undo record: the previous value was the first *length* items of the new one."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


_NUMBERS: Final = frozenset({int, float})
"""Classes that can be added without calling the reducer `add`."""
_NO_VALUE: Final = (None, ABSENT, ERASED)
"""Values of an `append` field that has no list or tuple yet."""
Undo = dict[str, Any]
"""Previous values by field: ABSENT, a Prefix, or the value itself."""


@final
class Folded:
    """The changes of a superstep, not yet applied."""

    __slots__ = ("grown", "removes", "undo", "values")

    values: dict[str, Any]
    """New values by field; ABSENT removes the field."""
    grown: dict[str, list[Any]]
    """Items to append, by field: to the new value in `values`, or to the current one if there is no new one."""
    removes: bool
    """Whether a field loses its value, so that ABSENT may be among `values`."""
    undo: list[Undo]
    """Undo records in task order, one for each task, if they were requested; else empty."""


class FoldError(Exception):
    """A fold failed: the error for the user, and the tasks that a retry has to run again (R9), which wrote the field.

    It never leaves the engine: callers raise its `error`.
    """

    def __init__(self, error: UpdateError, tasks: Sequence[Task]) -> None:
        super().__init__(error)
        self.error = error
        self.tasks = tasks


def fold(
    engine: RunState,
    values: Values,
    tasks: Sequence[Task],
    reducer: StateReducer | None,
    ephemeral: Sequence[Field],
    *,
    past: bool = False,
    where: Callable[[], Place] | None = None,
) -> Folded:
    """Fold the updates of *tasks*, which are in task order, over *values*.

    Args:
        engine: Provides the schema of the state, and whether to create undo records. It is not changed.
        values: The committed values by field.
        tasks: Ended tasks; their `updates` are validated. A task may have several: if its node returned a list, its tools
            wrote, or it ran a nested graph.
        reducer: The reducer of the whole state, for updates under the key `WHOLE`; None if only fields have reducers.
        ephemeral: Fields to reset before the first update.
        past: Whether the superstep is already in the journal: what a reducer returned then is not an error now.
        where: Creates the location for errors; None means `RunState.where`.

    Raises:
        FoldError: Two tasks wrote a field without an aggregating reducer, a reducer raised, or it returned None for a
            field that cannot be None or, with a store, an instance of a class that cannot be stored. A reducer of the
            whole state returned no state, or changed its first argument.
    """
    fields, record = engine.fields, engine.keeps_undo
    result = Folded()
    new_values = result.values = {}
    grown = result.grown = {}
    result.removes = reducer is not None
    undos = result.undo = []
    undo: Undo = {}  # of the current task; resets count as changes of the first one
    for field in ephemeral:  # R16: a value written in superstep k is visible until the fold of k+1
        name = field.name
        default = field.reset()
        if values.get(name, ABSENT) is not default:
            new_values[name] = default
            result.removes = True
            if record:
                undo[name] = values.get(name, ABSENT)
    alone = not tasks[1:]  # so that nothing can conflict
    writers: dict[str, Task] = {}  # the first writer of each field
    exclusive: dict[str, None] = {}  # fields with an Overwrite or DELETE, which allow no other writer (R6)
    for task in tasks:
        for update in task.updates:
            for name in update:
                if reducer is not None and name == WHOLE:
                    changes = _changes(
                        engine, reducer, values, new_values, update[name], task, tasks, where or engine.where, past=past
                    )
                    if record:
                        for changed in changes:  # the first update of the task decides
                            undo.setdefault(changed, new_values.get(changed, values.get(changed, ABSENT)))
                    new_values.update(changes)
                    continue
                field, value = fields[name], update[name]
                kind = field.kind
                marker = value is DELETE or value.__class__ is Replacement
                if not alone:
                    if name not in writers:
                        writers[name] = task
                    before = writers[name]
                    # Equal values conflict as well (R6). Several updates of one task do not.
                    if before is not task and (marker or not field.aggregates or name in exclusive):
                        raise _conflict(field, before, task, tasks, where or engine.where)
                    if marker:
                        exclusive[name] = None
                if record and (marker or name not in undo):  # the first write decides, unless a marker follows it
                    _note_before(undo, field, values, new_values, grown, whole=marker)
                if marker:
                    grown.pop(name, None)  # replaces items appended earlier as well
                    new_values[name] = field.default() if value is DELETE else value.value
                    result.removes = True
                elif kind == LAST:  # no reducer
                    new_values[name] = value
                elif kind == APPEND:  # the reducer `append`
                    held = new_values if name in new_values else values
                    current = held[name] if name in held else None  # noqa: SIM401 - `get` would be a call for each write
                    try:
                        items = value if value.__class__ is list else [*items_of(as_items(value))]
                        if current.__class__ is not list and not any(current is none for none in _NO_VALUE):
                            items_of(current)
                    except TypeError as error:  # no items, if the type of the field or of the Update allows that
                        failed = _failed(field, error, current, value, task, tasks, where or engine.where)
                        raise failed from failed.error.__cause__
                    if name in grown:
                        grown[name] += items
                    else:
                        grown[name] = list(items)  # a copy: the items of further writes are added to it
                elif (
                    kind == ADD  # the reducer `add`; other values than numbers may raise or be absent
                    and value.__class__ in _NUMBERS
                    and name in values
                    and name not in new_values
                    and values[name].__class__ in _NUMBERS
                ):
                    new_values[name] = values[name] + value
                else:
                    result_value = _reduced(field, values, new_values, value, task, tasks, where or engine.where)
                    new_values[name] = result_value
                    if past:
                        continue
                    if result_value is None and not (field.nullable or value is None):
                        raise _none(field, task, tasks, where or engine.where)
                    if engine.codec is not None and (why := _refusal(engine.codec, field, result_value)):
                        raise _unstorable(field, why, task, tasks, where or engine.where)
        if record:
            undos.append(undo)
            undo = {}
    return result


def _changes(
    engine: RunState,
    reducer: StateReducer,
    values: Values,
    new_values: dict[str, Any],
    update: Any,
    task: Task,
    tasks: Sequence[Task],
    where: Callable[[], Place],
    *,
    past: bool,
) -> Values:
    """Return the changes of a whole-state *update* to *values* overlaid with *new_values*; ABSENT removes a field.

    Args:
        tasks: All tasks of the superstep; those with an update run again after an error.

    Raises:
        FoldError: The reducer failed, as `StateReducer.changes` says.
    """
    current = values
    if new_values:
        current = {name: value for name, value in {**values, **new_values}.items() if value is not ABSENT}
    # A state computed from erased data is unknown, so the user's function is not called with it.
    if update is ERASED or any(value is ERASED for value in current.values()):
        return dict.fromkeys(reducer.state.fields, ERASED)
    try:
        changes = reducer.changes(current, update, past=past)
        if engine.codec is not None and not past:
            for name, value in changes.items():
                if why := _refusal(engine.codec, engine.fields[name], value):
                    raise NotAStateError(f"returned a state whose field {name!r} cannot be stored: it {why}")
        return changes
    except StateChangedError as error:
        raised = state_changed(reducer, error.fields, task.node.name, where())
        cause: BaseException | None = None
    except NotAStateError as error:
        raised, cause = _no_state(reducer, f"{error}.", update, task, where()), None
    except failures() as error:
        raised, cause = _no_state(reducer, f"raised {describe_error(error)}", update, task, where()), error
    raised.__cause__ = cause
    raise FoldError(raised, [writer for writer in tasks if writer.updates]) from cause


def state_changed(reducer: StateReducer, fields: Sequence[str], node: str, where: Place) -> UpdateError:
    """Return the error for a reducer of the whole state that changed *fields* of its first argument in place (R15)."""
    return STATE_REDUCER_MUTATED_STATE(reducer=reducer.name, fields=fields, field=fields[0], node=node, where=where)


def _no_state(reducer: StateReducer, problem: str, update: Any, task: Task, where: Place) -> UpdateError:
    """Return the error for a reducer of the whole state that raised or returned no state, as *problem* says."""
    return REDUCER_FAILED(
        reducer=reducer.name,
        of="the whole state",
        problem=problem,
        known=f"update {short(update)} of node {task.node.name!r}",
        node=task.node.name,
        where=where,
    )


def _note_before(
    undo: Undo, field: Field, values: Values, new_values: dict[str, Any], grown: dict[str, list[Any]], *, whole: bool
) -> None:
    """Record the value of *field* before this write in *undo*; a Prefix is enough if the write only appends.

    Args:
        undo: The record of the task that writes; filled here.
        values: The committed values.
        new_values: New values so far, by field.
        grown: Items to append so far, by field, to the value in *new_values* or in *values*.
        whole: Whether the write replaces the value, so that the previous value itself is needed.
    """
    name = field.name
    known = undo.get(name, undo)  # *undo* itself is the sentinel for "nothing recorded"
    if known is not undo and known.__class__ is not Prefix:  # the previous value itself is recorded already
        return
    base = new_values[name] if name in new_values else values.get(name, ABSENT)
    pending = grown.get(name)
    if field.kind != APPEND or base is ERASED or ((base is ABSENT or base is None) and pending is None):
        undo[name] = base
        return
    start: Any = [] if base is ABSENT or base is None else base
    # Pending items of earlier tasks belong to the previous value; items appended by this task do not.
    length = known.length if known.__class__ is Prefix else len(start) + len(pending or ())
    undo[name] = type(start)([*start, *(pending or ())][:length]) if whole else Prefix(length)


def _reduced(
    field: Field,
    values: Values,
    new_values: dict[str, Any],
    value: Any,
    task: Task,
    tasks: Sequence[Task],
    where: Callable[[], Place],
) -> Any:
    """Return the result of the field's reducer for *value*, which *task* wrote.

    Args:
        values: The committed values by field.
        new_values: New values so far; they take precedence.
        tasks: All tasks of the superstep, to name in an error those that wrote the field.

    Raises:
        FoldError: The reducer raised.
    """
    current = new_values[field.name] if field.name in new_values else values.get(field.name, ABSENT)
    if current is ABSENT:
        if field.identity is None:  # no neutral value to start from: the first value is used unchanged
            return value
        current = field.identity()
    if value is ERASED or current is ERASED:
        return reduced_erased(field, current, value)
    try:
        # A reducer that changes its first argument would change every snapshot, so it gets a copy of a container.
        return field.reduce(current.copy() if current.__class__ in CONTAINERS else current, value)
    except failures() as error:
        failed = _failed(field, error, current, value, task, tasks, where)
        raise failed from failed.error.__cause__


def _failed(
    field: Field,
    error: BaseException,
    current: Any,
    value: Any,
    task: Task,
    tasks: Sequence[Task],
    where: Callable[[], Place],
) -> FoldError:
    """Return the error for the field's reducer, which raised *error* for *current* and *value*, which *task* wrote."""
    writers = [t for t in tasks if any(field.name in update for update in t.updates)]
    description = describe_error(error)
    known = f"current {short(current)}, incoming {short(value)} from node {task.node.name!r}"
    if field.untracked:  # the text of the exception may quote a value, which must not leave the run (R16)
        description = type(error).__name__
        known = f"raised at {_place(error)}, incoming from node {task.node.name!r}; the field is untracked"
    raised = REDUCER_FAILED(
        reducer=field.reducer_name,
        of=f"field {field.name!r}",
        problem=f"raised {description}",
        field=field.name,
        node=task.node.name,
        where=where(),
        known=known,
    )
    raised.__cause__ = None if field.untracked else error  # the chained exception would show the value, too
    return FoldError(raised, writers)


def _none(field: Field, task: Task, tasks: Sequence[Task], where: Callable[[], Place]) -> FoldError:
    """Return the error for a reducer that returned None for a field that cannot be None (R7)."""
    writers = [t for t in tasks if any(field.name in update for update in t.updates)]
    error = REDUCER_RETURNED_NONE(
        reducer=field.reducer_name,
        field=field.name,
        annotation=describe(field.annotation),
        node=task.node.name,
        where=where(),
    )
    return FoldError(error, writers)


_STORABLE: Final = frozenset({int, str, float, bool, type(None), list, dict, set, tuple})
"""Classes of results that need no look at the codec, which knows them."""


def _refusal(codec: Codec, field: Field, value: Any) -> str | None:
    """Return why no store takes *value*, which a reducer returned for *field*, as a clause; None if a store might.

    Only the class of the value is judged. Encoding its parts would cost as much as the state is large; they are encoded
    with `check_state`, and by `fork` and `prune`.
    """
    if value.__class__ in _STORABLE or value is ABSENT or field.untracked:
        return None
    return codec.why_unknown(value)


def _unstorable(field: Field, why: str, task: Task, tasks: Sequence[Task], where: Callable[[], Place]) -> FoldError:
    """Return the error for a reducer whose result cannot be stored; *why* is a clause about it."""
    writers = [t for t in tasks if any(field.name in update for update in t.updates)]
    error = REDUCER_FAILED(
        reducer=field.reducer_name,
        of=f"field {field.name!r}",
        problem=f"returned a value that cannot be stored: it {why}",
        known=f"{field.name}: {describe(field.annotation)}",
        field=field.name,
        node=task.node.name,
        where=where(),
    )
    return FoldError(error, writers)


def _place(error: BaseException) -> str:
    """Return `file:line` of the innermost frame of *error*."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at is not None else "an unknown place"


def _conflict(field: Field, first: Task, second: Task, tasks: Sequence[Task], where: Callable[[], Place]) -> FoldError:
    """Return the error for two tasks of a superstep, *first* and *second*, that wrote *field* (R6).

    It names all *tasks* that wrote it, and shows the values unless the field is untracked.
    """
    writers = [t for t in tasks if any(field.name in update for update in t.updates)]
    nodes = tuple(dict.fromkeys(t.node.name for t in writers))
    writes = [(t.id, update[field.name]) for t in writers for update in t.updates if field.name in update]
    why, fix = "which has no aggregating reducer", None  # None: the fix of the code, a reducer for the field
    if field.aggregates:
        why = "one of them with Overwrite or DELETE, which allows no other write"
        fix = "Return plain values for the field's reducer, or let one node write it."
    elif first.engine.plan.update.kind == "overwrite":
        why = "since nodes of this graph return whole states"
        fix = "Run the nodes one after the other, or use GraphBuilder(...), whose nodes return updates."
    both = (
        f"{first.node.name!r} and {second.node.name!r}"
        if first.node is not second.node
        else f"{first.node.name!r} twice"
    )
    known = ", ".join(id_ for id_, _ in writes) + " wrote it; the field is untracked"
    if not field.untracked:
        known = ", ".join(f"{id_} wrote {short(value)}" for id_, value in writes)
    data: dict[str, Any] = {"nodes": nodes, "values": () if field.untracked else tuple(value for _, value in writes)}
    if first.node is second.node and first.node.policy.stateful == field.name:
        return FoldError(
            STATEFUL_TASKS(field=field.name, node=first.node.name, where=where(), known=known, **data), writers
        )
    return FoldError(
        CONCURRENT_UPDATE(
            field=field.name, why=why, writers=both, node=second.node.name, where=where(), known=known, fix=fix, **data
        ),
        writers,
    )


def shown(schema: UpdateSchema, updates: Sequence[Mapping[str, Any]]) -> Any:
    """Return the updates of one task for display: one mapping of fields, or the node's return value (`whole`)."""
    return combined(schema.state.fields, updates) if schema.whole is None else schema.shown(updates)


def combined(fields: Mapping[str, Field], updates: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Merge several updates of one task: aggregated fields by their reducer, others by the last write.

    None if *updates* is empty. A task may have several; see `fold`. For display only, in `Step.update` and the stream
    mode `live`; the fold processes the updates one by one.
    """
    if not updates:
        return None
    if len(updates) == 1:
        return dict(updates[0])
    result: dict[str, Any] = {}
    for update in updates:
        for name, value in update.items():
            marker = value is DELETE or value.__class__ is Replacement
            before = result.get(name, DELETE)  # DELETE also means "not written yet": in both cases only *value* remains
            if marker or before is DELETE or not fields[name].aggregates:
                result[name] = value
            elif before.__class__ is Replacement:
                result[name] = Replacement(fields[name].reduce(before.value, value))
            else:
                result[name] = fields[name].reduce(before, value)
    return result


def applied(values: Values, fields: Mapping[str, Field], folded: Folded) -> tuple[Values, list[str]]:
    """Return the new values, and the fields whose lists were extended in place.

    If a router fails afterwards, the commit restores copies of these lists with their old length. Folds of a journal
    and edits have no changes to undo.

    Args:
        values: The committed values by field. This dict is not changed; lists in it may grow.
        folded: The result of `fold`: new values by field, and items to append (`grown`) by field.
    """
    extended: list[str] = []
    new_lists: dict[str, Any] = {}
    for name in folded.grown:
        items = folded.grown[name]
        # An Overwrite, or the reset of an ephemeral field, in the same superstep is applied before the items.
        current = folded.values[name] if name in folded.values else values.get(name, ABSENT)
        if current is ERASED:  # `Runtime.erase` removed the value from the journal, so nothing can be appended
            new_lists[name] = reduced_erased(fields[name], current, items)
            continue
        if current is ABSENT or current is None:
            field = fields[name]
            start: Any = field.identity() if field.identity is not None else []
            # `identity` creates the empty value of the field's type: a list, or a tuple for a tuple field. `items` is
            # the fold's own list, so it can become the value without a copy.
            new_lists[name] = items if start.__class__ is list else field.reduce(start, items)
        elif name not in folded.values and current.__class__ is list:
            del current  # no local variable, which would be an additional reference
            if getrefcount(values[name]) == SOLE:
                extended += [name]
                values[name] += items
            else:  # a node, a step or the caller holds the list and must not see it grow
                new_lists[name] = [*values[name], *items]
        else:  # the value was set in this superstep, or is not exactly a list (a tuple, say)
            new_lists[name] = fields[name].reduce(current, items)
    new_values = folded.values
    result = {**values, **new_values, **new_lists} if new_lists else {**values, **new_values}
    # DELETE or a reset left a TypedDict key without a value: remove it.
    for name in new_values if folded.removes else ():
        if new_values[name] is ABSENT and name not in new_lists:
            del result[name]
    return result, extended
