"""The public API for declaring a graph (floor 6): a builder collects declarations, `compile()` freezes them.

A compiled graph can be drawn, routed without a run, turned into a modified graph, and run. `observe` and `substitute`
are for tools, which can observe or replace each graph compiled in the process.
"""

from typing import TYPE_CHECKING

from graphrt._observers import GraphObserver, observe, substitute
from graphrt._plan.node_attributes import declare_fields
from graphrt._plan.specs import ChosenGraph, NodeFields
from graphrt.graph.builder import Branch, GraphBuilder
from graphrt.graph.chosen import chosen_graph
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.handles import NodeHandle

if TYPE_CHECKING:
    from graphrt.graph.rewiring import rewired

__all__ = [
    "Branch",
    "ChosenGraph",
    "CompiledGraph",
    "GraphBuilder",
    "GraphObserver",
    "NodeFields",
    "NodeHandle",
    "chosen_graph",
    "declare_fields",
    "observe",
    "rewired",
    "substitute",
]


def __getattr__(name: str) -> object:
    """Import `rewired` when it is first used: only tools, such as mutation testing, need it."""
    if name != "rewired":
        from graphrt.errors._langgraph_names import no_export

        raise no_export(__name__, name)
    from graphrt.graph.rewiring import rewired

    return rewired
