"""Shared parts of the tests of manifests: a graph with a node of each kind, and its registry."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from graphrt import DELETE, END, START, CompiledGraph, Context, GraphBuilder, Limits, RetryPolicy
from graphrt.errors import DefinitionError, Problem
from graphrt.harness import Agent, Budget, MockHarness, ScriptedModel, Template
from graphrt.nodes import (
    batch,
    clear_error,
    copy_of,
    human,
    llm,
    record_error,
    reduce,
    registry_of,
    router,
    set_value,
    subagent,
    tool,
)
from graphrt.reducers import append, ephemeral
from graphrt.specs import Registry


class Way(Enum):
    LEFT = 1
    RIGHT = 2


class Answer(BaseModel):
    text: str
    score: int = 0


def longest(current: str, incoming: str) -> str:
    """A user's reducer."""
    return max(current, incoming, key=len)


class State(BaseModel):
    topic: str = "tea"
    pages: list[str] = []
    notes: Annotated[list[str], append] = []
    title: Annotated[str, longest] = ""
    answer: str = ""
    score: int = 0
    verdict: str | None = None
    failed: Annotated[list[Any], append] = []
    error: dict[str, Any] | None = None
    tag: Annotated[str, ephemeral] = ""


def fetch(topic: str) -> str:
    return f"about {topic}"


def shorten(notes: list[str]) -> str:
    return " ".join(notes)[:10]


def collect(state: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [str(ctx.arg)]}


def label(state: State) -> dict[str, Any]:
    return {"title": state.topic}


def key(state: State) -> str:
    return state.topic


def way(state: State) -> Way:
    return Way.LEFT if state.score else Way.RIGHT


def flag(state: State) -> bool:
    return bool(state.notes)


def several(state: State) -> list[Literal["answer", "label"]]:
    return ["answer", "label"]


def is_wrong(error: Exception) -> bool:
    return "wrong" in str(error)


def child() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="child")
    g.add_node("label", label).add_node("more", set_value(notes=["more"]))
    g.add_sequence([START, "label", "more", END])
    return g.compile(limits=Limits(max_steps=7))


MODEL = ScriptedModel(["one", "two", "three"])
WRITER = Agent(MODEL, name="writer")


def every_kind() -> CompiledGraph[State, Any]:
    """A graph with a node of each kind, each kind of edge, and most policies."""
    g = GraphBuilder(State, name="all")
    g.add_node(
        "label", label, retry=RetryPolicy(4, wait_initial_s=1, retry_on=(ConnectionError, OSError)), cache=4, key=key
    )
    g.add_node("ask", llm("About {topic}.", into="answer", model=MODEL, system=Template("Be {topic}."), max_tokens=9))
    g.add_node("score", llm("Judge {answer}.", into={"score": "score"}, output=Answer, name="judge", model="cheap"))
    g.add_node("sub", subagent(WRITER, "Write on {topic}.", into="answer", budget=Budget(tokens=50), tools=[]))
    g.add_node("chat", WRITER, input="topic", output="answer", on_error="keep", max_visits=None)
    g.add_node("fetch", tool(fetch, into="notes", as_list=True, effect="once"), timeout_s=2, version="2")
    g.add_node("reduce", reduce("notes", into="answer", function=shorten))
    g.add_node("jury", human("Publish {answer}?", into="verdict", roles={"approve": ["editor"]}, timeout_s=60.0))
    g.add_node(
        "set", set_value(answer=Template("{topic}!"), verdict=DELETE, notes=["a"], title=copy_of("topic"), score=1)
    )
    g.add_node("keep", record_error())
    g.add_node("clear", clear_error())
    g.add_node("batch", batch(State, {"a": collect, "b": llm("Read {page}.", into="notes", item="page", as_list=True)},
                              over="pages", on_failure="collect", failures="failed", retry=2, max_concurrency=3))  # fmt: skip
    g.add_node("child", child(), input={"topic": "answer"}, budget=Budget(usd=0.5, calls=3), interrupt_before=True)
    g.add_node("last", label, goto=["label", END], writes=["title"], retry=RetryPolicy(2, retry_on=is_wrong))
    g.add_edge(START, "label")
    g.add_edge("label", "ask").add_edge("label", "score")
    g.add_join(["ask", "score"], "sub", when="any", starved="ignore")
    g.add_conditional_edges("sub", *router("verdict", {"approve": "chat", "reject": "fetch"}, default=END))
    g.add_conditional_edges("chat", way, {Way.LEFT: "fetch", Way.RIGHT: END})
    g.add_conditional_edges("fetch", flag, {True: "reduce", False: "jury"})
    g.add_conditional_edges("reduce", lambda state: "jury", ["jury", "set"])
    g.add_sequence(["jury", "set", "clear", "batch", "child", "last"])
    g.add_edge("keep", "clear")
    judged = ["unreachable-node", "no-way-out", "starving-join", "write-conflict", "endless-loop", "deleted-source"]
    return g.compile(limits=Limits(max_steps=40, deadline_s=2.5, max_visits=None), allow=judged)


def small() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="small")
    g.add_node("ask", llm("About {topic}.", into="answer")).add_node("label", label)
    g.add_sequence([START, "ask", "label", END])
    return g.compile()


def again(graph: Any, spec: Any = None, registry: Registry | None = None) -> Any:
    """The graph that is read back."""
    read = GraphBuilder.from_spec(graph.to_spec() if spec is None else spec, registry or registry_of(graph))
    return read.compile()


def problems_of(act: Callable[[], Any]) -> list[tuple[str, str]]:
    """Code and path of each problem for which *act* is refused."""
    try:
        act()
    except DefinitionError as error:
        return [(problem.code, problem.where) for problem in error.problems]
    raise AssertionError("nothing was refused")


def told(act: Callable[[], Any]) -> tuple[Problem, ...]:
    try:
        act()
    except DefinitionError as error:
        return error.problems
    raise AssertionError("nothing was refused")


def mock(*script: Any) -> MockHarness:
    return MockHarness(list(script))
