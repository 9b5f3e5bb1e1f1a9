"""An agent that a node calls past its context is told of: nothing of it is counted, budgeted or remembered."""

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
def test_a_call_past_the_context_is_told(node: Any, how: str, beside: bool) -> None:
    result = run(graph_of(node, beside=beside), how)

    (told,) = result.warnings
    assert told.startswith("Agent 'clerk' was called in node 'talk' of graph 'shop' at ")
    assert told.endswith("a context, talk(state, ctx).")
    assert (result.state["text"], result.usage.calls) == ("yes", 0)


@pytest.mark.parametrize("how", ["run", "arun", "store"])
@pytest.mark.parametrize("node", [seen, seen_in_step, own_loop])
def test_a_call_in_a_node_that_takes_a_context_is_counted_and_not_told(node: Any, how: str) -> None:
    result = run(graph_of(node), how)

    assert (result.warnings, result.usage.calls) == ((), 1)


def test_the_log_has_it_once_and_each_run_has_it(caplog: pytest.LogCaptureFixture) -> None:
    once = Agent(FunctionModel(lambda request: "yes"), name="once")

    async def node(state: Any) -> Any:
        return {"text": (await once.run("?")).text + (await once.run("?")).text}

    graph = graph_of(node)
    with caplog.at_level(logging.WARNING, "graphrt.harness"):
        assert [len(graph.run({}).warnings) for _ in range(2)] == [1, 1]

    assert len(caplog.records) == 1


def test_an_agent_outside_of_graphs_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "graphrt.harness"):
        assert asyncio.run(agent.run("?")).text == agent.run_sync("?").text

    assert caplog.records == []
