"""The graph as data and as pictures, compared literally."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, CompiledGraph, Context, GraphBuilder
from graphrt.reducers import append


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    calls: int = 0


def search(state: State) -> dict[str, Any]:
    return {"calls": state.calls + 1}


async def read(state: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [ctx.node]}


def answer(state: State) -> Command:
    return Command(goto=END)


def enough(state: State) -> Literal["more", "done"]:
    return "done" if state.calls > 1 else "more"


@pytest.fixture
def graph() -> CompiledGraph[Any, Any]:
    inner = GraphBuilder(State, name="inner").add_node("deep", search).set_entry("deep").compile()
    g = GraphBuilder(State, name='a "small" one')
    g.add_node("search", search).add_node("read", read, writes=["notes"]).add_node(
        "answer", answer, goto=["search", END]
    )
    g.add_node("inner", inner).add_edge(START, "search").add_edge(START, "inner")
    g.add_conditional_edges("search", enough, {"more": "read", "done": END}).add_edge(["read", "inner"], "answer")
    return g.compile(allow=["starving-join"])


def test_mermaid_text_of_a_graph(graph: CompiledGraph[Any, Any]) -> None:
    assert (
        graph.to_mermaid()
        == """\
flowchart TD
    s([START])
    n0["search"]
    n1["read"]
    n2["answer"]
    n3[["inner"]]
    e([END])
    s --> n0
    s --> n3
    n0 -->|"more"| n1
    n0 -->|"done"| e
    n2 -.->|"goto"| e
    n2 -.->|"goto"| n0
    n1 -.->|"join"| n2
    n3 -.->|"join"| n2
"""
    )


def test_dot_text_of_a_graph(graph: CompiledGraph[Any, Any]) -> None:
    assert (
        graph.to_dot()
        == """\
digraph "a \\"small\\" one" {
    rankdir=TB;
    node [shape=box];
    s [label="START", shape=oval];
    n0 [label="search"];
    n1 [label="read"];
    n2 [label="answer"];
    n3 [label="inner", peripheries=2];
    e [label="END", shape=oval];
    s -> n0;
    s -> n3;
    n0 -> n1 [label="more"];
    n0 -> e [label="done"];
    n2 -> e [label="goto", style=dashed];
    n2 -> n0 [label="goto", style=dashed];
    n1 -> n2 [label="join", style=dashed];
    n3 -> n2 [label="join", style=dashed];
}
"""
    )


def test_topology_of_a_graph(graph: CompiledGraph[Any, Any]) -> None:
    data = graph.topology()
    inner = data["nodes"][3].pop("graph")

    assert list(data) == ["name", "nodes", "edges", "state", "limits"]
    assert data["name"] == 'a "small" one'
    assert data["nodes"] == [
        {"name": "search", "kind": "function", "async": False},
        {"name": "read", "kind": "function", "async": True, "writes": ["notes"]},
        {"name": "answer", "kind": "function", "async": False},
        {"name": "inner", "kind": "graph", "async": False},
    ]
    join = {"kind": "join", "join": 0, "need": 2, "of": 2, "starved": "error"}
    conditional = {"kind": "conditional", "branch": 0, "router": "enough"}
    assert data["edges"] == [
        {"from": "START", "to": "search", "kind": "static"},
        {"from": "START", "to": "inner", "kind": "static"},
        {"from": "search", "to": "read", **conditional, "label": "more"},
        {"from": "search", "to": "END", **conditional, "label": "done"},
        {"from": "answer", "to": "END", "kind": "goto"},
        {"from": "answer", "to": "search", "kind": "goto"},
        {"from": "read", "to": "answer", **join},
        {"from": "inner", "to": "answer", **join},
    ]
    assert data["state"] == {
        "notes": {"type": "list[str]", "reducer": "append"},
        "calls": {"type": "int", "reducer": "overwrite"},
    }
    assert data["limits"] == graph.limits.to_dict()
    assert (inner["name"], [node["name"] for node in inner["nodes"]]) == ("inner", ["deep"])


def test_json_is_the_topology(graph: CompiledGraph[Any, Any]) -> None:
    text = graph.to_json()

    assert json.loads(text) == graph.topology()
    assert text == json.dumps(graph.topology(), indent=2, ensure_ascii=False)


def test_notebooks_draw_the_mermaid_text(graph: CompiledGraph[Any, Any]) -> None:
    assert graph._repr_mimebundle_() == {
        "image/svg+xml": graph.to_svg(),
        "text/vnd.mermaid": graph.to_mermaid(),
        "text/plain": repr(graph),
    }
    assert graph._repr_mimebundle_(include=["text/plain"], exclude=None) == graph._repr_mimebundle_()


def test_names_cannot_break_a_picture() -> None:
    name = 'a "b"]\n%% <i>'
    graph = GraphBuilder(State).add_node(name, search).set_entry(name).compile()

    assert '    n0["a #34;b#34;#93;<br/>%% #60;i#62;"]\n' in graph.to_mermaid()
    assert '    n0 [label="a \\"b\\"]\\n%% <i>"];\n' in graph.to_dot()
