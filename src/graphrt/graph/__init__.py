"""Floor 6: what a user calls to declare a graph. The builder collects, the compiled graph is frozen."""

from graphrt.graph.builder import Branch, GraphBuilder
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.handles import NodeHandle

__all__ = ["Branch", "CompiledGraph", "GraphBuilder", "NodeHandle"]
