"""An agent that a node calls without its context gives a warning: it is not counted, budgeted or recorded."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import typing_extensions as te

from graphrt import START, GraphBuilder, Runtime
from graphrt.harness import Agent, FunctionModel


class State(te.TypedDict, total=False):
    text: str
    other: str


agent = Agent(FunctionModel(lambda request: "yes"), name="clerk")


async def alone(state: Any) -> Any:
    return {"text": (await agent.run("?")).text}


async def helped(state: Any) -> Any:
    async def helper() -> str:
        return (await agent.run("?")).text

    return {"text": await helper()}


def in_step(state: Any) -> Any:
    return {"text": agent.run_sync("?").text}


def own_loop(state: Any, ctx: Any) -> Any:
    return {"text": asyncio.run(agent.run("?")).text}


async def seen(state: Any, ctx: Any) -> Any:
    return {"text": (await agent.run("?")).text}


def seen_in_step(state: Any, ctx: Any) -> Any:
    return {"text": agent.run_sync("?").text}


def graph_of(node: Any, *, beside: bool = False) -> Any:
    g = GraphBuilder(State, name="shop")
    g.add_node("talk", node).add_edge(START, "talk")
    if beside:
        g.add_node("other", lambda state: {"other": "x"}).add_edge(START, "other")
    return g.compile()


def run(graph: Any, how: str) -> Any:
    if how == "arun":
        return asyncio.run(graph.arun({}))
    if how == "store":
        with Runtime(graph, store="memory:") as runtime:
            return runtime.run({}, thread="t")
    return graph.run({})


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("how", ["run", "arun", "store"])
@pytest.mark.parametrize("node", [alone, helped, in_step])
def test_call_without_the_context_gives_a_warning(node: Any, how: str, beside: bool) -> None:
    result = run(graph_of(node, beside=beside), how)

    (told,) = result.warnings
    assert told.startswith("Agent 'clerk' was called in node 'talk' of graph 'shop' at ")
    assert told.endswith("a context, talk(state, ctx).")
    assert (result.state["text"], result.usage.calls) == ("yes", 0)


@pytest.mark.parametrize("how", ["run", "arun", "store"])
@pytest.mark.parametrize("node", [seen, seen_in_step, own_loop])
def test_call_in_a_node_with_a_context_is_counted_without_a_warning(node: Any, how: str) -> None:
    result = run(graph_of(node), how)

    assert (result.warnings, result.usage.calls) == ((), 1)


def test_warning_is_logged_once_and_in_each_result(caplog: pytest.LogCaptureFixture) -> None:
    once = Agent(FunctionModel(lambda request: "yes"), name="once")

    async def node(state: Any) -> Any:
        return {"text": (await once.run("?")).text + (await once.run("?")).text}

    graph = graph_of(node)
    with caplog.at_level(logging.WARNING, "graphrt.harness"):
        assert [len(graph.run({}).warnings) for _ in range(2)] == [1, 1]

    assert len(caplog.records) == 1


def test_agent_outside_graphs_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "graphrt.harness"):
        assert asyncio.run(agent.run("?")).text == agent.run_sync("?").text

    assert caplog.records == []
