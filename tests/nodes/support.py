"""Shared parts of the tests of ready-made nodes: a state, and a graph of one node."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import START, CompiledGraph, GraphBuilder
from graphrt.reducers import append


class State(BaseModel):
    topic: str = "tea"
    pages: list[str] = []
    notes: Annotated[list[str], append] = []
    answer: str = ""
    thinking: str = ""
    words: int = 0
    verdict: str | None = None
    review: dict[str, Any] = {}
    failed: Annotated[list[Any], append] = []
    error: dict[str, Any] | None = None
    rows: Annotated[list[Any], append] = []


def one(node: Any, **policy: Any) -> CompiledGraph[State, Any]:
    """A graph with only this node."""
    return GraphBuilder(State, name="one").add_node("work", node, **policy).add_edge(START, "work").compile()


def chain(**nodes: Any) -> CompiledGraph[State, Any]:
    """A graph of these nodes, one after another."""
    g: GraphBuilder[State, Any] = GraphBuilder(State, name="chain")
    for name, node in nodes.items():
        g.add_node(name, node)
    return g.add_sequence([START, *nodes]).compile()
