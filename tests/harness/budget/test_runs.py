"""Budgets of runs, nodes and agents limit graphs."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

import pytest
from tests.patience import with_more_time

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt.errors import BadResponseError, BudgetExceededError, InputError, NodeError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, Budget, BudgetWarning, FunctionModel, ModelProfile
from graphrt.runtime import LiveItem

from .calls import COUNTED, PRICED, Calls, State, agent, ask_once, fan, took


def sync_ask(state: State, ctx: Context) -> dict[str, Any]:
    try:
        return {"said": [ctx.call(ctx.harness.run, f"question {ctx.arg}").text]}
    except BudgetExceededError:
        return {"said": ["refused"]}


@pytest.mark.parametrize("node", [None, sync_ask], ids=["async", "sync"])
@pytest.mark.parametrize("asynchronous", [True, False], ids=["arun", "run"])
def test_ten_parallel_calls_of_90_use_90_of_100(node: Any, asynchronous: bool) -> None:
    """The budget of Lár ends at -800 here."""
    calls = Calls(took(90))
    runtime = Runtime(fan(10, node), harness=agent(calls), budget=Budget(tokens=100))
    result = asyncio.run(runtime.arun({})) if asynchronous else runtime.run({})

    assert sorted(result.state.said) == ["ok"] + ["refused"] * 9
    assert result.usage.total_tokens == 90
    assert (calls.made, calls.most) == (1, 1)


def test_unused_room_of_calls_is_available_to_others() -> None:
    calls = Calls(took(20))
    result = Runtime(fan(10), harness=agent(calls), budget=Budget(tokens=200)).run({})

    assert result.state.said.count("ok") == 6  # 5 * 20 spent leave room for 90 once more; then 80 remain
    assert calls.most <= 2


@pytest.mark.parametrize(
    ("budget", "ok"),
    [
        (Budget(calls=3), 3),
        (Budget(usd=0.0005), 3),
        (Budget(tokens=1_000, calls=2, usd=10.0), 2),
    ],
    ids=["calls", "usd", "several"],
)
def test_each_limit_is_respected(budget: Budget, ok: int) -> None:
    """A call may cost 10 * 1 + 80 * 2 = 170 millionths, and costs all of it."""
    calls = Calls(took(90), profile=PRICED)
    result = Runtime(fan(8), harness=agent(calls), budget=budget).run({})

    assert result.state.said.count("ok") == calls.made
    assert calls.made == (2 if budget.usd == 0.0005 else ok)


def test_time_of_a_budget_interrupts_a_call() -> None:
    async def hang(_request: Any) -> str:
        await asyncio.sleep(3600)
        return "never"

    def trial(seconds: float) -> None:
        model = FunctionModel(hang)
        with pytest.raises(BudgetExceededError) as caught:
            Runtime(fan(1, ask_once), harness=Agent(model), budget=Budget(seconds=seconds)).run({})

        assert caught.value.node is not None
        assert "A model call was cancelled" in caught.value.what
        assert f"seconds={seconds}, of which " in caught.value.known

    with_more_time(trial, 0.05, 5.0)


def test_dollars_without_prices_are_an_error_before_any_call() -> None:
    calls = Calls(took(90))
    with pytest.raises(NodeError) as caught:
        Runtime(fan(1, ask_once), harness=agent(calls), budget=Budget(usd=1.0)).run({})

    assert isinstance(caught.value.__cause__, InputError)
    assert caught.value.__cause__.code == "budget-without-price"
    assert calls.made == 0


@pytest.mark.parametrize("budget", [Budget(tokens=10**6), Budget(usd=1.0)], ids=["tokens", "usd"])
def test_call_without_max_tokens_is_an_error_before_any_call(budget: Budget) -> None:
    calls = Calls(took(90), profile=PRICED)
    with pytest.raises(NodeError) as caught:
        Runtime(fan(1, ask_once), harness=agent(calls, max_tokens=None), budget=budget).run({})

    assert isinstance(caught.value.__cause__, InputError)
    assert caught.value.__cause__.code == "budget-without-max-tokens"
    assert calls.made == 0


def test_calls_and_seconds_need_no_max_tokens() -> None:
    calls = Calls(took(90))
    result = Runtime(fan(3), harness=agent(calls, max_tokens=None), budget=Budget(calls=2, seconds=60)).run({})

    assert result.state.said.count("ok") == 2


def test_known_longest_answer_replaces_max_tokens() -> None:
    profile = ModelProfile(name="p", max_output_tokens=80, count_tokens=lambda _: 10)
    calls = Calls(took(90), profile=profile)
    result = Runtime(fan(3), harness=agent(calls, max_tokens=None), budget=Budget(tokens=100)).run({})

    assert result.state.said.count("ok") == 1


def test_unreported_usage_counts_as_the_reservation_in_every_total() -> None:
    calls = Calls(None, profile=PRICED)
    result = Runtime(fan(5), harness=agent(calls), budget=Budget(tokens=200, usd=1.0)).run({})

    assert calls.made == 2
    assert result.usage == Usage(calls=2, unreported_calls=2, reserved_tokens=180, reserved_microusd=340)


def test_provider_that_exceeds_max_tokens_overruns_by_the_calls_in_flight_and_is_reported() -> None:
    calls = Calls(took(300))
    runtime = Runtime(fan(20), harness=agent(calls), budget=Budget(tokens=200))
    warnings = [item for item in runtime.stream({}, modes="messages") if isinstance(item, BudgetWarning)]

    assert calls.made == calls.most  # two fit at once; one, if it has ended before the other starts
    assert calls.made in (1, 2)
    assert [(one.used, one.limit) for one in warnings] == [(300, 200)]


def test_warnings_are_emitted_once_on_the_stream() -> None:
    calls = Calls(took(90))
    runtime = Runtime(fan(9), harness=agent(calls), budget=Budget(tokens=1_000, warn_at=0.5))
    warnings = [item for item in runtime.stream({}, modes="messages") if isinstance(item, BudgetWarning)]

    assert [(one.what, one.of, one.used, one.limit) for one in warnings] == [("tokens", "run", 540, 1000)]


def test_warning_reaches_the_reader_of_a_stored_thread(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(took(90))
    runtime = Runtime(fan(9), store="memory:", harness=agent(calls), budget=Budget(tokens=1_000, warn_at=0.5))
    with runtime:
        thread = runtime.start({})
        driver = Thread(target=runtime.drive, args=(thread,))
        items = runtime.follow(thread, live=True)
        driver.start()
        warnings = [item.item for item in items if type(item) is LiveItem and isinstance(item.item, BudgetWarning)]
        driver.join()

    assert [(one.what, one.of, one.used, one.limit) for one in warnings] == [("tokens", "run", 540, 1000)]
    assert caplog.records == []


def test_failed_calls_cost_nothing() -> None:
    def fail(_request: Any) -> str:
        raise TransientModelError("busy")

    g = GraphBuilder(State, name="fail")
    left: list[Any] = []

    @g.node
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        for _ in range(5):
            with pytest.raises(TransientModelError):
                await ctx.harness.run("?")
            left.append((ctx.budget.spent, ctx.budget.held, ctx.budget.remaining_tokens))  # type: ignore[union-attr]
        return {}

    g.add_edge(START, ask)
    from graphrt import RetryPolicy

    fails = Agent(FunctionModel(fail, profile=COUNTED), max_tokens=80, retry=RetryPolicy(attempts=1))
    result = Runtime(g.compile(), harness=fails, budget=Budget(tokens=100)).run({})

    assert {(tuple(spent), tuple(held), tokens) for spent, held, tokens in left} == {((0, 0, 0), (0, 0, 0), 100)}
    assert result.usage.total_tokens == 0


def test_cancelled_calls_cost_nothing() -> None:
    async def body() -> None:
        g = GraphBuilder(State, name="cancel")
        calls = Calls(took(90), turns=1_000)

        @g.node
        async def ask(state: State, ctx: Context) -> dict[str, Any]:
            for _ in range(3):
                task = asyncio.create_task(ctx.harness.run("?"))
                await calls.began.wait()
                calls.began.clear()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert ctx.budget is not None
            return {"said": [f"{ctx.budget.spent.tokens} {ctx.budget.held.tokens}"]}

        g.add_edge(START, ask)
        result = await Runtime(g.compile(), harness=agent(calls), budget=Budget(tokens=100)).arun({})
        assert result.state.said == ["0 0"]
        assert result.usage.total_tokens == 0

    asyncio.run(body())


def test_exceeded_budget_takes_the_error_edge() -> None:
    g = GraphBuilder(State, name="route")
    calls = Calls(took(90))

    @g.node
    async def cheap(state: State, ctx: Context) -> dict[str, Any]:
        error = ctx.error
        assert isinstance(error, BudgetExceededError)
        return {"said": [f"{error.code} {error.where}"]}

    g.add_node("ask", _twice, on_error="cheap")
    g.add_edge(START, "ask")
    result = Runtime(g.compile(), harness=agent(calls), budget=Budget(tokens=150)).run({})

    (said,) = result.state.said
    assert said.startswith("budget-exceeded budget of run, graph 'route', node 'ask' at test_runs.py:")
    assert said.endswith(", task 1.0:ask")
    assert result.usage.total_tokens == 90


async def _twice(state: State, ctx: Context) -> dict[str, Any]:
    return {"said": [(await ctx.harness.run(str(n))).text for n in range(2)]}


def test_budgets_of_run_node_and_agent_apply_together() -> None:
    """A node's budget is per task; the run's is for all tasks; an agent's is for one run of it."""
    calls = Calls(took(90))

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        said: list[str] = []
        for question in ("a", "b", "c"):
            try:
                await ctx.harness.run(question)
                said.append("ok")
            except BudgetExceededError as error:
                said.append(str(error.where))
        return {"said": said}

    node_only = Runtime(fan(2, node, budget=Budget(tokens=190)), harness=agent(calls)).run({})
    assert node_only.state.said == ["ok", "ok", "budget of node 'ask'"] * 2

    both = Runtime(fan(2, node, budget=Budget(tokens=190)), harness=agent(calls), budget=Budget(calls=3)).run({})
    assert both.state.said.count("ok") == 3

    own = Runtime(fan(1, node), harness=agent(calls, budget=Budget(tokens=80)), budget=Budget(calls=3)).run({})
    assert own.state.said == ["budget of agent 'agent'"] * 3


def test_bound_budget_is_inside_that_of_the_node() -> None:
    calls = Calls(took(90))

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        bound = ctx.bind(agent(calls), budget=Budget(calls=1))
        await bound.run("a")
        with pytest.raises(BudgetExceededError):
            await bound.run("b")
        assert ctx.budget is not None
        return {"said": [str(ctx.budget.spent.calls)]}

    assert Runtime(fan(1, node), harness=agent(calls), budget=Budget(calls=5)).run({}).state.said == ["1"]


def test_nested_graph_is_limited_by_the_budgets_of_its_node_and_of_the_run() -> None:
    calls = Calls(took(90))
    g = GraphBuilder(State, name="outer")
    g.add_node("inner", fan(5), budget=Budget(tokens=200))
    g.add_node("more", fan(5), budget=Budget(tokens=10_000))
    g.add_edge(START, "inner")
    g.add_edge("inner", "more")
    graph = g.compile()

    assert Runtime(graph, harness=agent(calls)).run({}).state.said.count("ok") == 2 + 5
    assert Runtime(graph, harness=agent(calls), budget=Budget(calls=4)).run({}).state.said.count("ok") == 4


def test_agent_inside_a_model_call_is_refused_instead_of_waiting_forever() -> None:
    calls = Calls(took(90))
    inner = agent(calls)

    async def think(_request: Any) -> str:
        return (await inner.run("inside")).text

    outer = Agent(FunctionModel(think, profile=COUNTED), max_tokens=80)
    with pytest.raises(BudgetExceededError) as caught:
        Runtime(fan(1, ask_once), harness=outer, budget=Budget(tokens=100)).run({})

    assert caught.value.node is not None
    assert "because it is part of one of them" in str(caught.value)


def test_plain_harness_is_also_limited_by_budgets() -> None:
    from graphrt import MockHarness
    from graphrt.harness import AgentReply

    g = GraphBuilder(State, name="plain")

    @g.node
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run("?", max_tokens=50)
        with pytest.raises(BudgetExceededError):
            await ctx.harness.run("?", max_tokens=50)
        with pytest.raises(InputError):
            await ctx.harness.run("?")
        return {"said": [reply.text]}

    g.add_edge(START, ask)
    harness = MockHarness([AgentReply(text="ok", usage=took(60))])
    assert Runtime(g.compile(), harness=harness, budget=Budget(tokens=100)).run({}).usage.total_tokens == 60


def test_cached_responses_are_free() -> None:
    from graphrt.harness import ResponseCache

    calls = Calls(took(90))
    g = GraphBuilder(State, name="cached")

    @g.node
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        replies = [await ctx.harness.run("the same") for _ in range(5)]
        return {"said": [reply.text for reply in replies]}

    g.add_edge(START, ask)
    result = Runtime(g.compile(), harness=agent(calls, cache=ResponseCache()), budget=Budget(tokens=100)).run({})

    assert (calls.made, result.usage.total_tokens) == (1, 90)


def test_new_run_of_a_thread_has_the_whole_budget_again() -> None:
    calls = Calls(took(90))
    runtime = Runtime(fan(3), store="memory:", harness=agent(calls), budget=Budget(tokens=100))
    runtime.run({}, thread="t")
    result = runtime.run({}, thread="t")

    assert result.state.said.count("ok") == 2
    assert result.usage.total_tokens == 90


@pytest.mark.parametrize("budget", [None, Budget(calls=9), Budget(tokens=10**6), Budget(usd=1.0)], ids=repr)
def test_profile_prices_calls_under_any_budget(budget: Budget | None) -> None:
    """10 tokens of a millionth of a dollar each were read, 80 of two were written."""
    result = Runtime(fan(1), harness=agent(Calls(took(90), profile=PRICED)), budget=budget).run({})

    assert result.usage.cost_usd == pytest.approx(0.00017)


def test_price_reported_by_the_provider_is_used() -> None:
    told = Usage(input_tokens=10, output_tokens=80, calls=1, cost_usd=0.5)
    result = Runtime(fan(1), harness=agent(Calls(told, profile=PRICED))).run({})

    assert result.usage.cost_usd == 0.5


@pytest.mark.parametrize(
    "odd",
    [
        {"input_tokens": -1000},
        {"output_tokens": float("nan")},
        {"input_tokens": 10.5},
        {"calls": True},
        {"cost_usd": -1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("plain", [False, True], ids=["agent", "plain"])
def test_invalid_usage_is_an_error(plain: bool, odd: dict[str, Any]) -> None:
    """A budget that accepted it would grow with each call, or never end."""
    calls = Calls(Usage(**odd))

    class Plain:
        async def run(self, prompt: Any, **options: Any) -> AgentReply:
            return AgentReply(text="ok", usage=Usage(**odd))

    harness = Plain() if plain else agent(calls, retry=None)
    with pytest.raises(NodeError) as caught:
        Runtime(fan(2, ask_once), harness=harness, budget=Budget(calls=9)).run({})

    assert isinstance(caught.value.__cause__, BadResponseError)
    assert repr(next(iter(odd.values()))) in str(caught.value.__cause__)


@pytest.mark.parametrize("budget", [5, True, "x", float("nan"), {"tokens": 5}], ids=repr)
def test_value_that_is_not_a_budget_is_refused_where_it_is_bound(budget: Any) -> None:
    calls = Calls(took(90))

    async def binds(state: Any, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.bind(agent(calls), budget=budget).run("go")).text]}

    with pytest.raises(NodeError) as caught:
        Runtime(fan(1, binds)).run({})

    assert isinstance(caught.value.__cause__, InputError)
    assert caught.value.__cause__.code == "input"
    assert calls.made == 0
