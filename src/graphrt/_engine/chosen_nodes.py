"""Nodes of tasks whose nested graph the argument of a Send chooses.

The task gets a `NodePlan` of its own, with the chosen graph as its child. Everything else sees an ordinary nested graph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from graphrt._plan.chosen import ChosenGraph
from graphrt._plan.copying import own
from graphrt._plan.tables import NodePlan, Plan
from graphrt.errors import a_type
from graphrt.errors._codes.nodes import BAD_CHOICE, STATE_OF_CHOICE


def node_for(node: NodePlan, arg: Any, around: Plan) -> NodePlan:
    """Return *node* with the graph that its function chooses for *arg*.

    If the function raises, or chooses what cannot be run here, the node of the task is a function that raises: the
    failure is that of the task, with its `retry` and `on_error`.

    Args:
        node: The node of a ChosenGraph.
        arg: Argument of the Send.
        around: The plan of the graph around it.
    """
    made = copy.copy(node)
    made.wants_context = False
    try:
        made.fn = _chosen(node, arg, around)
        made.child = made.fn.__graphrt_plan__
    except Exception as error:  # noqa: BLE001 - user code
        made.fn = _raising(error)
    return made


def _chosen(node: NodePlan, arg: Any, around: Plan) -> Any:
    given: ChosenGraph = node.fn
    graph: Any = given.choose(own(arg))
    plan: Plan | None = getattr(graph, "__graphrt_plan__", None)
    if plan is None:
        raise BAD_CHOICE(node=node.name, given=a_type(graph), where=around.place())
    for cls in _states(plan):
        if cls is not around.state.cls and cls not in given.states:
            known = [one.__name__ for one in (around.state.cls, *given.states)]
            raise STATE_OF_CHOICE(node=node.name, state_class=cls.__name__, classes=known, where=around.place())
    return graph


def _states(plan: Plan) -> Iterator[Any]:
    """Yield the state classes of a plan and of the graphs nested in it. The codec of a run must know them."""
    yield plan.state.cls
    for node in plan.nodes:
        if node.child is not None:
            yield from _states(node.child)


def _raising(error: Exception) -> Callable[[Any], NoReturn]:
    def refuse(state: Any) -> NoReturn:  # noqa: ARG001 - the signature of a node
        raise error

    return refuse
