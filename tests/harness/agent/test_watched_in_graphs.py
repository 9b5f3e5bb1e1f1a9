"""The visible parts of agents in nodes of graphs: streams, usage totals, and the callers of models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from graphrt import NodeError
from graphrt.errors import BudgetExceededError, InputError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, TokenTracker, tool

from .fakes import Model, call, counting
from .graphs import Way, ask, every_way


@pytest.mark.parametrize("nodes", ["sync", "async"])
def test_items_of_an_agent_are_on_the_stream_of_the_graph(place, nodes):
    way = Way(nodes=nodes, verbs="sync", store=place)
    agent = Agent(Model(call("note", x=1), "all done"), tools=[counting([])])

    with way.runtime(way.graph(ask(), tools=("note",)), harness=agent) as runtime:
        items = list(runtime.stream({}, thread="t", modes=("messages",)))

    assert {item.node for item in items} == {"n0"}
    assert len({item.task_id for item in items}) == 1
    assert [type(item.item).__name__ for item in items] == [
        "ModelStarted", "ToolCallDelta", "AgentReply", "ModelEnded", "ToolStarted", "ToolEnded",
        "ModelStarted", "TextDelta", "TextDelta", "AgentReply", "ModelEnded",
    ]  # fmt: skip


def test_node_may_read_the_stream_of_its_agent(way):
    async def body(state: Any, ctx: Any) -> Any:
        return {"said": [type(item).__name__ async for item in ctx.harness.stream("go")]}

    with way.runtime(way.graph(body), harness=Agent(Model("done"))) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == ["ModelStarted", "TextDelta", "ModelEnded", "AgentReply"]


class Plain:
    """A harness without support for graphs, with or without a stream."""

    def __init__(self, *items: Any) -> None:
        if items:
            self.stream = partial(self._stream, items)

    async def _stream(self, items: Any, _prompt: Any, **_options: Any) -> AsyncIterator[Any]:
        for item in items:
            if item is not None:
                yield item

    async def run(self, prompt: Any, /, **options: Any) -> AgentReply:
        return AgentReply(text="done")


@pytest.mark.parametrize(
    ("items", "code", "text"),
    [
        ((), "no-stream", "Node 'n0' asked for a stream of Plain, which has no stream()."),
        ((None,), "no-final-reply", "The stream of Plain ended without a final reply: it yielded nothing."),
        (("one",), "no-final-reply", "The stream of Plain ended without a final reply: its last item is a str."),
    ],
)
def test_unreadable_stream_is_an_error_of_the_node(way, items, code, text):
    async def body(state: Any, ctx: Any) -> Any:
        return {"said": [item async for item in ctx.harness.stream("go")]}

    with way.runtime(way.graph(body), harness=Plain(*items)) as runtime, pytest.raises(NodeError) as caught:
        way(runtime, "run", {}, thread="t")

    cause: Any = caught.value.__cause__
    assert (type(cause), cause.code, cause.what) == (InputError, code, text)


def test_recorded_calls_are_shown_as_recorded(way):
    async def body(state: Any, ctx: Any) -> Any:
        ended = [item async for item in ctx.harness.stream("go") if type(item).__name__ == "ModelEnded"]
        ctx.interrupt("well?")
        return {"said": [item.source for item in ended]}

    with way.runtime(way.graph(body), harness=Agent(Model("done"))) as runtime:
        way(runtime, "run", {}, thread="t")
        assert way(runtime, "resume", "t", "yes").state.said == ["journal"]


@every_way
def test_usage_totals_agree(way):
    async def fails_once(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("b")
        if reply.text == "bad":
            raise ValueError("not that")
        ctx.interrupt("well?")
        return {"said": [reply.text]}

    tracker = TokenTracker()
    model = Model("one", "bad", "good")
    with way.runtime(way.graph(ask("a"), fails_once), harness=Agent(model), sinks=[tracker]) as runtime:
        with pytest.raises(NodeError):
            way(runtime, "run", {}, thread="t")
        way(runtime, "retry", "t")
        way(runtime, "resume", "t", "yes")
        entries = list(runtime.entries("t"))

    assert len(model.asked) == tracker.total.calls == TokenTracker().read(entries).total.calls == 3
    assert tracker.by_node() == TokenTracker().read(entries).by_node()
    assert {name: usage.calls for name, usage in tracker.by_node().items()} == {"n0": 1, "n1": 2}


def test_the_usage_of_steps_adds_up_to_that_of_the_run(way):
    agent = Agent(Model(call("note", x=1), "one", "two"), tools=[counting([])])

    with way.runtime(way.graph(ask("a"), ask("b"), tools=("note",)), harness=agent) as runtime:
        steps = list(runtime.steps({}, thread="t"))

    assert [step.usage.calls for step in steps] == [2, 1]


def test_tool_may_use_the_harness_of_its_node(way):
    model = Model(fn=lambda request: call("look") if request.text == "go" else f"answer to {request.text}")

    async def body(state: Any, ctx: Any) -> Any:
        @tool
        async def look() -> str:
            return (await ctx.harness.run("inner")).text

        reply = await ctx.bind(Agent(model, tools=[look])).run("go")
        ctx.interrupt("well?")
        return {"said": [reply.messages[2].text]}

    with way.runtime(way.graph(body), harness=Agent(model, name="other")) as runtime:
        way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", "yes")

    assert result.state.said == ["answer to inner"]
    assert result.usage.calls == len(model.asked) == 3


@pytest.mark.parametrize(
    "value", ["vector", {"text": "t", "usage": {"calls": 7}, "of": "run", "more": [0, 0, 9]}, [[1, 2, 3]]]
)
@pytest.mark.parametrize(
    "name", ["model/embed", "model/0/x/spent/0", "held/0/x", "granted/x", "tool/note", "harness/failed"]
)
def test_effects_of_user_code_are_not_calls_whatever_their_names(way, name, value):
    async def body(state: Any, ctx: Any) -> Any:
        found = ctx.effect(name, lambda: value)
        return {"said": [found, (await ctx.harness.run("go")).text]}

    tracker = TokenTracker()
    with way.runtime(way.graph(body), harness=Agent(Model("done")), sinks=[tracker]) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == [value, "done"]
    assert result.usage.calls == tracker.total.calls == 1


@pytest.mark.parametrize("plain", [False, True])
def test_budget_that_is_bound_in_a_node_includes_costs_before_a_pause(way, plain):
    from graphrt.harness import Budget, MockHarness

    model = Model("one", "two")
    harness: Any = MockHarness({"a": "one", "b": "two"}) if plain else Agent(model)

    async def body(state: Any, ctx: Any) -> Any:
        bound = ctx.bind(harness, budget=Budget(calls=1))
        first = await bound.run("a")
        ctx.interrupt("well?")
        try:
            second = (await bound.run("b")).text
        except BudgetExceededError:
            second = "no more"
        return {"said": [first.text, second]}

    with way.runtime(way.graph(body)) as runtime:
        way(runtime, "run", {}, thread="t")
        assert way(runtime, "resume", "t", "yes").state.said == ["one", "no more"]


def test_free_call_stays_free_and_is_not_unknown(way):
    from .fakes import says

    used = Usage(input_tokens=1, calls=1, cost_usd=0.0)
    with way.runtime(way.graph(ask()), harness=Agent(Model(says("done", usage=used)))) as runtime:
        assert way(runtime, "run", {}, thread="t").usage == used
