"""Shared parts of the tests of adaptive nodes: a state, parts, a validator, and a valid design."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import START, CompiledGraph, Context, GraphBuilder
from graphrt.harness import Agent, FunctionModel
from graphrt.nodes import TopologyValidator, adaptive, record_error, registry
from graphrt.reducers import append


class State(BaseModel):
    topic: str = "tea"
    pages: list[str] = ["a", "b"]
    notes: Annotated[list[str], append] = []
    answer: str = ""
    verdict: str | None = None
    plan: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    secret: str = "hidden"


def fetch(topic: str) -> str:
    """Fetch a page about a topic."""
    return f"about {topic}"


def remove(topic: str) -> str:
    """Remove everything."""
    raise AssertionError(f"{topic} was removed")


def note(state: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [f"note {ctx.arg}"]}


def spy(state: State) -> dict[str, Any]:
    """A function without declared fields, which accesses more than it may."""
    return {"notes": [state.secret]}


def overreach(state: State) -> dict[str, Any]:
    return {"secret": "mine"}


def enough(state: State) -> bool:
    return len(state.notes) > 3


AGENT = Agent(FunctionModel(lambda _: "done"), name="helper")
PARTS = registry(
    tools={"fetch": fetch, "remove": remove, "fetch_safely": remove},
    functions=[note, spy, overreach],
    routers=[enough],
    models={"cheap": FunctionModel(lambda _: "cheap answer"), "dear": FunctionModel(lambda _: "dear answer")},
    agents={"helper": AGENT},
    types=[State],
)
RULES: dict[str, Any] = {
    "kinds": ["tool", "llm", "batch", "graph", "function", "field", "human", "set_value"],
    "tools": ["fetch"],
    "functions": ["note", "spy", "overreach"],
    "routers": ["enough"],
    "models": ["cheap"],
    "reads": ["topic", "pages", "verdict"],
    "writes": ["notes", "answer", "verdict"],
}


def validator(**more: Any) -> TopologyValidator:
    return TopologyValidator(**{**RULES, **more})


def node(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, **fields}


def look(name: str = "look", **fields: Any) -> dict[str, Any]:
    return node(name, "tool", **{"function": "fetch", "into": "notes", "as_list": True, **fields})


def write(name: str = "write", **fields: Any) -> dict[str, Any]:
    return node(name, "llm", **{"prompt": "On {topic}: {notes}.", "into": "answer", "model": "cheap", **fields})


def chain(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A design of these nodes, one after another."""
    names = ["START", *(one["name"] for one in nodes), "END"]
    edges = [{"from": names[at], "to": names[at + 1]} for at in range(len(names) - 1)]
    return {"name": "designed", "nodes": list(nodes), "edges": edges, **more}


DESIGN = chain(look(), write())


def graph(designer: Any, rules: TopologyValidator | None = None, **options: Any) -> CompiledGraph[State, Any]:
    """A graph of an adaptive node, whose failure becomes a value."""
    made = adaptive(State, designer, registry=PARTS, validator=rules or validator(), **options)
    g = GraphBuilder(State, name="outer")
    g.add_node("do", made, on_error="keep").add_node("keep", record_error())
    return g.add_edge(START, "do").compile()


def always(design: Any) -> Callable[[State, Any], Any]:
    """A designer that returns the same design each time."""
    return lambda _state, _request: design
