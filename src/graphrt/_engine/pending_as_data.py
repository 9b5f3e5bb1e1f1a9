"""Due tasks and open joins as plain data for events, and back.

The events `SuperstepCommitted`, `TasksRouted`, `ThreadUpdated` and `StateSaved` have this data. Nodes are given by
name, because a changed graph may number them differently. Entries of an older graph may contain nodes that the current
one does not have. `RunState.aliases` maps such names to the node that was renamed, or to a placeholder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._engine.join_state import JoinKey, JoinState
from graphrt._engine.route import plain_activation
from graphrt._engine.task import Due, Handled, Task
from graphrt._plan.specs import Policy
from graphrt._plan.tables import NodePlan
from graphrt.errors import TaskFailure
from graphrt.events import HandledTask, JoinStanding

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

NO_ITEMS: dict[int, Any] = {}
"""Shared by all results without items, which is the common case. Must not be changed."""


Handles = Mapping[int, tuple[HandledTask, ...]]
"""Failed tasks, by position. The key is the index, among the due tasks, of the `on_error` task that handles them."""


def due_parts(due: Sequence[Due]) -> tuple[tuple[str, ...], dict[int, Any], dict[int, BaseException], Handles]:
    """Return *due*, the tasks of the next superstep in task order, as plain data.

    Returns:
        (names, sends, errors, handled): the names of the nodes in task order, and by position in them the arguments of
        Sends, the errors that `on_error` nodes handle, and the tasks that failed with them.
    """
    sends: dict[int, Any] = NO_ITEMS
    errors: dict[int, BaseException] = NO_ITEMS
    handled: dict[int, tuple[HandledTask, ...]] = NO_ITEMS
    for at, item in enumerate(due):
        if item.is_send:
            if sends is NO_ITEMS:
                sends = {}
            sends[at] = item.arg
        if item.error is not None:
            if errors is NO_ITEMS:
                errors, handled = {}, {}
            errors[at] = item.error.error  # the exception, or a group of several
            handled[at] = tuple(
                HandledTask(task=failure.task_id, node=failure.node, arg=failure.arg) for failure in item.error.failures
            )
    return tuple(item.node.id_name for item in due), sends, errors, handled


def due_again(
    engine: RunState,
    names: Sequence[str],
    sends: Mapping[int, Any],
    errors: Mapping[int, BaseException],
    handled: Handles,
) -> list[Due]:
    """Return the due tasks from their plain data; the inverse of `due_parts`.

    A node that the graph no longer has, under any name, gets a placeholder, so that the past can be folded. It has no
    pending task: this was checked when the changed graph was compared (decision 0022).
    """
    nodes = engine.plan.by_name
    if not sends and not errors:
        due_nodes = [nodes.get(name) or stand_in(engine, name) for name in names]
        return [node.due or plain_activation(node) for node in due_nodes]
    return [
        Due(nodes.get(name) or stand_in(engine, name), sends.get(at), _handled(at, errors, handled), at in sends)
        for at, name in enumerate(names)
    ]


def _handled(at: int, errors: Mapping[int, BaseException], handled: Handles) -> Handled | None:
    """Return the failure that the task at position *at* handles as an `on_error` node; None if it handles none.

    Args:
        errors: Errors by position, as `due_parts` returns them.
        handled: The tasks that failed with them, by position.
    """
    error = errors.get(at)
    if error is None:
        return None
    tasks = handled[at]
    exceptions: Sequence[BaseException] = [error]
    if len(tasks) != 1:  # the error of several tasks is a group, with one exception for each
        parts: Any = getattr(error, "exceptions", ())
        # An erased group is read as one error in place of all of them (`Body.get_error`).
        exceptions = parts or [error] * len(tasks)
    failures = (
        TaskFailure(error=exception, node=task.node, task_id=task.task, arg=task.arg)
        for exception, task in zip(exceptions, tasks, strict=True)
    )
    return Handled(error, tuple(failures))


def stand_in(engine: RunState, name: str) -> NodePlan:
    """Return the renamed node that an older graph called *name*, for tasks whose ids keep that name.

    If there is none, return a placeholder, the same one each time.
    A placeholder has no function: it is used only to fold the past, and its tasks never run.
    """
    node = engine.aliases.get(name)
    if node is None:
        # A separate index above those of the plan, so that its visits can be counted when the past is folded.
        node = NodePlan(name, len(engine.visits), None, Policy())
        engine.add_alias(name, node)
    return node


def present_node(engine: RunState, name: str) -> NodePlan | None:
    """Return the node that an older graph called *name*: of the same name, or renamed; None if the graph has neither."""
    node = engine.plan.by_name.get(name) or engine.aliases.get(name)
    nodes = engine.plan.nodes
    return nodes[node.index] if node is not None and node.index < len(nodes) else None  # placeholders come after these


def _key(engine: RunState, state: JoinState) -> JoinKey:
    """Return the identity of the join of *state* in a journal."""
    nodes = engine.plan.nodes
    return state.plan.dst.name, tuple(sorted(nodes[at].name for at in state.plan.sources))


def join_standings(engine: RunState, states: Iterable[JoinState]) -> tuple[JoinStanding, ...]:
    """Return the open generations of the joins *states* as plain data, sources sorted by name.

    A generation is one round of arrivals: which sources arrived, and whether the join fired for them.
    """
    nodes = engine.plan.nodes
    standings: list[JoinStanding] = []
    for state in states:
        node, sources = _key(engine, state)
        arrived = tuple(sorted(nodes[at].name for at in state.arrived))
        standings.append(
            JoinStanding(node=node, sources=sources, arrived=arrived, fired=state.fired, emptied=state.emptied)
        )
    return tuple(standings)


def set_joins(engine: RunState, standings: Sequence[JoinStanding]) -> None:
    """Set the open generations of some joins from *standings*; joins that the graph does not have are skipped.

    The standings may come from an older graph: renamed nodes are mapped to their current names, and a join that
    replaced another keeps the arrivals of their common sources.
    """
    if not standings:
        return
    by_name = {**engine.aliases, **engine.plan.by_name}
    known = {_key(engine, state): state for state in engine.joins}
    for standing in standings:
        node, *sources = (
            by_name[name].name if name in by_name else name for name in (standing.node, *standing.sources)
        )
        key = (node, tuple(sorted(sources)))
        arrived = {by_name[name].index for name in standing.arrived if name in by_name}
        fired = standing.fired
        state = known.get(key)
        if state is None:
            state = known.get(engine.changed_joins.get(key, key))
            if state is None:
                continue
            # Arrivals at another join are kept if the current one replaced several.
            others = state.arrived - {by_name[name].index for name in sources if name in by_name}
            fired = fired or (state.fired and bool(others))
            arrived = (arrived & state.plan.sources) | others
        state.restore(arrived, fired=fired, emptied=standing.emptied)


def held_task(engine: RunState, task_id: str, arg: Any) -> Task:
    """Create the committed but unrouted task *task_id* when a snapshot or fork is read.

    `interrupt_after` waits between the fold of a superstep and its routers. So the task has ended and needs no state;
    its outcome is applied next. An id is `path/superstep.index:node`.

    Args:
        arg: Argument of the Send that started it, for routers and the nodes that handle its failure.
    """
    place, _, name = task_id[len(engine.path) :].partition(":")
    superstep, _, index = place.partition(".")
    node = engine.plan.by_name.get(name) or stand_in(engine, name)
    return Task(node, int(index), int(superstep), arg, None, engine)  # None: no view of the state
