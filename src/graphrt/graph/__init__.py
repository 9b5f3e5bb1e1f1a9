"""The public API to declare a graph (floor 6): a builder collects declarations, `compile()` freezes them.

A compiled graph can be drawn, routed without a run, changed into another one, and run.
"""

from graphrt._observers import GraphObserver, observe
from graphrt.graph.builder import Branch, GraphBuilder
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.handles import NodeHandle

__all__ = ["Branch", "CompiledGraph", "GraphBuilder", "GraphObserver", "NodeHandle", "observe"]
