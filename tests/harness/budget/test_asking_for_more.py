"""on_exceeded="interrupt": a person is asked for a larger budget, and the thread continues with it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.patience import with_more_time

from graphrt import START, Context, GraphBuilder, NodeError, RunResult, Runtime
from graphrt.errors import BudgetExceededError, InputError
from graphrt.harness import Agent, Budget, FunctionModel, ModelProfile
from graphrt.reducers import append
from graphrt.stores import MemoryStore

from .calls import PRICED, Calls, agent, fan, took


class State(BaseModel):
    said: Annotated[list[str], append] = []


def asks(count: int, **policy: Any) -> Any:
    g = GraphBuilder(State, name="asks")

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run(str(number))).text for number in range(count)]}

    async def refused(state: State, ctx: Context) -> dict[str, Any]:
        assert isinstance(ctx.error, BudgetExceededError)
        return {"said": ["refused"]}

    g.add_node("ask", ask, on_error="refused", **policy)
    g.add_node("refused", refused)
    g.add_edge(START, "ask")
    return g.compile()


def start(calls: Calls, budget: Budget, count: int = 3) -> tuple[Runtime[Any], RunResult[Any]]:
    runtime = Runtime(asks(count), store="memory:", harness=agent(calls), budget=budget)
    return runtime, runtime.run({}, thread="t")


def test_question_names_the_budget_and_the_shortage() -> None:
    _, result = start(Calls(took(90)), Budget(tokens=100, on_exceeded="interrupt"))

    assert result.status == "interrupted"
    assert result.interrupts[0].payload == {
        "problem": "budget exceeded",
        "budget": "run",
        "short": "tokens",
        "limit": 100,
        "wants": {"tokens": 90, "usd": 0.0, "calls": 1},
        "model": "counted",
    }


def test_dollars_are_shown_in_the_unit_of_the_answer() -> None:
    _, result = start(Calls(took(90), profile=PRICED), Budget(usd=0.0002, on_exceeded="interrupt"))

    assert result.interrupts[0].payload["limit"] == 0.0002
    assert result.interrupts[0].payload["wants"] == {"tokens": 90, "usd": 0.00017, "calls": 1}


@pytest.mark.parametrize("answer", [1_000, {"tokens": 1_000}, {"tokens": 200, "calls": 3, "usd": 0.5}], ids=str)
def test_answer_allows_that_much_more(answer: Any) -> None:
    calls = Calls(took(90))
    runtime, _ = start(calls, Budget(tokens=100, on_exceeded="interrupt"))
    result = runtime.resume("t", answer=answer)

    assert (result.status, result.state.said, calls.made) == ("completed", ["ok"] * 3, 3)


def test_number_applies_to_the_exceeded_limit() -> None:
    calls = Calls(took(90), profile=PRICED)
    runtime, result = start(calls, Budget(usd=0.0002, on_exceeded="interrupt"))
    assert result.interrupts[0].payload["short"] == "usd"
    result = runtime.resume("t", 0.01)

    assert (result.status, calls.made) == ("completed", 3)


def test_each_call_over_the_budget_asks_separately() -> None:
    """An answer is not used twice."""
    calls = Calls(took(90))
    runtime, result = start(calls, Budget(tokens=100, on_exceeded="interrupt"))
    asked = [result.interrupts[0].id]
    result = runtime.resume("t", 90)
    asked.append(result.interrupts[0].id)
    result = runtime.resume("t", 90)

    assert (result.status, calls.made) == ("completed", 3)
    assert len(set(asked)) == 2


@pytest.mark.parametrize("answer", [0, {}, {"tokens": 0}, {"usd": 0.0}], ids=str)
def test_answer_of_zero_is_a_refusal_that_takes_the_error_edge(answer: Any) -> None:
    calls = Calls(took(90))
    runtime, _ = start(calls, Budget(tokens=100, on_exceeded="interrupt"))
    result = runtime.resume("t", answer=answer)

    assert (result.status, result.state.said, calls.made) == ("completed", ["refused"], 1)


@pytest.mark.parametrize("answer", ["more", None, [1], {"tokens": "x"}, {"tokens": [1]}, {1: 2}], ids=str)
def test_answer_of_the_wrong_form_is_refused_by_resume(answer: Any) -> None:
    calls = Calls(took(90))
    runtime, result = start(calls, Budget(tokens=100, on_exceeded="interrupt"))
    with pytest.raises(InputError):
        runtime.resume("t", {result.interrupts[0].id: answer})

    assert runtime.resume("t", 1_000).status == "completed"


@pytest.mark.parametrize(
    "answer",
    [
        -5,
        True,
        False,
        float("nan"),
        float("inf"),
        0.5,
        {"tokens": -1},
        {"bananas": 3},
        {"tokens": True},
        {"tokens": 1.5},
    ],
    ids=str,
)
def test_answer_that_is_not_an_amount_is_requested_again(answer: Any) -> None:
    calls = Calls(took(90))
    runtime, _ = start(calls, Budget(tokens=100, on_exceeded="interrupt"))
    result = runtime.resume("t", answer=answer)
    assert result.status == "interrupted"
    assert result.interrupts[0].payload["problem"].startswith("the answer")
    assert runtime.resume("t", 1_000).status == "completed"
    assert calls.made == 3


def test_more_can_be_requested_for_a_node() -> None:
    calls = Calls(took(90))
    graph = asks(3, budget=Budget(calls=1, on_exceeded="interrupt"))
    runtime = Runtime(graph, store="memory:", harness=agent(calls), budget=Budget(tokens=10_000))
    result = runtime.run({}, thread="t")
    assert result.interrupts[0].payload["budget"] == "node 'ask'"
    result = runtime.resume("t", answer={"calls": 2})

    assert (result.status, calls.made) == ("completed", 3)


def test_budget_without_a_thread_reports_that_it_cannot_ask() -> None:
    runtime = Runtime(asks(3), harness=agent(Calls(took(90))), budget=Budget(tokens=100, on_exceeded="interrupt"))
    with pytest.raises(InputError) as caught:
        runtime.run({})

    assert caught.value.code == "interrupt-needs-thread"


def test_question_survives_a_restart(tmp_path: Any) -> None:
    calls = Calls(took(90))

    def runtime() -> Runtime[Any]:
        budget = Budget(tokens=100, on_exceeded="interrupt")
        return Runtime(asks(3), store=f"sqlite:///{tmp_path}/t.db", harness=agent(calls), budget=budget)

    with runtime() as first:
        first.run({}, thread="t")
    with runtime() as second:
        second.resume("t", 90)
    with runtime() as third:
        result = third.resume("t", answer={"tokens": 90})

    assert (result.status, calls.made, result.usage.total_tokens) == ("completed", 3, 270)


def test_time_limit_during_a_call_raises_a_question() -> None:
    """The call was interrupted, and is repeated when there is more time."""

    def trial(seconds: float) -> None:
        slow = [True]

        async def answer(_request: Any) -> str:
            if slow and slow.pop():
                await asyncio.sleep(3600)
            return "ok"

        budget = Budget(seconds=seconds, on_exceeded="interrupt")
        runtime = Runtime(asks(3), store="memory:", harness=Agent(FunctionModel(answer)), budget=budget)
        paused = runtime.run({}, thread="t")
        assert slow == []
        assert (paused.status, paused.interrupts[0].payload["short"]) == ("interrupted", "seconds")
        assert paused.interrupts[0].payload["limit"] == seconds

        assert runtime.resume("t", 60).state.said == ["ok", "ok", "ok"]

    with_more_time(trial, 0.2, 5.0)


def test_refusal_of_more_time_fails() -> None:
    async def answer(_request: Any) -> str:
        await asyncio.sleep(3600)
        return "never"

    budget = Budget(seconds=0.05, on_exceeded="interrupt")
    runtime = Runtime(asks(1), store="memory:", harness=Agent(FunctionModel(answer)), budget=budget)
    runtime.run({}, thread="t")

    assert runtime.resume("t", 0).state.said == ["refused"]


@pytest.mark.parametrize("count", [-1, float("nan"), 1.5, True, None, "10"], ids=repr)
def test_invalid_count_of_tokens_is_refused_before_any_call(count: Any) -> None:
    calls = Calls(took(90), profile=ModelProfile(name="odd", count_tokens=lambda _: count))
    with pytest.raises(NodeError) as caught:
        Runtime(fan(1, asks_once), harness=agent(calls), budget=Budget(tokens=1_000)).run({})

    assert isinstance(caught.value.__cause__, InputError)
    assert caught.value.__cause__.code == "input"
    assert calls.made == 0


async def asks_once(state: Any, ctx: Context) -> dict[str, Any]:
    return {"said": [(await ctx.harness.run("go")).text]}


@pytest.mark.parametrize("count", [2, 3, 5, 8])
@pytest.mark.parametrize("store", ["memory:", pytest.param("sqlite", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "budget", [Budget(calls=1, on_exceeded="interrupt"), Budget(tokens=100, on_exceeded="interrupt")]
)
def test_answers_to_parallel_calls_are_counted_before_any_call_is_made(
    budget: Budget, store: str, count: int, tmp_path: Any
) -> None:
    """Each asked for itself, and the first call must not use the allowance of another."""
    more = 1 if budget.calls else 90
    calls = Calls(took(90))
    graph = fan(count, asks_itself)
    with Runtime(
        graph, store=f"sqlite:///{tmp_path}/t.db" if store == "sqlite" else store, harness=agent(calls), budget=budget
    ) as runtime:
        asked = runtime.run({}, thread="t").interrupts
        assert len(asked) == count - 1
        result = runtime.resume("t", {one.id: more for one in asked})

    assert (result.status, result.state.said, calls.made) == ("completed", ["ok"] * count, count)


@pytest.mark.parametrize("store", ["memory:", pytest.param("sqlite", marks=pytest.mark.full)])
def test_parallel_calls_may_be_answered_one_by_one(store: str, tmp_path: Any) -> None:
    calls = Calls(took(90))
    budget = Budget(calls=1, on_exceeded="interrupt")
    url = f"sqlite:///{tmp_path}/t.db" if store == "sqlite" else store
    with Runtime(fan(4, asks_itself), store=url, harness=agent(calls), budget=budget) as runtime:
        result = runtime.run({}, thread="t")
        answers = 0
        while result.status == "interrupted":
            answers += 1
            result = runtime.resume("t", {result.interrupts[-1].id: 1})

    assert (result.status, calls.made, answers) == ("completed", 4, 3)


@pytest.mark.parametrize("refused", [0, 1])
@pytest.mark.parametrize("owner", ["run", "node"])
def test_refused_call_does_not_use_the_grant_of_another(owner: str, refused: int) -> None:
    budget = Budget(calls=1, on_exceeded="interrupt")
    of_run, of_node = (budget, {}) if owner == "run" else (None, {"budget": budget})
    calls = Calls(took(90))

    async def ask(harness: Any, question: str) -> str:
        try:
            return (await harness.run(question)).text
        except BudgetExceededError:
            return "refused"

    async def all_at_once(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": await asyncio.gather(*(ask(ctx.harness, str(number)) for number in range(3)))}

    graph = GraphBuilder(State, name="g").add_node("ask", all_at_once, **of_node).add_edge(START, "ask").compile()
    runtime = Runtime(graph, store="memory:", harness=agent(calls), budget=of_run)
    asked = runtime.run({}, thread="t").interrupts
    assert len(asked) == 2
    result = runtime.resume("t", {one.id: int(number != refused) for number, one in enumerate(asked)})

    assert (result.status, sorted(result.state.said), calls.made) == ("completed", ["ok", "ok", "refused"], 2)


def test_refusal_ends_with_the_limit_that_it_was_about() -> None:
    calls = Calls(took(90))
    store = MemoryStore()

    def limited(most: int) -> Runtime[Any]:
        budget = Budget(calls=most, on_exceeded="interrupt")
        return Runtime(fan(2, asks_itself), store=store, harness=agent(calls), budget=budget)

    limited(1).run({}, thread="t")
    with pytest.raises(BudgetExceededError, match="answered with 0"):
        limited(1).resume("t", 0)

    assert limited(2).retry("t").status == "completed"


async def asks_itself(state: Any, ctx: Context) -> dict[str, Any]:
    return {"said": [(await ctx.harness.run(f"question {ctx.arg}")).text]}
