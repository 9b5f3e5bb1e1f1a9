"""A TokenTracker counts each call once, live or from the journal, after any failure, pause or retry."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime, Send
from graphrt.errors import InputError, NodeError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, FunctionModel, ModelProfile, TokenTracker, ToolCall
from graphrt.reducers import append

from .calls import Calls, agent, took


class State(BaseModel):
    said: Annotated[list[str], append] = []


async def ask(state: State, ctx: Context) -> dict[str, Any]:
    return {"said": [(await ctx.harness.run(f"{ctx.arg} {len(state.said)}")).text]}


def fan(count: int, node: Any = ask, **policy: Any) -> Any:
    g = GraphBuilder(State, name="fan")
    g.add_node("ask", node, **policy)
    g.add_conditional_edges(START, lambda _: [Send("ask", n) for n in range(count)], ["ask"])
    g.add_edge("ask", END)
    return g.compile()


def chain(steps: int, node: Any = ask, **policy: Any) -> Any:
    g = GraphBuilder(State, name="chain")
    g.add_node("ask", node, max_visits=None, **policy)
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda state: len(state.said) < steps, {True: "ask", False: END})
    return g.compile()


def test_summary_has_the_sums_as_plain_data() -> None:
    tracker = TokenTracker()
    Runtime(fan(3), harness=agent(Calls(took(90))), sinks=[tracker]).run({})

    assert tracker.summary() == {
        "total_tokens": 270,
        "prompt_tokens": 30,
        "completion_tokens": 240,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "calls": 3,
        "unreported_calls": 0,
        "unpriced_calls": 0,
        "cost_usd": None,
        "tokens_by_model": {"counted": 270},
        "tokens_by_node": {"ask": 270},
    }


def test_usage_is_reported_by_run_node_model_and_tool() -> None:
    inner = Agent(Calls(took(20), profile=ModelProfile(name="small")).model, name="inner")

    def think(request: Any) -> AgentReply:
        asked = request.messages[-1].role == "tool"
        calls = () if asked else (ToolCall(id="1", name="helper", arguments={"question": "?"}),)
        return AgentReply(text="ok", tool_calls=calls, usage=took(50))

    outer = Agent(
        FunctionModel(think, profile=ModelProfile(name="large")), tools=[inner.as_tool("helper", description="Helps.")]
    )
    tracker = TokenTracker()
    result = Runtime(chain(1, tools=["helper"]), harness=outer, sinks=[tracker], ids=iter(["r1"]).__next__).run({})

    assert tracker.total.total_tokens == result.usage.total_tokens == 120
    assert tracker.total.calls == 3
    assert {name: one.total_tokens for name, one in tracker.by_run().items()} == {"r1": 120}
    assert {name: one.total_tokens for name, one in tracker.by_node().items()} == {"ask": 120}
    assert {name: one.total_tokens for name, one in tracker.by_model().items()} == {"large": 100, "small": 20}
    assert {name: one.total_tokens for name, one in tracker.by_tool().items()} == {"helper": 20}


def test_one_tracker_serves_runtimes_in_several_worker_threads() -> None:
    tracker, used = TokenTracker(), list[int]()

    def work(number: int) -> None:
        runtime = Runtime(fan(8), store="memory:", harness=agent(Calls(took(10 + number))), sinks=[tracker])
        used.extend(runtime.run({}, thread="t").usage.total_tokens for _ in range(5))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()

    assert tracker.total.total_tokens == sum(used) == sum(8 * 5 * (10 + number) for number in range(8))
    assert sum(one.total_tokens for one in tracker.by_run().values()) == sum(used)
    assert tracker.total.calls == 8 * 8 * 5


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_live_totals_equal_those_of_the_journal_after_failures_pauses_and_retries(*, nested: bool) -> None:
    calls, turns = Calls(took(10)), list[int]()

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run(f"a{ctx.arg}")
        turns.append(1)
        if len(turns) % 3 == 1:
            raise ConnectionError("once")
        if len(turns) % 5 == 1:
            raise ValueError("fails for good")
        if ctx.arg:
            ctx.interrupt("go on?")
        return {"said": [(await ctx.harness.run(f"b{ctx.arg}")).text]}

    graph = fan(4, node, retry=RetryPolicy(attempts=2, wait_initial_s=0))
    if nested:
        g = GraphBuilder(State, name="outer")
        g.add_node("inner", graph)
        g.add_edge(START, "inner")
        graph = g.compile()
    tracker = TokenTracker()
    runtime = Runtime(graph, store="memory:", harness=agent(calls), sinks=[tracker])
    status, tries = "new", 0
    while status != "completed":
        tries += 1
        assert tries < 60
        try:
            if status == "new":
                result = runtime.run({}, thread="t")
            elif status == "failed":
                result = runtime.retry("t")
            else:
                result = runtime.resume("t", {one.id: True for one in result.interrupts[:1]})
            status = result.status
        except NodeError:
            status = "failed"
    rebuilt = TokenTracker().read(runtime.entries("t"))

    assert calls.ended * 10 == tracker.total.total_tokens == rebuilt.total.total_tokens
    assert result.usage.total_tokens == tracker.total.total_tokens
    assert {**tracker.summary()} == rebuilt.summary()


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_known_entry_adds_nothing(*, nested: bool) -> None:
    """Also between the attempts of a superstep that stays open: its usage is not dropped."""
    calls, turns = Calls(took(10)), list[int]()

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        said = (await ctx.harness.run("a")).text
        turns.append(1)
        if len(turns) in (2, 3):
            raise ValueError("fails for good")
        return {"said": [said]}

    g = GraphBuilder(State, name="two")
    g.add_node("one", node)
    g.add_node("two", node)
    g.add_sequence([START, "one", "two"])
    graph = g.compile()
    if nested:
        outer = GraphBuilder(State, name="outer")
        outer.add_node("inner", graph)
        outer.add_edge(START, "inner")
        graph = outer.compile()
    tracker = TokenTracker()
    runtime = Runtime(graph, store="memory:", harness=agent(calls), sinks=[tracker])
    rebuilt = TokenTracker()
    for verb in (lambda: runtime.run({}, thread="t"), lambda: runtime.retry("t"), lambda: runtime.retry("t")):
        with suppress(NodeError):
            verb()
        for each in (tracker, rebuilt, rebuilt):
            each.read(runtime.entries("t"))

        assert tracker.total.total_tokens == calls.made * 10
        assert rebuilt.summary() == tracker.summary()


def test_threads_of_one_name_in_several_stores_are_counted_separately() -> None:
    """Also while each of them has a failed superstep, whose calls are written again when it is retried."""
    calls, tracker, fails = Calls(took(10)), TokenTracker(), True

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        said = (await ctx.harness.run("a")).text
        if fails:
            raise ValueError("fails for good")
        return {"said": [said, (await ctx.harness.run("b")).text]}

    runtimes = [
        Runtime(chain(steps, node), store="memory:", harness=agent(calls), sinks=[tracker]) for steps in (1, 3, 5)
    ]
    for runtime in runtimes:
        with pytest.raises(NodeError):
            runtime.run({}, thread="t")
    assert tracker.total.calls == calls.made == 3
    fails = False
    used = [runtime.retry("t").usage.total_tokens for runtime in reversed(runtimes)]

    assert tracker.total.total_tokens == calls.made * 10 == sum(used)


def test_calls_of_an_abandoned_run_do_not_hide_those_of_the_next() -> None:
    async def node(state: State, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run("a")
        raise ValueError("fails for good")

    calls, tracker = Calls(took(10)), TokenTracker()
    runtime = Runtime(chain(1, node), store="memory:", harness=agent(calls), sinks=[tracker])
    for _ in range(3):
        with pytest.raises(NodeError):
            runtime.run({}, thread="t", if_exists="abandon")

    assert tracker.total.total_tokens == calls.made * 10 == 30
    assert TokenTracker().read(runtime.entries("t")).summary() == tracker.summary()


def test_fork_pays_only_for_its_own_calls() -> None:
    calls, tracker = Calls(took(10)), TokenTracker()
    runtime = Runtime(chain(4), store="memory:", harness=agent(calls), sinks=[tracker])
    runtime.run({}, thread="t")
    middle = next(one for one in runtime.history("t") if len(one.values.said) == 2)
    runtime.fork("t", at=middle.seq, to="u")
    runtime.resume("u")

    assert calls.made * 10 == tracker.total.total_tokens == 60


def test_long_thread_needs_no_more_memory_than_a_short_one() -> None:
    tracker = TokenTracker()
    runtime = Runtime(chain(300), harness=agent(Calls(took(10), turns=0)), sinks=[tracker])
    runtime.run({})

    assert tracker.total.calls == 300
    assert (tracker._seen, tracker._open, tracker._running, tracker._known) == ({}, {}, set(), {})


def test_failed_run_without_a_thread_is_dropped() -> None:
    async def node(state: State, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run("?")
        raise ValueError("no")

    tracker = TokenTracker()
    with pytest.raises(NodeError):
        Runtime(fan(2, node), harness=agent(Calls(took(10))), sinks=[tracker]).run({})

    assert tracker.total.total_tokens in (10, 20)  # the second one may be cancelled before its call
    assert (tracker._seen, tracker._known) == ({}, {})


def test_tracker_reads_only_entries() -> None:
    entries: Any = ["no entry"]
    with pytest.raises(InputError, match="a TokenTracker reads cannot be 'no entry'"):
        TokenTracker().read(entries)


def test_call_of_unknown_usage_counts_as_a_call() -> None:
    tracker = TokenTracker()
    Runtime(fan(2), harness=agent(Calls(None)), sinks=[tracker]).run({})

    assert tracker.total == Usage(calls=2, unreported_calls=2)
