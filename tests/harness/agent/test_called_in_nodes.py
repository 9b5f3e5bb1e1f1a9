"""An agent that a node calls directly works for that node: counted, recorded, bounded, with questions through its
thread.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from graphrt import END, START, Budget, Context, GraphBuilder, MockHarness, RetryPolicy, Runtime
from graphrt.errors import BudgetExceededError, InputError, NodeError
from graphrt.harness import Agent, ScriptedModel, Template, ToolCall, tool


class State(TypedDict):
    said: str


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def graph(node: Any) -> Any:
    builder = GraphBuilder(State)
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile()


def asking(agent: Agent) -> Any:
    async def node(state: State, ctx: Context) -> State:
        return {"said": (await agent.run("go")).text}

    return graph(node)


def test_called_agent_is_counted_and_limited_by_the_budget_of_the_run() -> None:
    agent = Agent(ScriptedModel(["one", "two"]), max_tokens=5)
    assert Runtime(asking(agent), budget=Budget(calls=1)).run({"said": ""}).usage.calls == 1
    with pytest.raises(BudgetExceededError):
        Runtime(asking(agent), budget=Budget(calls=0)).run({"said": ""})


def test_called_agent_asks_through_the_thread_and_pays_nothing_twice() -> None:
    model = ScriptedModel([ToolCall(id="1", name="pay", arguments={"amount": 3}), "done"])
    with Runtime(asking(Agent(model, tools=[pay], max_tokens=5)), store="memory:") as runtime:
        paused = runtime.run({"said": ""}, thread="t")
        assert paused.interrupts[0].payload["tool"] == "pay"
        result = runtime.resume("t", True)
    assert (result.state["said"], len(model.calls), result.usage.calls) == ("done", 2, 2)


def test_stream_of_a_called_agent_is_that_of_the_graph() -> None:
    agent = Agent(ScriptedModel(["one"]), max_tokens=5)

    async def node(state: State, ctx: Context) -> None:
        async for _ in agent.stream("go"):
            pass

    with pytest.raises(NodeError, match="in a node of a graph"):
        Runtime(graph(node)).run({"said": ""})
    shown = list(Runtime(asking(agent)).stream({"said": ""}, modes="messages"))
    assert {item.node for item in shown} == {"ask"}


def test_agent_is_not_bound_after_the_node() -> None:
    agent = Agent(ScriptedModel(["one", "two"]), max_tokens=5)

    async def both() -> Any:
        result = await Runtime(asking(agent)).arun({"said": ""})
        return result, await agent.run("by itself")

    result, reply = asyncio.run(both())
    assert (result.usage.calls, reply.text) == (1, "two")


@pytest.mark.parametrize("odd", [Agent, ScriptedModel(["x"]), None, "openai/x"], ids=["class", "model", "None", "text"])
def test_harness_that_cannot_be_called_is_not_bound(odd: Any) -> None:
    async def node(state: State, ctx: Context) -> None:
        ctx.bind(odd)

    with pytest.raises(NodeError) as caught:
        Runtime(graph(node)).run({"said": ""})
    assert getattr(caught.value.__cause__, "code", "") == "bad-harness"


def test_prompts_and_models_of_other_kinds_are_refused_with_a_fix() -> None:
    agent = Agent(ScriptedModel(["x"]), retry=None)
    odd: Any
    for odd, told in ((3, "a list of texts and media, or a list of messages"), (Template("{x}"), "Render a Template")):
        with pytest.raises(InputError, match=told):
            asyncio.run(agent.run(odd))
    with pytest.raises(InputError, match="system cannot be"):
        Agent(ScriptedModel(["x"]), system=Template("{x}"))  # type: ignore[arg-type]  # the tested mistake
    with pytest.raises(InputError, match="the class ScriptedModel"):
        Agent(ScriptedModel)  # type: ignore[arg-type]  # the tested mistake


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_model_is_called_again_after_a_failed_attempt(kind: str, error: type[Exception]) -> None:
    replies: list[str] = []

    async def anode(state: State, ctx: Context) -> Any:
        replies.append((await ctx.harness.run("go")).text)
        if ctx.attempt == 1:
            raise error("odd")
        return {"said": replies[-1]}

    def node(state: State, ctx: Context) -> Any:
        replies.append(ctx.harness.run_sync("go").text)
        if ctx.attempt == 1:
            raise error("odd")
        return {"said": replies[-1]}

    builder = GraphBuilder(State)
    builder.add_node("ask", anode if kind == "async" else node, retry=RetryPolicy(2, retry_on=error, wait_initial_s=0))
    builder.add_edge(START, "ask")

    builder.compile().run({"said": ""}, harness=MockHarness(["one", "two"]))
    assert replies == ["one", "two"]
