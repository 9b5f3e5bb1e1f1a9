"""Ownership of the state (rule R15): finding a node that changed the state in place, and putting back what is known.

Always found, when a node returns: what it assigned to its view, which is its task's own, and a container whose length
changed. With `check_state` the stored form of every value is compared as well, once all tasks that ran have returned:
that finds every change of a value that can be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphrt._codec import NotStorable
from graphrt._engine import outcome
from graphrt._engine.task import DUE, RUNNING, Failed, Task
from graphrt._plan.copying import SCALARS
from graphrt._plan.fields import is_mapping
from graphrt._plan.quoting import HIDDEN, short
from graphrt._plan.views import HAS_MAPPING, Values
from graphrt.errors import RouteError, UpdateError, count, names

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def prepare(engine: Engine) -> bool:
    """Before the tasks of the open superstep run: with `check_state`, note the stored form of every value. True."""
    engine.looks = engine.staging or engine.check_state or len(engine.tasks) == 1
    if engine.check_state:
        look(engine)
    return True


def look(engine: Engine) -> None:
    """Note the stored form of every value; what has none is remembered, for a warning."""
    known, dump = engine.guard, engine.plan.checking.dump
    for name, value in engine.values.items():
        if name not in known and value.__class__ not in SCALARS:
            try:
                known[name] = dump(value)
            except NotStorable as error:
                if name not in engine.plan.state.untracked:
                    engine.unstorable.setdefault(name, error)


def is_changed(engine: Engine, task: Task, reply: Any) -> bool:
    """Whether *task*, which ended with *reply*, changed the state; then it has failed, before anything is staged.

    Of several tasks that share a container, any may have changed its length: the error names those that still ran.
    Where nothing is staged, several tasks are looked at in one go instead, by `check_all`: see `Engine.looks`.
    """
    tasks = engine.tasks
    changed = _other_lengths(engine)
    if changed:
        beside = [other for other in tasks if other is task or other.status == RUNNING]
        _fail(engine, (task,), beside, reply, changed)
        return True
    if _is_assigned(engine, task.state, engine.values):
        _fail_assigned(engine, task, reply)
        return True
    if engine.check_state and not any(other.status in _RUNS for other in tasks if other is not task):
        dump = engine.plan.checking.dump
        changed = [name for name, line in engine.guard.items() if _dumped(dump, engine.values[name]) != line]
        if changed:
            _fail(engine, tasks, tasks, reply, changed)
            return True
    return False


_RUNS = frozenset({DUE, RUNNING})


def check_all(engine: Engine, tasks: Sequence[Task]) -> None:
    """Find what the ended *tasks* changed, and let go of their views.

    A node that was abandoned after its timeout may still run: so those that were looked at are looked at again.

    Raises:
        UpdateError: Something was changed.
    """
    values = engine.values
    views = [task.state for task in tasks]
    try:
        untouched = not engine.keeps and views.count(values) == len(views)
    except Exception:  # noqa: BLE001 - values that refuse to be compared
        untouched = False
    del views  # they would count as owners of the lists in them
    for task in tasks:
        if not untouched and _is_assigned(engine, task.state, values):
            raise _fail_assigned(engine, task, None)
        task.state = None
    changed = _other_lengths(engine)
    if changed:
        raise _fail(engine, tasks, tasks, None, changed)


def check_routers(engine: Engine, tasks: Sequence[Task], view: Any, values: Values) -> None:
    """Find what a router assigned to the *view* of *values*, which the next task would be told of.

    Args:
        tasks: Those whose routers were asked; none for START's.

    Raises:
        RouteError: It did.
    """
    if _is_assigned(engine, view, values):
        wrong = engine.plan.state.assigned(view, values)
        asked = names(dict.fromkeys(task.node.name for task in tasks if task.node.branches)) or "START"
        raise RouteError(
            f"A router after {asked} assigned to the state it was given: {names(wrong)}.",
            code="mutated-state",
            where=engine.where(),
            known="; ".join(_change(engine, name, values.get(name), _seen(view, name)) for name in wrong),
            fix="Let routers read the state only; a node returns what changes.",
            field=wrong[0],
        )


def _other_lengths(engine: Engine) -> list[str]:
    values, sizes = engine.values, engine.sizes
    return [name for name in sizes if len(values[name]) != sizes[name]]


def _is_assigned(engine: Engine, view: Any, values: Values) -> bool:
    keeps = engine.keeps
    try:
        same = view == values if not keeps else keeps == HAS_MAPPING and view.__dict__ == values
    except Exception:  # noqa: BLE001 - values that refuse to be compared; or the view has lost its own
        same = False
    return not same and view is not None and bool(engine.plan.state.assigned(view, values))


def _dumped(dump: Any, value: Any) -> bytes | None:
    try:
        line: bytes = dump(value)
    except NotStorable:  # what it was could be stored
        return None
    return line


def _fail(engine: Engine, failing: Sequence[Task], who: Sequence[Task], reply: Any, changed: list[str]) -> UpdateError:
    how = ", ".join(_how(engine, name) for name in changed)
    error = _error(engine, who, changed, "changed a value of the state in place", reply, how)
    _restore(engine, changed)
    _give_up(failing, error)
    return error


def _fail_assigned(engine: Engine, task: Task, reply: Any) -> UpdateError:
    values, view = engine.values, task.state
    wrong = engine.plan.state.assigned(view, values)
    error = _error(
        engine,
        (task,),
        wrong,
        "assigned to the state it was given",
        reply,
        "; ".join(_change(engine, name, values.get(name), _seen(view, name)) for name in wrong),
    )
    _give_up((task,), error)
    return error


def _error(engine: Engine, who: Sequence[Task], wrong: list[str], did: str, reply: Any, known: str) -> UpdateError:
    nodes = tuple(dict.fromkeys(task.node.name for task in who))
    failed = reply.error if reply.__class__ is Failed else None
    error = UpdateError(
        f"{f'Node {nodes[0]!r}' if len(nodes) == 1 else f'One of the nodes {names(nodes)}'} {did}: {names(wrong)}."
        + (f" It then raised {type(failed).__name__}, which is chained." if failed is not None else ""),
        code="mutated-state",
        where=engine.where(who[0] if len(who) == 1 else None),
        known=known,
        fix="Leave the state as it is, and return the new value in the update. If the node does that already, "
        "look in the router before it: routers get the same state.",
        field=wrong[0],
        nodes=nodes,
        node=nodes[0],
    )
    error.__cause__ = failed
    return error


def _give_up(tasks: Sequence[Task], error: UpdateError) -> None:
    outcome.fail_all(tasks, error)
    for task in tasks:
        task.state = None  # a retry sees a view that nobody changed


def _seen(view: Any, name: str) -> Any:
    return view.get(name) if is_mapping(view) else getattr(view, name, None)


def _how(engine: Engine, name: str) -> str:
    now = engine.values[name]
    before = engine.sizes.get(name)
    if before is not None and len(now) != before:
        return f"{name} had {count(before, 'item')}, now {len(now)}"
    return _change(engine, name, engine.plan.checking.load(engine.guard[name]), now)


def _change(engine: Engine, name: str, was: Any, now: Any) -> str:
    field = engine.fields.get(name)
    if field is not None and field.untracked:
        return f"{name} {HIDDEN}"
    return f"{name} was {short(was)}, is {short(now)}"


def _restore(engine: Engine, changed: Sequence[str]) -> None:
    """Put back what is known: all of a value whose stored form is there, the items that a list had before others."""
    for name in changed:
        value, size = engine.values[name], engine.sizes.get(name)
        if name in engine.guard:
            engine.values[name] = engine.plan.checking.load(engine.guard[name])
        elif value.__class__ is list and size is not None and len(value) > size:
            del value[size:]  # in place: the tasks beside it see it too
        else:
            engine.spoilt.add(name)
        if size is not None:
            engine.sizes[name] = len(engine.values[name])
