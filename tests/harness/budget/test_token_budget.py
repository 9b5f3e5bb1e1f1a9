"""An integer field `token_budget` is a budget: read at the start of a superstep, reduced by the usage of its tasks."""

from __future__ import annotations

import dataclasses
import operator
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, Field

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime, Send
from graphrt.commands import Overwrite
from graphrt.errors import BudgetExceededError, ConcurrentUpdateError, InputError, TransientModelError
from graphrt.harness import Budget, TokenTracker
from graphrt.reducers import append

from .calls import Calls, agent, took


class Model(BaseModel):
    token_budget: int = 200
    said: Annotated[list[str], append] = []


class Bounded(BaseModel):
    token_budget: int = Field(default=200, ge=0)
    said: Annotated[list[str], append] = []


class Unbounded(BaseModel):
    token_budget: int | None = 200
    said: Annotated[list[str], append] = []


@dataclasses.dataclass
class Data:
    token_budget: int = 200
    said: Annotated[list[str], append] = dataclasses.field(default_factory=list[str])


class Typed(TypedDict):
    token_budget: int
    said: Annotated[list[str], append]


class Added(BaseModel):
    token_budget: Annotated[int, operator.add] = 200
    said: Annotated[list[str], append] = []


class Update(TypedDict, total=False):
    said: list[str]


STATES: list[Any] = [Model, Bounded, Unbounded, Data, Typed, Added]
GIVEN: dict[str, Any] = {"token_budget": 200, "said": []}


def left(state: Any) -> Any:
    return state["token_budget"] if type(state) is dict else state.token_budget


async def ask(state: Any, ctx: Context) -> dict[str, Any]:
    try:
        reply = await ctx.harness.run(f"{ctx.arg}")
    except BudgetExceededError:
        return {"said": ["refused"]}
    return {"said": [reply.text]}


def graph(
    state: Any = Model, update: Any = None, *, count: int = 1, node: Any = ask, steps: int = 1, **policy: Any
) -> Any:
    g = GraphBuilder(state, name="asks") if update is None else GraphBuilder(state, update, name="asks")
    names = [f"ask{number}" for number in range(steps)]
    for name in names:
        g.add_node(name, node, **policy)
    g.add_conditional_edges(START, lambda _: [Send(names[0], n) for n in range(count)], [names[0]])
    for before, after in pairwise(names):
        g.add_edge(before, after)
    g.add_edge(names[-1], END)
    return g.compile()


@pytest.mark.parametrize("update", [None, Update], ids=["update-of-all", "update-without"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_usage_of_calls_is_subtracted(state: Any, update: Any) -> None:
    """For every kind of state, and whether nodes may write the field or not."""
    calls = Calls(took(30))
    result = Runtime(graph(state, update), harness=agent(calls)).run(GIVEN)

    assert left(result.state) == 170


@pytest.mark.parametrize("store", [None, "memory:", pytest.param("sqlite", marks=pytest.mark.full)])
def test_parallel_tasks_never_use_more_than_the_budget(store: str | None, tmp_path: Any) -> None:
    calls = Calls(took(90))
    place = f"sqlite:///{tmp_path}/t.db" if store == "sqlite" else store
    runtime = Runtime(graph(count=10), store=place, harness=agent(calls))
    result = runtime.run(GIVEN, thread="t" if store else None)

    assert (calls.made, left(result.state)) == (2, 20)
    assert result.state.said.count("refused") == 8
    if store:
        assert runtime.state("t").values.token_budget == 20


def test_field_is_read_again_at_the_start_of_each_superstep() -> None:
    calls = Calls(took(90))
    seen: list[int] = []

    async def look(state: Model, ctx: Context) -> dict[str, Any]:
        assert ctx.budget is not None
        seen.append(ctx.budget.remaining_tokens or 0)
        return await ask(state, ctx)

    result = Runtime(graph(node=look, steps=4), harness=agent(calls)).run(GIVEN)

    assert seen == [200, 110, 20, 20]
    assert result.state.said == ["ok", "ok", "refused", "refused"]


def test_none_is_an_unlimited_budget() -> None:
    calls = Calls(took(90))
    result = Runtime(graph(Unbounded, count=10), harness=agent(calls)).run({"token_budget": None})

    assert (calls.made, left(result.state)) == (10, None)


def test_node_may_reset_the_budget() -> None:
    calls = Calls(took(90))

    async def refill(state: Model, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run("?")
        return {"token_budget": 500}

    result = Runtime(graph(node=refill), harness=agent(calls)).run(GIVEN)

    assert left(result.state) == 500


def test_node_that_returns_the_unchanged_value_does_not_reset_it() -> None:
    async def whole(state: Model, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run(f"{ctx.arg}")
        return {**state.model_dump(), "said": ["ok"]}

    runtime = Runtime(graph(node=whole, count=2), store="memory:", harness=agent(Calls(took(30))))

    assert left(runtime.run(GIVEN, thread="t").state) == left(runtime.state("t").values) == 140


def test_usage_counts_in_task_order_if_another_node_resets_the_budget() -> None:
    calls = Calls(took(30))

    async def node(state: Model, ctx: Context) -> dict[str, Any]:
        return {"token_budget": 100} if ctx.arg == 1 else await ask(state, ctx)

    assert left(Runtime(graph(node=node, count=3), harness=agent(calls)).run(GIVEN).state) == 70


def test_overwrite_conflicts_with_a_concurrent_task_that_spends() -> None:
    async def node(state: Model, ctx: Context) -> dict[str, Any]:
        return {"token_budget": Overwrite(100)} if ctx.arg == 1 else await ask(state, ctx)

    with pytest.raises(ConcurrentUpdateError):
        Runtime(graph(node=node, count=3), harness=agent(Calls(took(30)))).run(GIVEN)


def test_field_stops_at_zero_when_a_provider_overruns() -> None:
    calls = Calls(took(500))

    assert left(Runtime(graph(count=2), harness=agent(calls)).run(GIVEN).state) == 0


def test_failed_node_is_charged_for_its_calls() -> None:
    g = GraphBuilder(Model, name="fails")
    calls = Calls(took(90))

    async def twice(state: Model, ctx: Context) -> dict[str, Any]:
        for number in range(9):
            await ctx.harness.run(str(number))
        return {}

    async def after(state: Model, ctx: Context) -> dict[str, Any]:
        return {"said": [type(ctx.error).__name__, str(state.token_budget)]}

    g.add_node("twice", twice, on_error="after")
    g.add_node("after", after)
    g.add_edge(START, "twice")
    runtime = Runtime(g.compile(), store="memory:", harness=agent(calls))
    result = runtime.run(GIVEN, thread="t")

    assert result.state == Model(token_budget=20, said=["BudgetExceededError", "20"])
    assert Runtime(runtime.graph, store=runtime.store).state("t").values == result.state


def test_failed_attempts_are_also_charged() -> None:
    calls = Calls(took(30))
    tries: list[int] = []

    async def node(state: Model, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run("?")
        tries.append(1)
        if len(tries) < 3:
            raise TransientModelError("busy") from None
        return {}

    result = Runtime(graph(node=node, retry=RetryPolicy(attempts=3, wait_initial_s=0)), harness=agent(calls)).run(GIVEN)

    assert left(result.state) == 200 - 30 * calls.made


class Inner(BaseModel):
    said: Annotated[list[str], append] = []


@pytest.mark.parametrize("inner", [Model, Inner], ids=["with-the-field", "without-it"])
def test_nested_graph_is_charged_to_the_budget_of_its_parent(inner: Any) -> None:
    """Together with parallel tasks."""
    calls = Calls(took(90))
    g = GraphBuilder(Model, name="outer")
    g.add_node("nested", graph(inner, count=2, steps=2))
    g.add_node("beside", ask)
    g.add_edge(START, "nested")
    g.add_edge(START, "beside")
    result = Runtime(g.compile(), harness=agent(calls)).run(GIVEN)

    assert (calls.made, left(result.state)) == (2, 20)
    assert result.state.said.count("ok") == 2


@pytest.mark.parametrize("inner", [Model, Inner], ids=["with-the-field", "without-it"])
def test_failed_nested_graph_is_charged(inner: Any) -> None:
    calls = Calls(took(90))

    async def node(state: Any, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run("?")
        raise ValueError("after the call")

    g = GraphBuilder(Model, name="outer")
    g.add_node("nested", graph(inner, node=node), on_error="after")
    g.add_node("after", lambda state: {"said": [str(state.token_budget)]})
    g.add_edge(START, "nested")
    result = Runtime(g.compile(), harness=agent(calls)).run(GIVEN)

    assert (result.state.said, result.usage.total_tokens) == (["110"], 90)


def test_edit_resets_the_budget_for_later_tasks() -> None:
    calls = Calls(took(90))
    runtime = Runtime(graph(steps=3, interrupt_before=True), store="memory:", harness=agent(calls))
    result = runtime.run(GIVEN, thread="t")
    while result.status == "interrupted":
        if result.interrupts[0].node == "ask1":
            runtime.update("t", {"token_budget": 95})
        result = runtime.resume("t", True)

    assert (result.state.said, left(result.state)) == (["ok", "ok", "refused"], 5)


def test_fork_has_the_rest_of_the_budget_at_its_entry() -> None:
    calls = Calls(took(90))
    runtime = Runtime(graph(steps=2), store="memory:", harness=agent(calls))
    runtime.run(GIVEN, thread="t")
    middle = next(one for one in runtime.history("t") if one.values.token_budget == 110)
    runtime.fork("t", at=middle.seq, to="u")
    result = runtime.resume("u")

    assert left(result.state) == 20


def test_state_is_the_fold_of_the_journal() -> None:
    """Also with budgets of the run, handled failures and nested graphs."""
    calls = Calls(took(30))
    g = GraphBuilder(Model, name="outer")

    async def fails(state: Model, ctx: Context) -> dict[str, Any]:
        await ctx.harness.run("?")
        raise ValueError("no")

    g.add_node("nested", graph(Inner, count=2))
    g.add_node("fails", fails, on_error="after")
    g.add_node("after", ask)
    g.add_edge(START, "nested")
    g.add_edge(START, "fails")
    tracker = TokenTracker()
    runtime = Runtime(g.compile(), store="memory:", harness=agent(calls), budget=Budget(calls=9), sinks=[tracker])
    result = runtime.run(GIVEN, thread="t")
    again = Runtime(g.compile(), store=runtime.store).state("t")

    assert left(result.state) == left(again.values) == 200 - 4 * 30
    assert again.usage == result.usage == tracker.total
    assert left(runtime.history("t")[-1].values) in (200, 80)


def test_field_of_another_type_is_not_a_budget() -> None:
    class Text(BaseModel):
        token_budget: str = "plenty"
        said: Annotated[list[str], append] = []

    result = Runtime(graph(Text, count=5), harness=agent(Calls(took(90)))).run({})

    assert (result.state.said, result.state.token_budget) == (["ok"] * 5, "plenty")


def test_graph_without_calls_does_not_change_the_field() -> None:
    async def speak(state: Model, ctx: Context) -> dict[str, Any]:
        return {"said": ["x"]}

    result = Runtime(graph(node=speak, steps=3)).run(GIVEN)

    assert left(result.state) == 200


@pytest.mark.parametrize("reducer", [min, max, lambda current, incoming: incoming], ids=["min", "max", "last"])
def test_field_with_its_own_reducer_is_not_a_budget(reducer: Any) -> None:
    """The result of the reducer for a negative number would have no meaning."""

    class Own(BaseModel):
        token_budget: Annotated[int, reducer] = 50
        said: Annotated[list[str], append] = []

    calls = Calls(took(90))
    result = Runtime(graph(Own), harness=agent(calls)).run({})
    assert (result.state.token_budget, result.state.said) == (50, ["ok"])


@pytest.mark.parametrize("store", [None, "memory:"])
def test_input_with_a_negative_budget_is_refused_at_the_start_of_the_run(store: str | None) -> None:
    calls = Calls(took(10))
    g = GraphBuilder(Model, name="poor")

    @g.node
    async def ask(state: Model, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run("?")).text]}

    g.add_edge(START, ask)
    runtime = Runtime(g.compile(), store=store, harness=agent(calls))
    for value in (-1, -1000):
        with pytest.raises(InputError, match=f"'token_budget' cannot be {value}") as caught:
            runtime.run({"token_budget": value}, **({"thread": "t"} if store else {}))
        assert (caught.value.code, caught.value.field) == ("input", "token_budget")

    assert calls.made == 0
    assert runtime.run({}, **({"thread": "t"} if store else {})).state.token_budget == 190
