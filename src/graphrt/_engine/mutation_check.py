"""Find nodes and routers that changed the state in place, and restore what can be restored (rule R15, decision 0052).

A view shares its lists and dicts with other tasks and with older states, so a node must not change them. A router gets
a view of the folded values, before they are committed.

Two kinds of changes are always detected when the node or router returns: an assignment to its view, which each task has
for itself, and a container whose length differs. With `check_state`, the stored form of every value is also compared,
once all tasks or routers have returned. This detects every change of a storable value, without calling `==` of user classes.
`Plan.checking` is the codec for that, and `RunState.guard` has the stored forms by field. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._arguments import is_mapping
from graphrt._codec import NotStorable
from graphrt._engine.failures import fail_all
from graphrt._engine.fold import FoldError, state_changed
from graphrt._engine.task import DUE, RUNNING, Failed, Task
from graphrt._plan.copying import SCALARS
from graphrt._plan.quoting import HIDDEN, short
from graphrt._plan.views import HAS_MAPPING, Values
from graphrt.errors import UpdateError, count, names
from graphrt.errors._codes.nodes import MUTATED_STATE_IN_ROUTER, NODE_MUTATED_STATE

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def encode_values(engine: RunState) -> None:
    """With `check_state`: encode every value that is not encoded yet into `engine.guard`, for later comparison.

    Called before the tasks of a superstep run, so that the forms are those of the committed values, and once more when
    the run ends, for the warnings. A commit drops the forms of the fields that it changes.
    Values that cannot be encoded go into `engine.unstorable`, from which a run without a store derives warnings: a run
    with a store would reject them (R7). Untracked fields are never stored, so they give no warning.
    """
    known, dump = engine.guard, engine.plan.checking.dump
    for name, value in engine.values.items():
        if name not in known and value.__class__ not in SCALARS:
            try:
                known[name] = dump(value)
            except NotStorable as error:
                if name not in engine.plan.state.untracked:
                    engine.unstorable.setdefault(name, error)


def is_changed(engine: RunState, task: Task, reply: Any) -> bool:
    """Return whether *task*, which ended with *reply*, changed the state; if so, fail it before anything is staged.

    Called if the quick test of `outcome.report` is inconclusive, or with `check_state`. Any of several tasks that share
    a container may have changed its length, so the error names all that were running.

    Args:
        reply: The return value of the node, or a report of the driver. The exception in a `Failed` is chained to the
            error.
    """
    tasks = engine.tasks
    changed = _other_lengths(engine)
    if changed:
        suspects = [other for other in tasks if other is task or other.status == RUNNING]
        _fail(engine, (task,), suspects, reply, changed)
        return True
    if _is_assigned(engine, task.state, engine.values):
        _fail_assigned(engine, task, reply)
        return True
    if not engine.check_state:
        return False
    # Encoded forms are compared only when the last task has returned, because others may still be changing the values.
    if any(other.status in _RUNS for other in tasks if other is not task):
        return False
    dump = engine.plan.checking.dump
    changed = [name for name, line in engine.guard.items() if _dumped(dump, engine.values[name]) != line]
    if changed:
        _fail(engine, tasks, tasks, reply, changed)
    return bool(changed)


_RUNS = frozenset({DUE, RUNNING})
"""Statuses of tasks whose nodes may still change values."""


def check_all(engine: RunState, tasks: Sequence[Task]) -> None:
    """Check all *tasks*, which have ended, for changes of the state, and drop their views; the commit begins with it.

    Tasks that were checked when they returned are checked again: a node that was abandoned after its timeout may still
    be running. Stored forms were compared when the last task returned, and are not compared again.

    Raises:
        UpdateError: Something was changed.
    """
    values = engine.values
    views = [task.state for task in tasks]
    try:
        # For views that are dicts, one call compares all of them (a fan-out may have thousands).
        untouched = not engine.keeps and views.count(values) == len(views)
    except Exception:  # noqa: BLE001 - values that refuse to be compared
        untouched = False
    del views  # views would count as owners of the lists in them (R15)
    for task in tasks:
        if not untouched and _is_assigned(engine, task.state, values):
            raise _fail_assigned(engine, task, None)
        task.state = None
    changed = _other_lengths(engine)
    if changed:
        raise _fail(engine, tasks, tasks, None, changed)


def encoded(engine: RunState, values: Values) -> dict[str, bytes]:
    """Return the stored form of each of *values* that has one, for `check_routers` with `check_state`."""
    dump = engine.plan.checking.dump
    forms = {name: _dumped(dump, value) for name, value in values.items() if value.__class__ not in SCALARS}
    return {name: form for name, form in forms.items() if form is not None}


def check_routers(
    engine: RunState,
    tasks: Sequence[Task],
    view: Any,
    values: Values,
    sizes: Mapping[str, int],
    forms: Mapping[str, bytes] | None,
    node: str = "START",
) -> None:
    """Check that no router changed the state: neither *view*, which the next task would get, nor one of *values*.

    What a router changed in place is restored as far as the values are committed already, or belong to a task.

    Args:
        tasks: Tasks whose routers were called; empty for the routers of *node*.
        values: The values that the routers saw: those to be committed, which may not be the engine's yet.
        sizes: The length of each container in *values*, before the routers were called.
        forms: What `encoded` returned for *values* before the routers were called; None without `check_state`.

    Raises:
        RouteError: A router changed it.
    """
    fields: Sequence[str] = []
    if _is_assigned(engine, view, values):
        fields = engine.plan.state.assigned(view, values)
        did = "assigned to the state it was given"
        known = "; ".join(_change(engine, name, values.get(name), _seen(view, name)) for name in fields)
    else:
        forms = forms or {}
        fields = [name for name in sizes if len(values[name]) != sizes[name]]
        if not fields:
            fields = [name for name, form in forms.items() if _dumped(engine.plan.checking.dump, values[name]) != form]
        did = "changed a value of the state in place"
        known = ", ".join(_how(engine, name, values[name], sizes.get(name), forms.get(name)) for name in fields)
        _restore(engine, fields, values, sizes, forms)
    if fields:
        engine.use_view(engine.make_view(engine.values))  # the next call must not get this one
        raise MUTATED_STATE_IN_ROUTER(
            nodes_text=names(dict.fromkeys(task.node.name for task in tasks if task.node.branches)) or node,
            did=did,
            fields=fields,
            field=fields[0],
            where=engine.where(),
            known=known,
        )


def check_reducer(engine: RunState, tasks: Sequence[Task]) -> None:
    """With `check_state`: check that the reducer of the whole state did not change anything inside its arguments.

    The fold always detects a container whose length changed.

    Args:
        tasks: The tasks whose updates were folded.

    Raises:
        FoldError: It changed something.
    """
    if engine.reducer is None or not engine.check_state:
        return
    dump = engine.plan.checking.dump
    changed = [name for name, line in engine.guard.items() if _dumped(dump, engine.values[name]) != line]
    if changed:
        _restore(engine, changed, engine.values, engine.sizes, engine.guard)
        raise FoldError(state_changed(engine.reducer, changed, tasks[0].node.name, engine.where()), tasks)


def put_back(engine: RunState) -> None:
    """After a failed fold: undo what a reducer of the whole state changed in place, so that no node is blamed for it."""
    if engine.reducer is not None:
        _restore(engine, _other_lengths(engine), engine.values, engine.sizes, engine.guard)


def _other_lengths(engine: RunState) -> list[str]:
    """Return the fields whose containers have a different length than at the commit."""
    values, sizes = engine.values, engine.sizes  # `sizes` has the length of each list, dict and set
    return [name for name in sizes if len(values[name]) != sizes[name]]


def _is_assigned(engine: RunState, view: Any, values: Values) -> bool:
    """Return whether something was assigned to *view*, which was made of *values*; False if the task has none."""
    keeps = engine.keeps  # views are dicts themselves (IS_MAPPING, 0) or keep their values in `__dict__` (HAS_MAPPING)
    # The quick test compares dicts of the same objects, which CPython does by identity. `assigned` decides the rest: an
    # equal value, a cached property and a private attribute are not changes.
    try:
        same = view == values if not keeps else keeps == HAS_MAPPING and view.__dict__ == values
    except Exception:  # noqa: BLE001 - values that refuse to be compared; or the view has lost its own
        same = False
    return not same and view is not None and bool(engine.plan.state.assigned(view, values))


def _dumped(dump: Any, value: Any) -> bytes | None:
    """Return the stored form of *value*, or None if it has become unstorable, which is a change as well."""
    try:
        line: bytes = dump(value)
    except NotStorable:
        return None
    return line


def _fail(
    engine: RunState, failing: Sequence[Task], suspects: Sequence[Task], reply: Any, changed: list[str]
) -> UpdateError:
    """Restore the fields *changed* in place, fail the tasks *failing*, and return the error, which names *suspects*.

    The two differ if several tasks were running: the task that returned fails, and the error names all suspects.
    """
    values, sizes, guard = engine.values, engine.sizes, engine.guard
    known = ", ".join(_how(engine, name, values[name], sizes.get(name), guard.get(name)) for name in changed)
    error = _error(engine, suspects, changed, "changed a value of the state in place", reply, known)
    _restore(engine, changed, values, sizes, guard)
    _give_up(failing, error)
    return error


def _fail_assigned(engine: RunState, task: Task, reply: Any) -> UpdateError:
    """Fail *task* for its assignment to its view, and return the error. The committed values are not affected."""
    values, view = engine.values, task.state
    fields = engine.plan.state.assigned(view, values)
    error = _error(
        engine,
        (task,),
        fields,
        "assigned to the state it was given",
        reply,
        "; ".join(_change(engine, name, values.get(name), _seen(view, name)) for name in fields),
    )
    _give_up((task,), error)
    return error


def _error(
    engine: RunState, suspects: Sequence[Task], fields: list[str], predicate: str, reply: Any, known: str
) -> UpdateError:
    """Return the error for the changed *fields*. An exception that the node also raised is chained to it.

    Args:
        suspects: Tasks that may have made the change, 1 or more.
        predicate: The change, as the predicate of the message.
        reply: As for `is_changed`; None if the change was detected later.
        known: Text of the "Known" line: the fields, before and after.
    """
    nodes = tuple(dict.fromkeys(task.node.name for task in suspects))
    failed = reply.error if reply.__class__ is Failed else None
    error = NODE_MUTATED_STATE(
        who=f"Node {nodes[0]!r}" if len(nodes) == 1 else f"One of the nodes {names(nodes)}",
        did=predicate,
        fields=fields,
        and_raised=f" It then raised {type(failed).__name__}, which is chained." if failed is not None else "",
        field=fields[0],
        nodes=nodes,
        node=nodes[0],
        where=engine.where(suspects[0] if len(suspects) == 1 else None),
        known=known,
    )
    error.__cause__ = failed
    return error


def _give_up(tasks: Sequence[Task], error: UpdateError) -> None:
    """Fail *tasks* permanently: retry policies and `on_error` nodes must not work on changed values (decision 0052)."""
    fail_all(tasks, error)
    for task in tasks:
        task.state = None  # `retry` creates a new view of the restored values


def _seen(view: Any, name: str) -> Any:
    """Return the current value of a field in *view*; None if it has none."""
    return view.get(name) if is_mapping(view) else getattr(view, name, None)


def _how(engine: RunState, name: str, now: Any, size: int | None, form: bytes | None) -> str:
    """Return how the value *now* of a field differs from what it was, for an error: its length, else the value.

    Args:
        size: Its previous length; None if it is not a container.
        form: Its previous stored form; not None if the length is the same.
    """
    if size is not None and len(now) != size:
        return f"{name} had {count(size, 'item')}, now {len(now)}"
    return _change(engine, name, None if form is None else engine.plan.checking.load(form), now)


def _change(engine: RunState, name: str, before: Any, now: Any) -> str:
    """Return the values of a field before and after, for an error; an untracked field's are not shown (R16)."""
    field = engine.fields.get(name)
    if field is not None and field.untracked:
        return f"{name} {HIDDEN}"
    return f"{name} was {short(before)}, is {short(now)}"


def _restore(
    engine: RunState, changed: Sequence[str], values: Values, sizes: Mapping[str, int], forms: Mapping[str, bytes]
) -> None:
    """Restore fields that were changed in place, as far as possible.

    A committed value with a stored form is decoded from it, and a list that grew is truncated. Other committed fields
    are marked as spoilt: their checksums are not journalled, because a replay could not compute them.

    Args:
        values: The values that were changed: the committed ones, or those of a commit that is given up.
        sizes: The length of each container in *values* before the change.
        forms: The stored forms of *values* before the change, where known.
    """
    for name in changed:
        value, size = values[name], sizes.get(name)
        committed = value is engine.values.get(name)
        if committed and name in forms:
            engine.restore(name, engine.plan.checking.load(forms[name]))
        elif value.__class__ is list and size is not None and len(value) > size:
            del value[size:]  # in place, because tasks that still run share the list
        elif committed:
            engine.spoilt.add(name)
            if size is not None:  # so that the same change is reported only once
                engine.measure(name)
