"""Calls that failed after the provider had answered are billed: they count in budgets, totals and trackers alike."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from tests.harness.wires import WAYS, WIRES, model_for

from graphrt import START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt._usage.amounts import used_amounts
from graphrt.errors import (
    BadResponseError,
    BudgetExceededError,
    HarnessError,
    NodeError,
    RefusalError,
    TransientModelError,
)
from graphrt.events import Amounts, Usage
from graphrt.harness import Agent, AgentReply, Budget, FunctionModel, GraphHarness, TextDelta, TokenTracker
from graphrt.harness.cassette import Cassette
from graphrt.stores import MemoryStore
from graphrt.testing import ChatAnswer, FakeChatServer

from .calls import COUNTED, PRICED, State, ask_once, fan, took

ONCE: Final = RetryPolicy(attempts=1)
TWICE: Final = RetryPolicy(attempts=2, wait_initial_s=0)
OK: Final = took(50)
REPORT: Final = Usage(input_tokens=10, output_tokens=30, calls=1)
UNREPORTED: Final = Usage(calls=1, unreported_calls=1, reserved_tokens=90)
"""A call reserves 10 tokens for the request and 80 for the answer."""
FAILURES: Final[dict[str, tuple[HarnessError, Usage]]] = {
    "not answered": (TransientModelError("busy"), Usage()),
    "billed": (BadResponseError("unreadable", billed=True), UNREPORTED),
    "reported": (BadResponseError("cut", billed=True, usage=REPORT), REPORT),
    "reported without a token": (BadResponseError("cut", billed=True, usage=Usage(calls=1)), UNREPORTED),
    "reported badly": (BadResponseError("cut", billed=True, usage=Usage(input_tokens=-9)), UNREPORTED),
}
"""The error of a model, and its cost within a budget of tokens."""


def model(*answers: Exception | AgentReply, profile: Any = COUNTED) -> FunctionModel:
    """A model that returns the *answers* in turn, then "ok"."""
    left = list(answers)

    def answer(_request: Any) -> AgentReply:
        item = left.pop(0) if left else AgentReply(text="ok", usage=OK)
        if isinstance(item, Exception):
            raise item
        return item

    return FunctionModel(answer, usage=None, profile=profile)


def agent(*answers: Exception | AgentReply, **options: Any) -> Agent:
    return Agent(model(*answers), **{"max_tokens": 80, "retry": TWICE, **options})


class Plain:
    """A harness without support for graphs."""

    profile = replace(COUNTED, max_output_tokens=80)

    def __init__(self, *answers: Exception | AgentReply) -> None:
        self._model = model(*answers)

    async def run(self, prompt: str, /, **options: Any) -> AgentReply:
        from graphrt.harness import ModelRequest

        return await self._model.invoke(ModelRequest.build(prompt, options))


GRAPH: Final = fan(1, ask_once)


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("bounded", [True, False], ids=["budget", "no budget"])
def test_failed_call_counts_its_billed_usage(kind: str, bounded: bool) -> None:
    error, counted = FAILURES[kind]
    total = (counted if bounded else replace(counted, reserved_tokens=0)) + OK
    tracker, seen = TokenTracker(), list[Any]()

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        seen.append((await ctx.harness.run("?")).usage)
        if ctx.budget is not None:
            assert (ctx.budget.spent, ctx.budget.held) == (used_amounts(total), Amounts())
        return {"said": ["ok"]}

    budget = Budget(tokens=1_000) if bounded else None
    # The default policy of an agent retries both classes.
    runtime = Runtime(fan(1, node), store="memory:", harness=agent(error), budget=budget, sinks=[tracker])
    result = runtime.run({}, thread="t")
    found = runtime.reexecute("t")

    assert result.usage == tracker.total == runtime.state("t").usage == total
    assert seen == [total, total]
    assert TokenTracker().read(runtime.entries("t")).total == total
    assert found.same, found.sentence


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("plain", [False, True], ids=["agent", "plain"])
def test_failed_run_continues_with_the_rest_of_the_budget(kind: str, plain: bool) -> None:
    error, counted = FAILURES[kind]
    needed = used_amounts(counted).tokens + 90

    def runtime(*answers: Exception, tokens: int = needed, store: Any = "memory:") -> Runtime[Any]:
        harness = Plain(*answers) if plain else agent(*answers, retry=ONCE)
        return Runtime(GRAPH, store=store, harness=harness, budget=Budget(tokens=tokens))

    first = runtime(error)
    with pytest.raises(NodeError):
        first.run({}, thread="t")
    with pytest.raises(BudgetExceededError):
        runtime(tokens=needed - 1, store=first.store).retry("t")
    again = runtime(store=first.store)
    result, found = again.retry("t"), again.reexecute("t")

    assert result.usage == counted + OK
    assert found.same, found.sentence


def test_fallbacks_and_unpriced_calls_are_counted_separately() -> None:
    """The total contains the prices of the fallback, and reports that others are missing."""
    fallback = model(profile=PRICED)
    harness = Agent(model(FAILURES["billed"][0]), fallbacks=[fallback], max_tokens=80, retry=ONCE)
    result = Runtime(fan(1), harness=harness).run({})

    assert result.usage == Usage(
        input_tokens=10,
        output_tokens=40,
        calls=2,
        cost_usd=pytest.approx(0.00009),
        unreported_calls=1,
        unpriced_calls=1,
    )


@pytest.mark.parametrize("place", ["run", "node", "agent", "bound", "field", "nested", "tool"])
def test_every_budget_around_a_call_is_charged(place: str) -> None:
    """A budget of two calls allows two billed failures, and no third call."""
    error = FAILURES["billed"][0]
    budget = Budget(tokens=180)
    asker = agent(
        *[error] * 9, retry=RetryPolicy(attempts=9, wait_initial_s=0), budget=budget if place == "agent" else None
    )

    async def ask(state: Any, ctx: Context) -> dict[str, Any]:
        await (ctx.bind(asker, budget=budget) if place == "bound" else ctx.harness).run("?")
        return {}

    class WithField(State):
        token_budget: int = 180

    g = GraphBuilder(WithField if place == "field" else State, name="g")
    g.add_node("ask", ask, budget=budget if place == "node" else None)
    g.add_edge(START, "ask")
    graph = g.compile()
    if place == "nested":
        graph = (
            GraphBuilder(State, name="outer").add_node("inner", graph, budget=budget).add_edge(START, "inner").compile()
        )
    harness = asker
    if place == "tool":
        from graphrt.harness import ToolCall

        calls = AgentReply(tool_calls=(ToolCall(id="1", name="agent", arguments={"question": "?"}),), usage=took(10))
        harness = agent(calls, tools=[asker.as_tool(description="asks")])
        budget = Budget(tokens=190)
    runtime = Runtime(graph, store="memory:", harness=harness, budget=budget if place in ("run", "tool") else None)
    with pytest.raises(BudgetExceededError):
        runtime.run({}, thread="t")
    tracker = TokenTracker().read(runtime.entries("t"))

    assert (tracker.total.unreported_calls, tracker.total.reserved_tokens) == (2, 180)


class Breaks:
    """A model, and a plain harness, whose stream breaks after its first delta: by an error, or by a hang."""

    profile = Plain.profile

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def invoke(self, request: Any) -> AgentReply:
        raise AssertionError

    run = invoke

    async def stream(self, request: Any, **options: Any) -> AsyncIterator[Any]:
        yield TextDelta(text="half")
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error", [TransientModelError("reset"), ValueError("mistake"), None], ids=["lost", "bug", "left"]
)
@pytest.mark.parametrize("bounded", [True, False], ids=["budget", "no budget"])
@pytest.mark.parametrize("plain", [False, True], ids=["agent", "plain"])
def test_interrupted_stream_keeps_its_reservation(error: Exception | None, bounded: bool, plain: bool) -> None:
    async def body() -> tuple[Usage, Usage]:
        budget = Budget(tokens=180) if bounded else None
        harness = Breaks(error) if plain else Agent(Breaks(error), max_tokens=80, retry=ONCE)
        first = Runtime(GRAPH, store="memory:", harness=harness, budget=budget)
        with suppress(NodeError):
            async with aclosing(first.astream({}, thread="t", modes="messages")) as items:
                async for _ in items:
                    if error is None:
                        break
        again = Runtime(GRAPH, store=first.store, harness=Plain() if plain else agent(), budget=budget)
        result = await again.aretry("t")
        return result.usage, TokenTracker().read(again.entries("t")).total

    total = (UNREPORTED if bounded else replace(UNREPORTED, reserved_tokens=0)) + OK
    assert asyncio.run(body()) == (total, total)


@pytest.mark.parametrize("mode", ["record", "replay"])
@pytest.mark.parametrize("kind", ["billed", "reported"])
def test_recorded_failure_is_charged_again_when_it_is_replayed(kind: str, mode: Any, tmp_path: Path) -> None:
    error, counted = FAILURES[kind]
    path = tmp_path / "calls.cassette"
    for used in ["record", mode]:
        live = model(error) if used == "record" else model(AssertionError())
        path.unlink(missing_ok=True) if used == "record" else None
        with Cassette(path, mode=used) as cassette:
            harness = Agent(cassette.model(live), max_tokens=80, retry=TWICE)
            result = Runtime(fan(1), harness=harness, budget=Budget(tokens=1_000)).run({})
        assert result.usage == counted + OK


def test_agent_outside_a_graph_also_counts_billed_failures() -> None:
    reply = asyncio.run(agent(FAILURES["reported"][0]).run("?"))

    assert reply.usage == REPORT + OK


async def heard(ctx: Context, way: str) -> None:
    """Call, and read the answer as a whole or as a stream."""
    if way == "invoke":
        await ctx.harness.run("?")
        return
    async for _ in ctx.harness.stream("?"):
        pass


# -- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.mark.needs("litellm")
@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "answer",
    [
        ChatAnswer.malformed(),
        ChatAnswer.html(),
        ChatAnswer.no_choices(),
        ChatAnswer(finish_reason="content_filter", usage=Usage(input_tokens=1500)),
        ChatAnswer(text="one two three four", drop_after=2),
    ],
    ids=["malformed", "html", "no choices", "filtered", "dropped"],
)
def test_invalid_answers_with_status_200_count_as_calls(way: str, answer: ChatAnswer) -> None:
    async def node(state: State, ctx: Context) -> dict[str, Any]:
        await heard(ctx, way)
        return {}

    with FakeChatServer({re.compile(""): answer}) as server:
        harness = Agent(model_for("openai", server), retry=RetryPolicy(attempts=4, wait_initial_s=0))
        runtime = Runtime(fan(1, node), store="memory:", harness=harness, budget=Budget(calls=2))
        for verb in (lambda: runtime.run({}, thread="t"), lambda: runtime.retry("t"), lambda: runtime.retry("t")):
            with pytest.raises((BudgetExceededError, NodeError)) as caught:
                verb()

    tracker = TokenTracker().read(runtime.entries("t"))
    assert isinstance(caught.value, BudgetExceededError)
    assert len(server.requests) == tracker.total.calls == 2
    assert tracker.total.reserved_tokens == 0  # no limit required their number


@pytest.mark.needs("litellm")
@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize("answer", [ChatAnswer.failure(500), ChatAnswer.failure(429), ChatAnswer.drop()])
def test_calls_without_an_answer_are_free(answer: ChatAnswer) -> None:
    with FakeChatServer([answer, answer, "ok"]) as server:
        harness = Agent(model_for("openai", server), retry=RetryPolicy(attempts=3, wait_initial_s=0))
        result = Runtime(fan(1), harness=harness, budget=Budget(calls=1)).run({})

    assert (result.state.said, result.usage.calls, result.usage.unreported_calls) == (["ok"], 1, 0)


@pytest.mark.needs("litellm")
@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize("way", WAYS)
def test_filtered_answer_costs_its_reported_usage(way: str) -> None:
    filtered = ChatAnswer(finish_reason="content_filter", usage=Usage(input_tokens=1500, output_tokens=3))
    profile = replace(PRICED, max_output_tokens=2_000)

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        with pytest.raises(RefusalError) as caught:
            await heard(ctx, way)
        assert caught.value.billed
        assert ctx.budget is not None
        return {"said": [str(ctx.budget.spent)]}

    with FakeChatServer([filtered]) as server:
        harness = Agent(model_for("anthropic", server, profile=profile))
        result = Runtime(fan(1, node), harness=harness, budget=Budget(usd=1.0)).run({})

    assert result.state.said == [str(Amounts(1503, 1506, 1))]
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.unreported_calls) == (1500, 3, 0)
    assert result.usage.cost_usd == pytest.approx(0.001506)


@pytest.mark.needs("litellm")
@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize("wire", WIRES)
def test_interrupted_stream_keeps_its_reservation_despite_partial_counts(wire: str) -> None:
    """A stream of Anthropic begins with the tokens of the input, and one of the output."""
    broken = ChatAnswer(text="one two three four", usage=Usage(input_tokens=1500, output_tokens=300), drop_after=3)
    profile = replace(COUNTED, max_output_tokens=80)

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        with pytest.raises(TransientModelError):
            await heard(ctx, "stream")
        return {}

    with FakeChatServer([broken]) as server:
        harness = Agent(model_for(wire, server, profile=profile), retry=ONCE)
        result = Runtime(fan(1, node), harness=harness, budget=Budget(tokens=100)).run({})

    assert result.usage == UNREPORTED


def test_budget_holds_each_model_call_of_a_graph_as_a_harness() -> None:
    g = GraphBuilder(State, name="inner")

    @g.node
    async def asks(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run(str(number))).text for number in range(2)]}

    g.add_edge(START, asks)
    writer = agent(*[AgentReply(text="one", usage=OK)] * 4)
    inner = GraphHarness(g.compile(), input=lambda _: {}, output=lambda state: "".join(state.said), harness=writer)

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run("?")).text, str(ctx.budget.spent.calls)]}  # type: ignore[union-attr]

    store = MemoryStore()
    with pytest.raises(BudgetExceededError):
        Runtime(fan(1, node), harness=inner, budget=Budget(calls=1), store=store).run({}, thread="t")
    result = Runtime(fan(1, node), harness=inner, budget=Budget(calls=3), store=store).retry("t")

    assert (result.state.said, result.usage) == (["oneone", "3"], OK + OK + OK)


def test_failed_graph_as_a_harness_is_charged_the_usage_of_its_calls() -> None:
    """The node continues, within the rest of the budget."""
    g = GraphBuilder(State, name="inner")
    broken = agent(AgentReply(text="one", usage=OK), FAILURES["billed"][0], retry=ONCE)

    @g.node
    async def asks(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run(str(number))).text for number in range(2)]}

    g.add_edge(START, asks)
    inner = GraphHarness(
        g.compile(), input=lambda _: {}, output=lambda state: "", harness=broken, budget=Budget(tokens=1_000)
    )

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        with pytest.raises(NodeError):
            await ctx.harness.run("?")
        return {"said": [str(ctx.budget.spent.calls)]}  # type: ignore[union-attr]

    result = Runtime(fan(1, node), harness=inner, budget=Budget(calls=9)).run({})

    assert (result.state.said, result.usage) == (["2"], OK + UNREPORTED)
