"""`chosen_graph`: a node whose nested graph is chosen when its task starts.

For instance, a planner sends a design, and the node runs the graph that the design describes. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from graphrt._arguments import checked_function
from graphrt._plan.specs import ChosenGraph
from graphrt.graph.compiled import CompiledGraph


def chosen_graph(
    choose: Callable[[Any], CompiledGraph[Any, Any, Any]], *, states: Iterable[type[Any]] = ()
) -> ChosenGraph:
    """Return a node for `add_node` whose nested graph is chosen for each task.

    The node is started by Sends. *choose* receives the argument of the Send. The argument is in the journal, so the
    same graph is chosen when a run is resumed. The graph then runs like any nested graph: in the parent's journal, and
    starting from the parent's values of the shared fields (rule R17). The argument is not part of its input.

    Args:
        choose: A pure function from the argument to a compiled graph. It is called whenever the task is created,
            including when a thread is loaded, so it should cache what it compiles. An exception in it fails the task.
        states: State classes of the graphs, in addition to that of the enclosing graph.

    Raises:
        InputError: *choose* is not a function.
    """
    checked_function("choose", choose, "Give a function from the argument of a Send to a compiled graph.")
    return ChosenGraph(choose, tuple(states))
