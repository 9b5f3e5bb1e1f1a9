"""Ownership of the state (rule R15): finding a node that changed a value in place, and putting back what is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._engine import outcome
from graphrt._engine.task import Task
from graphrt._plan.fields import ABSENT, own
from graphrt._plan.quoting import HIDDEN, short
from graphrt.errors import UpdateError, names

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def check_untouched(engine: Engine, tasks: Sequence[Task]) -> None:
    values = engine.values
    changed = [name for name, size in engine.sizes.items() if len(values[name]) != size]
    if not changed and engine.guard is not None:
        changed = [name for name, value in engine.guard.items() if not _same(values.get(name, ABSENT), value)]
    if not changed:
        return
    nodes = tuple(dict.fromkeys(task.node.name for task in tasks))
    one = f"Node {nodes[0]!r} changed" if len(nodes) == 1 else f"One of the nodes {names(nodes)} changed"
    error = UpdateError(
        f"{one} a value of the state in place: {names(changed)}. States belong to everyone who sees them.",
        code="mutated-state",
        where=engine.where(),
        known=", ".join(_how(engine, name) for name in changed),
        fix="Build a new value and return it in the update.",
        field=changed[0],
        nodes=nodes,
        node=nodes[0],
    )
    _restore(engine, changed)
    outcome.fail_all(tasks, error)
    raise error


def check_views(engine: Engine, tasks: Sequence[Task]) -> None:
    """Find a node that assigned to a field of the state it was given, which would have no effect.

    Raises:
        UpdateError: It did.
    """
    values = engine.values
    for view in {id(task.state): task.state for task in tasks if task.state is not None}.values():
        if engine.plan.state.kind == "typeddict":
            seen: Mapping[str, Any] = view
        else:
            seen = {name: getattr(view, name, ABSENT) for name in engine.fields}
        wrong = [name for name in engine.fields if seen.get(name, ABSENT) is not values.get(name, ABSENT)]
        if wrong:
            nodes = tuple(dict.fromkeys(task.node.name for task in tasks))
            who = f"Node {nodes[0]!r}" if len(nodes) == 1 else f"One of the nodes {names(nodes)}"
            error = UpdateError(
                f"{who} assigned to the state it was given: {names(wrong)}.",
                code="mutated-state",
                where=engine.where(),
                known="; ".join(_change(engine, n, values.get(n), seen.get(n)) for n in wrong),
                fix="Leave the state as it is, and return the new value in the update.",
                field=wrong[0],
                nodes=nodes,
                node=nodes[0],
            )
            outcome.fail_all(tasks, error)
            for task in tasks:
                task.state = None
            raise error


def _how(engine: Engine, name: str) -> str:
    now = engine.values.get(name, ABSENT)
    before = engine.sizes.get(name)
    if before is not None and len(now) != before:
        return f"{name} had {before} items, now {len(now)}"
    was = engine.guard[name] if engine.guard is not None else "?"
    return _change(engine, name, was, now)


def _change(engine: Engine, name: str, was: Any, now: Any) -> str:
    if engine.fields[name].untracked:
        return f"{name} {HIDDEN}"
    return f"{name} was {short(was)}, is {short(now)}"


def _restore(engine: Engine, changed: Sequence[str]) -> None:
    """Put back what is known of values that a node changed: all of it, or the items that are still there."""
    for name in changed:
        value = engine.values[name]
        if engine.guard is not None:
            engine.values[name] = own(engine.guard[name])
        elif value.__class__ is list:
            engine.values[name] = value[: engine.sizes[name]]
        if name in engine.sizes:
            engine.sizes[name] = len(engine.values[name])


def _same(one: Any, two: Any) -> bool:
    try:
        return bool(one == two)
    except Exception:  # noqa: BLE001 - values that refuse to be compared are taken as unchanged
        return True
