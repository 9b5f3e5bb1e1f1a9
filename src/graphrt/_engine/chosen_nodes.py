"""Nodes whose nested graph is chosen by the argument of a Send (decision 0105).

`chosen_graph(choose)` as a node means: *choose* maps the argument of the Send that starts a task to a compiled graph,
and the task runs that graph as its nested graph. The task gets its own `NodePlan`, with the chosen graph as its child.
Everything else sees an ordinary nested graph. The choice is made whenever the task is made, also when a thread is
loaded; *choose* is pure, so it chooses the same graph again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from graphrt._cancellations import failures
from graphrt._plan.copying import own
from graphrt._plan.specs import ChosenGraph
from graphrt._plan.tables import NodePlan, Plan
from graphrt.errors import a_type
from graphrt.errors._codes.nodes import BAD_CHOICE, STATE_OF_CHOICE


def node_for(node: NodePlan, arg: Any, around: Plan) -> NodePlan:
    """Return a copy of *node* with the graph that its *choose* function picks for *arg*; called when a task is made.

    If the function raises, or chooses something that cannot run here, the copy's function raises that error. So the
    error is a failure of the task, to which the node's `retry` and `on_error` apply, and not a failure to open the
    superstep.

    Args:
        node: A node whose function is a ChosenGraph.
        arg: Argument of the Send.
        around: The plan of the enclosing graph.
    """
    node_copy = copy.copy(node)
    node_copy.wants_context = False  # true for a ChosenGraph, which stands in for a function with a Context
    try:
        node_copy.fn = _chosen(node, arg, around)
        node_copy.child = node_copy.fn.__graphrt_plan__  # the plan of a compiled graph
    except failures() as error:
        node_copy.fn = _raising(error)
    return node_copy


def _chosen(node: NodePlan, arg: Any, around: Plan) -> Any:
    """Return the compiled graph that *node* chooses for *arg*.

    Raises:
        NodeError: It is not a compiled graph, or one of its state classes is neither that of *around* nor declared with
            `states=`. The codec of the run was created for these classes, and could not store values of another one.
        Exception: The *choose* function raised.
    """
    chooser: ChosenGraph = node.fn
    graph: Any = chooser.choose(own(arg))  # a copy, so that user code cannot change the argument of the task
    plan: Plan | None = getattr(graph, "__graphrt_plan__", None)
    if plan is None:
        raise BAD_CHOICE(node=node.name, given=a_type(graph), where=around.place())
    for cls in _states(plan):
        if cls is not around.state.cls and cls not in chooser.states:
            known = [state_class.__name__ for state_class in (around.state.cls, *chooser.states)]
            raise STATE_OF_CHOICE(node=node.name, state_class=cls.__name__, classes=known, where=around.place())
    return graph


def _states(plan: Plan) -> Iterator[Any]:
    """Yield the state classes of a plan and of the graphs nested in it."""
    yield plan.state.cls
    for node in plan.nodes:
        if node.child is not None:
            yield from _states(node.child)


def _raising(error: BaseException) -> Callable[[Any], NoReturn]:
    """Return a node function that raises *error*."""

    def refuse(state: Any) -> NoReturn:  # noqa: ARG001 - the signature of a node
        """Replaces the node of a task whose graph could not be chosen."""
        raise error

    return refuse
