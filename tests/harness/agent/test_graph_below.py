"""A graph that an agent runs is a part of its run: of its budget, its depth and its stream."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import TypedDict

from graphrt import END, START, Budget, Context, GraphBuilder, Runtime
from graphrt.errors import BudgetExceededError
from graphrt.harness import (
    Agent,
    AgentLimits,
    GraphHarness,
    GraphTool,
    ScriptedModel,
    SubAgentItem,
    TextDelta,
    ToolCall,
    Usage,
)


class State(TypedDict):
    said: str


def graph(name: str = "inner", *tools: str) -> Any:
    async def node(state: State, ctx: Context) -> State:
        return {"said": (await ctx.harness.run(state["said"])).text}

    builder = GraphBuilder(State, name=name)
    builder.add_node("ask", node, tools=tools)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile()


def outer(inner: Agent, *more: str, **options: Any) -> Agent:
    calls = [ToolCall(id="1", name="inner", arguments={"said": "go"}), *more, "done"]
    below = GraphTool(graph(), description="Runs it.", output=lambda state: state["said"], harness=inner)
    return Agent(ScriptedModel(calls), name="outer", tools=[below], max_tokens=20, **options)


def inner(*said: str) -> Agent:
    return Agent(ScriptedModel(said), name="in", max_tokens=20)


def test_calls_of_the_graph_are_limited_by_the_budget_of_the_agent() -> None:
    assert asyncio.run(outer(inner("x"), budget=Budget(calls=3)).run("go")).text == "done"
    with pytest.raises(BudgetExceededError):
        asyncio.run(outer(inner("x"), budget=Budget(calls=1)).run("go"))


def test_calls_of_the_graph_are_limited_by_the_budget_of_the_run_and_counted_once() -> None:
    result = Runtime(graph("outer", "inner"), harness=outer(inner("x")), budget=Budget(calls=3)).run({"said": "go"})
    assert (result.state["said"], result.usage.calls) == ("done", 3)
    with pytest.raises(BudgetExceededError):
        Runtime(graph("outer", "inner"), harness=outer(inner("x")), budget=Budget(calls=1)).run({"said": "go"})


def test_items_of_the_graph_are_on_the_stream_of_the_agent() -> None:
    async def watched() -> list[Any]:
        return [item async for item in outer(inner("x")).stream("go")]

    below = [item for item in asyncio.run(watched()) if isinstance(item, SubAgentItem)]
    assert {item.agent for item in below} == {"inner/ask"}
    assert [item.item.text for item in below if isinstance(item.item, TextDelta)] == ["x"]


def test_items_of_the_graph_are_on_the_stream_of_the_outer_graph() -> None:
    runtime = Runtime(graph("around", "inner"), harness=outer(inner("x")))
    shown = [item.item for item in runtime.stream({"said": "go"}, modes="messages")]
    assert any(isinstance(item, SubAgentItem) and isinstance(item.item, TextDelta) for item in shown)


def test_agents_in_the_graph_are_a_level_deeper() -> None:
    too_deep = asyncio.run(outer(inner("x"), limits=AgentLimits(depth=0)).run("go"))
    assert [
        (message.error, "1 level below" in message.text) for message in too_deep.messages if message.role == "tool"
    ] == [(True, True)]
    assert asyncio.run(outer(inner("x"), limits=AgentLimits(depth=1)).run("go")).messages[2].text == "x"


def failing(calls: int = 1) -> Any:
    """A graph that pays for *calls* calls, and then fails."""

    async def node(state: State, ctx: Context) -> State:
        for number in range(calls):
            await ctx.harness.run(f"{state['said']} {number}")
        raise ValueError("off")

    builder = GraphBuilder(State, name="inner")
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile()


def test_usage_of_a_failed_graph_is_counted() -> None:
    def agent() -> Agent:
        below = GraphTool(failing(2), description="Fails.", harness=inner("x", "y"))
        return Agent(ScriptedModel([ToolCall(id="1", name="inner", arguments={"said": "go"}), "done"]), tools=[below])

    result = Runtime(graph("outer", "inner"), harness=agent()).run({"said": "go"})
    assert (result.state["said"], result.usage.calls) == ("done", 4)

    alone = asyncio.run(agent().run("go"))
    assert alone.usage is not None
    assert alone.usage.calls == 4


def saved_by(harness: Any) -> Any:
    """The result of a graph whose node calls *harness*, and whose next node handles a failure."""

    async def node(state: State, ctx: Context) -> State:
        return {"said": (await ctx.harness.run("go")).text}

    builder = GraphBuilder(State, name="around")
    builder.add_node("ask", node, on_error="saved")
    builder.add_node("saved", lambda state: {"said": "saved"})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    builder.add_edge("saved", END)
    return Runtime(builder.compile(), harness=harness).run({"said": "go"})


def test_usage_of_a_failed_graph_as_a_harness_is_counted() -> None:
    harness = GraphHarness(
        failing(2), input=lambda prompt: {"said": prompt}, output=lambda state: state["said"], harness=inner("x", "y")
    )

    result = saved_by(harness)
    assert (result.state["said"], result.usage.calls) == ("saved", 2)


@pytest.mark.parametrize("status", ["interrupted", "cancelled", "completed"])
def test_usage_of_a_graph_without_a_reply_as_a_harness_is_counted(status: str) -> None:
    """It paused or was cancelled, or its state has no text."""

    class Below:
        name = "below"

        async def arun(self, input: Any) -> Any:
            return SimpleNamespace(status=status, state={}, usage=Usage(input_tokens=3, calls=2), thread=None)

    harness: Any = GraphHarness(Below(), input=lambda prompt: prompt, output=lambda state: state["said"])  # type: ignore[arg-type]

    result = saved_by(harness)
    assert (result.state["said"], result.usage.calls) == ("saved", 2)


def test_harness_over_an_object_without_usage_replies_without_usage() -> None:
    class Below:
        name = "below"

        async def arun(self, input: Any) -> Any:
            return SimpleNamespace(status="completed", state={"said": "yes"}, usage=None, thread=None)

    harness: Any = GraphHarness(Below(), input=lambda prompt: prompt, output=lambda state: state["said"])  # type: ignore[arg-type]

    assert asyncio.run(harness.run("go")).usage is None


def test_usage_of_a_graph_run_inside_it_is_counted() -> None:
    """One of its nodes runs another graph directly, which is also a part of the agent's run."""
    deepest = graph("deepest")

    async def node(state: State, ctx: Context) -> State:
        return (await deepest.arun({"said": "go"}, harness=inner("z"))).state

    builder = GraphBuilder(State, name="inner")
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    below = GraphTool(builder.compile(), description="Runs another.")
    agent = Agent(ScriptedModel([ToolCall(id="1", name="inner", arguments={"said": "go"}), "done"]), tools=[below])
    usage = asyncio.run(agent.run("go")).usage
    assert usage is not None
    assert usage.calls == 3
