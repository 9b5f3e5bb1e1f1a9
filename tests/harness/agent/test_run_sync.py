"""An agent that runs without `await`: outside graphs, in sync nodes and tools, and where it is refused."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from graphrt import END, START, Budget, Context, GraphBuilder, Runtime
from graphrt._ambient import SURROUNDINGS, surroundings
from graphrt.errors import BudgetExceededError, InputError, NodeError
from graphrt.harness import Agent, FunctionModel, MockHarness, ScriptedModel, ToolCall, tool

from .graphs import replies


class State(TypedDict, total=False):
    said: str


def graph(node: Any) -> Any:
    builder = GraphBuilder(State)
    builder.add_node("ask", node)
    builder.add_sequence([START, "ask", END])
    return builder.compile()


def agent(*script: Any, **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(script), max_tokens=9, retry=None, **options)


def test_run_sync_answers_without_an_event_loop():
    transcript: list[Any] = []

    reply = agent('{"value": 3}').run_sync("how many?", output=int, transcript=transcript)

    assert (reply.output, len(transcript)) == (3, 2)


def test_run_sync_answers_within_an_event_loop():
    async def notebook() -> str:
        return agent("fine").run_sync("hi").text

    assert asyncio.run(notebook()) == "fine"


def test_run_sync_raises_the_error_of_the_agent():
    with pytest.raises(ZeroDivisionError):
        agent(ZeroDivisionError()).run_sync("hi")


def test_connections_of_tools_are_reused_over_calls():
    loops: list[Any] = []

    async def where() -> str:
        """Tell where."""
        loops.append(asyncio.get_running_loop())
        return "here"

    asking = agent(*[ToolCall(id="1", name="where", arguments={}), "done"] * 2, tools=[where])
    asking.run_sync("go")
    asking.run_sync("go")

    assert loops[0] is loops[1]


def test_run_sync_uses_an_override():
    asking = agent()

    with asking.override(model=ScriptedModel(["overridden"])):
        assert asking.run_sync("hi").text == "overridden"


# -- in a sync node --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "arun"])
def test_run_sync_works_for_the_sync_node_that_calls_it(verb):
    asking = agent("one", "two")

    def node(state: State, ctx: Context) -> State:
        said = asking.run_sync("hi").text
        ctx.interrupt("sure?")
        return {"said": said + asking.run_sync("and?").text}

    with Runtime(graph(node), store="memory:", budget=Budget(calls=2)) as runtime:
        if verb == "run":
            assert runtime.run({}, thread="t").status == "interrupted"
            result = runtime.resume("t", True)
        else:
            assert asyncio.run(runtime.arun({}, thread="t")).status == "interrupted"
            result = asyncio.run(runtime.aresume("t", True))

        assert (result.state["said"], result.usage.calls) == ("onetwo", 2)
        assert len(replies(runtime)) == 2


def test_run_sync_is_limited_by_the_budget_of_the_run():
    with pytest.raises(BudgetExceededError):
        graph(lambda state, ctx: {"said": agent("one").run_sync("hi").text}).run({}, budget=Budget(calls=0))


def test_run_sync_asks_through_the_thread():
    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    asking = agent(ToolCall(id="1", name="pay", arguments={"amount": 3}), "done", tools=[pay])

    def node(state: State, ctx: Context) -> State:
        return {"said": asking.run_sync("go").text}

    with Runtime(graph(node), store="memory:") as runtime:
        assert runtime.run({}, thread="t").interrupts[0].payload["tool"] == "pay"
        assert runtime.resume("t", True).state["said"] == "done"


def test_run_sync_under_ctx_call_also_works_for_the_node():
    asking = agent("one")

    def node(state: State, ctx: Context) -> State:
        return {"said": ctx.call(asking.run, "hi").text}

    result = graph(node).run({}, budget=Budget(calls=1))

    assert (result.state["said"], result.usage.calls) == ("one", 1)


def test_node_without_a_context_may_use_run_sync():
    asking = agent("one")

    result = graph(lambda state: {"said": asking.run_sync("hi").text}).run({})

    assert result.state["said"] == "one"


def test_harness_of_a_sync_node_has_run_sync_and_restricts_its_tools():
    def secret() -> str:
        """Tell."""
        return "secret"

    asking = agent("one", tools=[secret])

    def node(state: State, ctx: Context) -> State:
        return {"said": ctx.harness.run_sync("hi").text}

    builder = GraphBuilder(State)
    builder.add_node("ask", node, tools=[])
    builder.add_sequence([START, "ask", END])

    assert builder.compile().run({}, harness=asking).state["said"] == "one"
    assert asking.models[0].calls[0].tools == ()  # type: ignore[attr-defined]
    assert graph(node).run({}, harness=MockHarness(["mock"])).state["said"] == "mock"


def test_sync_tool_may_call_a_sub_agent():
    inner = agent("inside", name="inner")

    def look() -> str:
        """Look."""
        return inner.run_sync("hi").text

    outer = agent(ToolCall(id="1", name="look", arguments={}), "done", name="outer", tools=[look])

    async def node(state: State, ctx: Context) -> State:
        return {"said": (await ctx.bind(outer).run("go")).text}

    result = graph(node).run({})

    assert (result.state["said"], result.usage.calls) == ("done", 3)
    assert outer.models[0].calls[1].text == "inside"  # type: ignore[attr-defined]


# -- deadlocks -------------------------------------------------------------------------------------------------------


def test_async_node_gets_an_error_that_suggests_await():
    async def node(state: State, ctx: Context) -> State:
        return {"said": agent("one").run_sync("hi").text}

    with pytest.raises(NodeError, match="run_sync") as failed:
        graph(node).run({})

    error = failed.value if failed.value.__cause__ is None else failed.value.__cause__
    assert isinstance(error, InputError)
    assert error.code == "run-sync-in-loop"


def test_harness_of_an_async_node_also_suggests_await():
    async def node(state: State, ctx: Context) -> State:
        return {"said": ctx.harness.run_sync("hi").text}

    with pytest.raises(NodeError, match="Await the function instead"):
        graph(node).run({}, harness=MockHarness())


def test_async_tool_gets_an_error_that_suggests_await():
    inner = agent("inside")

    async def look() -> str:
        """Look."""
        return inner.run_sync("hi").text

    outer = agent(ToolCall(id="1", name="look", arguments={}), "done", tools=[look])

    assert outer.run_sync("go").text == "done"
    # A model gets the error without the advice for developers.
    assert "was run by run_sync() in a coroutine" in outer.models[0].calls[1].text  # type: ignore[attr-defined]


def test_run_sync_does_not_wait_for_its_own_event_loop():
    inner = agent("inside")

    async def answer(_: Any) -> str:
        SURROUNDINGS.set(surroundings().replaced(agent=None))  # like in a callback that was created elsewhere
        return inner.run_sync("hi").text

    with pytest.raises(InputError) as refused:
        Agent(FunctionModel(answer)).run_sync("go")
    assert refused.value.code == "run-sync-in-loop"
