"""A sync node that calls a model waits on a worker thread, because the call may need the event loop of the run."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Budget, Context, GraphBuilder, Runtime
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, FunctionModel, GraphTool, ModelProfile, ResponseCache, ToolCall
from graphrt.reducers import append

IN_TIME_S = 30


class State(BaseModel):
    said: Annotated[list[str], append] = []


async def late(_request: Any) -> AgentReply:
    await asyncio.sleep(0.05)
    return AgentReply(text="late", usage=Usage(input_tokens=10, output_tokens=20, calls=1))


def agent(**options: Any) -> Agent:
    return Agent(
        FunctionModel(late, profile=ModelProfile(name="m", count_tokens=lambda _: 10)), max_tokens=80, **options
    )


def sync_graph(name: str = "inner") -> Any:
    def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [ctx.call(ctx.harness.run, "go").text]}

    g = GraphBuilder(State, name=name)
    g.add_node("ask", ask)
    g.add_sequence([START, "ask", END])
    return g.compile()


def with_nested() -> tuple[Any, list[str]]:
    return sync_graph(), ["late", "late"]


def with_a_tool() -> tuple[Any, list[str]]:
    def asks(request: Any) -> Any:
        used = Usage(input_tokens=1, output_tokens=1, calls=1)
        if any(said.role == "tool" for said in request.messages):
            return AgentReply(text="told", usage=used)
        return AgentReply(tool_calls=(ToolCall(id="1", name="inner", arguments={}),), usage=used)

    tool = GraphTool(sync_graph(), description="Asks.", harness=agent())
    model = FunctionModel(asks, profile=ModelProfile(name="m", count_tokens=lambda _: 1))
    outer = Agent(model, tools=[tool], max_tokens=3)

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.bind(outer).run("go")).text]}

    return ask, ["late", "told"]


@pytest.mark.parametrize("face", ["run", "arun"])
@pytest.mark.parametrize("kind", [with_nested, with_a_tool], ids=["nested", "tool"])
def test_wait_for_room_in_the_budget_ends(kind: Any, face: str) -> None:
    """Only one of the two calls fits at a time: one holds the room that the other waits for."""
    node, expected = kind()

    async def beside(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run("beside")).text]}

    g = GraphBuilder(State, name="outer")
    g.add_node("beside", beside)
    g.add_node("other", node)
    g.add_edge(START, "beside")
    g.add_edge(START, "other")
    runtime = Runtime(g.compile(allow=("no-way-out",)), harness=agent(), budget=Budget(tokens=160))
    result = runtime.run({}) if face == "run" else asyncio.run(asyncio.wait_for(runtime.arun({}), IN_TIME_S))

    assert result.state.said == expected


def test_wait_for_a_shared_reply_of_another_run_ends() -> None:
    """Two runs on one event loop, one of them sync, send the same request through one cache."""
    shared = agent(cache=ResponseCache())

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run("go")).text]}

    g = GraphBuilder(State, name="async")
    g.add_node("ask", ask)
    g.add_sequence([START, "ask", END])
    graphs = [g.compile(), sync_graph()]

    async def both() -> list[Any]:
        return await asyncio.gather(*(graph.arun({}, harness=shared) for graph in graphs))

    results = asyncio.run(asyncio.wait_for(both(), IN_TIME_S))
    assert [result.state.said for result in results] == [["late"], ["late"]]


@pytest.mark.parametrize("count", [1, 2])
def test_event_loop_continues_while_a_sync_node_waits(count: int) -> None:
    turns = 0

    async def answer(_request: Any) -> AgentReply:
        begun = turns
        async with asyncio.timeout(IN_TIME_S):
            while turns < begun + 20:  # noqa: ASYNC110 - the model runs in another event loop
                await asyncio.sleep(0.001)
        return AgentReply(text="late", usage=Usage(input_tokens=10, output_tokens=20, calls=1))

    async def main() -> Any:
        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        g = GraphBuilder(State, name="waits")
        for number in range(count):
            g.add_node(f"ask{number}", lambda state, ctx: {"said": [ctx.call(ctx.harness.run, "go").text]})
            g.add_edge(START, f"ask{number}")
            g.add_edge(f"ask{number}", END)
        turning = asyncio.ensure_future(turn())
        result = await Runtime(g.compile(), harness=Agent(FunctionModel(answer))).arun({})
        turning.cancel()
        return result

    assert asyncio.run(main()).state.said == ["late"] * count
