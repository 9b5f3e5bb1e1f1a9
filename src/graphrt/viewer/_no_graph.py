"""`nothing`: the graph of a runtime that is created for a store without a graph."""

from __future__ import annotations

from typing import Any, TypedDict

from graphrt.commands import END, START
from graphrt.graph import CompiledGraph, GraphBuilder


def nothing() -> CompiledGraph[Any, Any, Any]:
    """Return a graph that does nothing: listings and deletions need a runtime, but not its graph."""

    class Nothing(TypedDict, total=False):
        pass

    g = GraphBuilder(Nothing, name="nothing")
    g.add_node("nothing", lambda _state: {})
    g.add_edge(START, "nothing")
    g.add_edge("nothing", END)
    return g.compile()
