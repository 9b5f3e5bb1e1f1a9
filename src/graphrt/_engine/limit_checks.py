"""Limits of a run (rule R8): visits of nodes, supersteps, and tasks in one superstep.

They are checked before a superstep opens and before anything is counted, so that a retry under higher limits continues
where the run stopped. A node that has reached its visit limit is *tired* (in errors: fatigued). Its `on_fatigue` route,
if it has one, names the node that runs in its place. Fatigue is checked first, because a tired node with a route to END
does not need another superstep (decision 0006).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphrt._engine import emit_events
from graphrt._engine.route import Routed, merged
from graphrt._engine.storability import state_without_untracked
from graphrt._engine.task import Due
from graphrt._plan.tables import NodePlan
from graphrt.commands import EndType
from graphrt.errors import LimitError, NodeFatigueError, names
from graphrt.errors._codes.nodes import NODE_FATIGUE, STEP_LIMIT, TASK_LIMIT

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def limit_error(engine: RunState, due: Sequence[Due]) -> LimitError:
    """Return the error for a superstep that may not open: the run has made `max_steps`, or more than `max_tasks` are due.

    Args:
        due: The tasks that are due.
    """
    nodes = names(dict.fromkeys(item.node.name for item in due))
    if engine.steps >= engine.max_steps:
        return STEP_LIMIT(
            steps=engine.steps,
            due=nodes,
            limit=engine.max_steps,
            nodes=_due_nodes(engine),
            state=state_without_untracked(engine),
            where=engine.where(),
        )
    return TASK_LIMIT(
        number=len(due),
        due=nodes,
        limit=engine.limits.max_tasks,
        nodes=_due_nodes(engine),
        state=state_without_untracked(engine),
        where=engine.where(),
    )


def rest(engine: RunState) -> None:
    """Replace due tasks of nodes that reached their visit limit by one plain activation of their `on_fatigue` target.

    Called if there is such a task. Routes are followed from tired node to tired node. END makes nothing due. Sends to a
    tired node, and the failures that it was meant to handle, are dropped with it.

    Raises:
        NodeFatigueError: A tired node has no route, or its route leads in a circle of tired nodes.
    """
    visits, limits = engine.visits, engine.visit_limits
    routed = Routed()  # collects the remaining due tasks, in task order, and merges activations of one node
    fatigued: dict[int, NodePlan] = {}
    for item in engine.due:
        node: NodePlan | None = item.node
        seen: set[int] = set()
        while node is not None and visits[node.index] >= limits[node.index]:
            target = node.on_fatigue
            if target is None or node.index in seen:  # no route, or a circle
                raise _fatigue(engine, item.node)
            seen.add(node.index)
            fatigued[node.index] = node
            node = None if isinstance(target, EndType) else target
        if node is not None and node is item.node:  # not tired: it stays due as it is
            if item.is_send:
                routed.sends.append(item)
                continue
            if item.error is not None:
                routed.errors[node.index] = [item.error]  # the failures that it handles as an `on_error` node
        if node is not None:
            routed.plain[node.index] = node
    engine.make_due(merged(engine.waiting, routed) if engine.waiting else routed.due())
    if engine.log is not None:
        for node in fatigued.values():
            emit_events.fatigued(engine, node)
        emit_events.routed(engine, "fatigue")


def _fatigue(engine: RunState, node: NodePlan) -> NodeFatigueError:
    """Return the error for the tired *node*, which has no route that leads on."""
    limit = engine.visit_limits[node.index]
    return NODE_FATIGUE(
        node=node.name,
        visits=engine.visits[node.index],
        limit=limit,
        nodes=_due_nodes(engine),
        state=state_without_untracked(engine),
        where=engine.where(),
    )


def _due_nodes(engine: RunState) -> tuple[str, ...]:
    """Return the names of the nodes that are due, each once."""
    return tuple(dict.fromkeys(item.node.name for item in engine.due))
