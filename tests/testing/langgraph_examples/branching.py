"""Parallel branches: the first node fans out to two or three others, which join in the last one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.reducers import append


class State(BaseModel):
    which: Literal["near", "far"] = "near"
    trail: Annotated[list[str], append] = []


def mark(name: str) -> Any:
    return lambda _state: {"trail": [name]}


def sides(state: State) -> list[Literal["left", "middle", "right"]]:
    return ["left", "middle"] if state.which == "near" else ["middle", "right"]


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="branching")
    for name in ("begin", "left", "middle", "right", "meet"):
        g.add_node(name, mark(name))
    g.add_edge(START, "begin")
    g.add_conditional_edges("begin", sides, ["left", "middle", "right"])
    for name in ("left", "middle", "right"):
        g.add_edge(name, "meet")
    g.add_edge("meet", END)
    return g.compile()


EXAMPLE = Example(
    name="branching",
    graph=graph,
    input={"which": "near"},
    alternatives={"begin": [{"which": "near"}, {"which": "far"}]},
)
