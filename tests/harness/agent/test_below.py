"""Agents and graphs below an agent: their usage is counted once, their items are streamed, and their depth is limited."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import GraphBuilder, NodeError
from graphrt.errors import AgentLimitError, InputError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentLimits, GraphHarness, GraphTool, SubAgentItem, TokenTracker, tool

from .fakes import USED, Model, call, counting, kinds, run, says, watch
from .graphs import ask, every_way

THREE = Usage(input_tokens=9, output_tokens=6, calls=3)


def asks(name: str = "helper", question: str = "what?") -> Any:
    return call(name, question=question)


def pair(*inner: Any, **options: Any) -> Agent:
    """An agent that calls another one."""
    helper = Agent(Model(*(inner or ("inner",))), name="helper", **options)
    return Agent(Model(asks(), "outer"), name="boss", tools=[helper.as_tool(description="helps")])


def test_agent_calls_another_one():
    reply = run(pair())

    assert [said.text for said in reply.messages] == ["go", "", "inner", "outer"]
    assert reply.usage == THREE


def test_items_of_a_sub_agent_have_its_name():
    low = Agent(Model(call("note", x=1), "low"), name="low", tools=[counting([])])
    middle = Agent(Model(asks("low"), "middle"), name="middle", tools=[low.as_tool(description="l")])
    top = Agent(Model(asks("middle"), "top"), tools=[middle.as_tool(description="m")])

    items = watch(top)

    below = [item for item in items if isinstance(item, SubAgentItem)]
    assert {item.agent for item in below} == {"middle", "middle/low"}
    assert "ToolEnded" in kinds([item.item for item in below if item.agent == "middle/low"])
    assert kinds([item for item in items if not isinstance(item, SubAgentItem)])[:4] == [
        "ModelStarted", "ToolCallDelta", "ModelEnded", "ToolStarted",
    ]  # fmt: skip
    assert items[-1].usage.calls == 6


@pytest.mark.parametrize(("depth", "fails"), [(0, True), (1, True), (2, False)])
def test_depth_is_limited_by_the_outermost_agent(depth, fails):
    low = Agent(Model("low"), name="low")
    middle = Agent(Model(asks("low"), "middle"), name="middle", tools=[low.as_tool(description="l")])
    top = Agent(Model(asks("middle"), "top"), tools=[middle.as_tool(description="m")], limits=AgentLimits(depth=depth))

    items = watch(top)

    failed = [item for item in items if "AgentLimitError" in str(item)]
    assert bool(failed) == fails


def test_agent_that_calls_itself_terminates():
    agents: list[Agent] = []

    @tool
    async def again() -> str:
        return (await agents[0].run("deeper")).text

    agents.append(Agent(Model(fn=lambda r: call("again") if len(r.messages) == 1 else r.text), tools=[again]))

    reply = run(agents[0])

    assert "8 levels" in reply.text or "9 levels" in reply.text
    assert reply.usage.calls == 2 * 9


def test_cancelled_run_cancels_its_sub_agents():
    async def main() -> Model:
        model = Model(fn=lambda _: asyncio.Event().wait())
        helper = Agent(model, name="helper")
        top = Agent(Model(asks()), tools=[helper.as_tool(description="helps")])
        running = asyncio.ensure_future(top.run("go"))
        await model.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return model

    model = asyncio.run(main())

    assert (model.cancelled, model.open) == (1, 0)


def test_usage_of_sub_agents_counts_although_they_fail():
    helper = Agent(Model(says("x", call("gone")), ValueError("off")), name="helper")
    top = Agent(Model(asks(), "outer"), tools=[helper.as_tool(description="helps")])

    reply = run(top)

    assert "ValueError: off" in reply.messages[2].text
    assert reply.usage == THREE


@pytest.mark.parametrize("arguments", [{}, {"question": 1}, {"question": "a", "more": 1}])
def test_sub_agent_takes_one_question(arguments):
    helper = Agent(Model(), name="helper").as_tool(description="helps")

    reply = run(Agent(Model(call("helper", **arguments), "done"), tools=[helper]))

    assert "exactly one argument" in reply.messages[2].text


@pytest.mark.parametrize("name", ["", "two words", "a.b", "x" * 65, "ä"])
@pytest.mark.parametrize("own", [False, True])
def test_name_that_providers_refuse_is_refused(name, own):
    """Names of sub-agents and graphs are validated like those of functions."""
    graph = GraphBuilder(Topic, name="research" if own else name or "two words")
    graph.add_node("look", look).set_entry("look").set_finish("look")
    agent = Agent(Model(), name="helper" if own else name or "two words")
    given = {"name": name} if own else {}

    for make in (agent.as_tool, partial(GraphTool, graph.compile())):
        with pytest.raises(InputError) as caught:
            make(description="d", **given)
        assert caught.value.code == "input"
        assert " as a tool" in caught.value.where


# -- in graphs -------------------------------------------------------------------------------------------------------


@every_way
def test_all_calls_in_a_graph_are_counted_once_and_none_is_repeated(way):
    counts: list[int] = []
    helper_model, boss_model = Model(call("note", x=1), "inner"), Model(asks(), "outer")
    helper = Agent(helper_model, name="helper", tools=[counting(counts, approval=True)])
    boss = Agent(boss_model, name="boss", tools=[helper.as_tool(description="helps")])
    tracker = TokenTracker()

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        ctx.interrupt("well?")
        return {"said": [reply.text, reply.usage.calls]}

    with way.runtime(way.graph(body, tools=("helper",)), harness=boss, sinks=[tracker]) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert paused.interrupts[0].payload["agent"] == "boss/helper"
        way(runtime, "resume", "t", True)
        result = way(runtime, "resume", "t", "yes")
        entries = list(runtime.entries("t"))

    assert result.state.said == ["outer", 4]
    assert counts == [1]
    assert (len(helper_model.asked), len(boss_model.asked)) == (2, 2)
    assert result.usage.calls == tracker.total.calls == TokenTracker().read(entries).total.calls == 4
    assert {name: usage.calls for name, usage in tracker.by_tool().items()} == {"helper": 2}


def test_tool_that_asks_one_agent_the_same_twice_makes_two_calls(way):
    model = Model("one", "two")
    helper = Agent(model, name="helper")

    @tool
    async def twice() -> list[str]:
        return [(await helper.run("same")).text for _ in range(2)]

    boss = Agent(Model(call("twice"), "outer"), tools=[twice])

    async def body(state: Any, ctx: Any) -> Any:
        return {"said": [(await ctx.harness.run("go")).messages[2].text]}

    with way.runtime(way.graph(body, tools=("twice",)), harness=boss) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == ['["one","two"]']
    assert result.usage.calls == 4


def test_questions_of_parallel_agents_are_asked_together(way):
    counts: list[int] = []
    note = counting(counts, approval=True)
    helpers = [Agent(Model(call("note", x=n), f"inner {n}"), name=f"h{n}", tools=[note]) for n in range(2)]
    turn = says(*(call(f"h{n}", question="what?") for n in range(2)))
    boss = Agent(Model(turn, "outer"), tools=[one.as_tool(description="helps") for one in helpers])

    with way.runtime(way.graph(ask(), tools=("h0", "h1")), harness=boss) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert sorted(one.payload["agent"] for one in paused.interrupts) == ["agent/h0", "agent/h1"]
        result = way(runtime, "resume", "t", {one.id: True for one in paused.interrupts})

    assert result.state.said == ["outer"]
    assert sorted(counts) == [0, 1]
    assert result.usage.calls == 6


# -- graphs ----------------------------------------------------------------------------------------------------------


class Topic(BaseModel):
    topic: str
    text: str = ""


def inner_graph(body: Any) -> Any:
    builder = GraphBuilder(Topic, name="research")
    builder.add_node("look", body)
    builder.set_entry("look").set_finish("look")
    return builder.compile()


async def look(state: Any, ctx: Any) -> Any:
    return {"text": f"{state.topic}: {(await ctx.harness.run(state.topic)).text}"}


def research(body: Any = look, **options: Any) -> GraphTool:
    return GraphTool(inner_graph(body), description="looks", output=lambda state: state.text, **options)


def test_a_graph_is_a_tool():
    graph = research(harness=Agent(Model("found")))

    reply = run(Agent(Model(call("research", topic="ants"), "outer"), tools=[graph]))

    assert reply.messages[2].text == "ants: found"
    assert reply.usage == THREE


def test_arguments_that_are_not_a_valid_input_are_reported_to_the_model():
    reply = run(Agent(Model(call("research", topic=[1]), "outer"), tools=[research()]))

    assert "topic" in reply.messages[2].text
    assert reply.messages[2].error


@every_way
def test_usage_of_a_graph_below_is_counted_once(way):
    model = Model("found")
    boss = Agent(Model(call("research", topic="ants"), "outer"), tools=[research(harness=Agent(model))])
    tracker = TokenTracker()

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        ctx.interrupt("well?")
        return {"said": [reply.text]}

    with way.runtime(way.graph(body, tools=("research",)), harness=boss, sinks=[tracker]) as runtime:
        way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", "yes")

    assert len(model.asked) == 1
    assert result.usage == tracker.total == THREE
    assert {name: usage.calls for name, usage in tracker.by_tool().items()} == {"research": 1}


def test_graph_that_pauses_cannot_be_a_tool():
    async def pauses(state: Any, ctx: Any) -> Any:
        return {"text": ctx.interrupt("well?")}

    reply = run(Agent(Model(call("research", topic="ants"), "outer"), tools=[research(pauses, store="memory:")]))

    assert reply.messages[2].error
    assert "interrupted" in reply.messages[2].text


def test_failure_of_a_graph_is_reported_to_the_model():
    async def fails(state: Any, ctx: Any) -> Any:
        raise ValueError("off")

    reply = run(Agent(Model(call("research", topic="ants"), "outer"), tools=[research(fails)]))

    assert reply.messages[2].error
    assert "off" in reply.messages[2].text


def test_cancelled_run_cancels_the_graph_below():
    async def main() -> Model:
        model = Model(fn=lambda _: asyncio.Event().wait())
        top = Agent(Model(call("research", topic="ants")), tools=[research(harness=Agent(model))])
        running = asyncio.ensure_future(top.run("go"))
        await model.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return model

    assert asyncio.run(main()).cancelled == 1


@every_way
def test_a_graph_is_a_harness(way):
    model = Model("found")
    graph = inner_graph(look)
    harness = GraphHarness(graph, input=lambda prompt: {"topic": prompt}, output=lambda s: s.text, harness=Agent(model))

    with way.runtime(way.graph(ask("ants")), harness=harness) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == ["ants: found"]
    assert result.usage == USED


def test_graph_as_a_harness_takes_no_options(way):
    harness = GraphHarness(inner_graph(look), input=lambda p: {"topic": p}, output=lambda s: s.text)

    with way.runtime(way.graph(ask(temperature=0.5)), harness=harness) as runtime, pytest.raises(NodeError) as caught:
        way(runtime, "run", {}, thread="t")

    assert isinstance(caught.value.__cause__, InputError)
    assert "Giving 'temperature' to run() does not go with" in caught.value.__cause__.what


def test_limit_below_is_an_answer_above():
    helper = Agent(Model(call("gone")), name="helper", limits=AgentLimits(model_calls=1))

    reply = run(Agent(Model(asks(), "outer"), tools=[helper.as_tool(description="helps")]))

    assert AgentLimitError.__name__ in reply.messages[2].text
    assert reply.usage.calls == 3
