"""Budgets, and limits of agents: the corrections of refused values, and the names of the actions at the limit."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from graphrt import START, Budget, Context, GraphBuilder, MockHarness, NodeError, Runtime
from graphrt.errors import BudgetExceededError, InputError
from graphrt.harness import AgentLimits


class State(TypedDict, total=False):
    said: str


def spending(*, on_error: str | None) -> Runtime[State]:
    async def long(state: State, ctx: Context) -> State:
        return {"said": " ".join([(await ctx.harness.run(f"part {number}")).text for number in range(3)])}

    def short(state: State, ctx: Context) -> State:
        return {"said": type(ctx.error).__name__}

    g = GraphBuilder(State, name="spending")
    g.add_node("long", long, on_error=on_error, goto=["short"]).add_node("short", short).add_edge(START, "long")
    return Runtime(g.compile(), harness=MockHarness({"part 0": "a", "part 1": "b"}), budget=BUDGET)


BUDGET = Budget(calls=2, on_exceeded="route")


def test_routing_budget_uses_the_on_error_of_the_node() -> None:
    assert spending(on_error="short").run({}).state == {"said": "BudgetExceededError"}


def test_routing_budget_fails_the_run_if_the_node_has_no_on_error() -> None:
    with pytest.raises((BudgetExceededError, NodeError)) as caught:
        spending(on_error=None).run({})

    assert isinstance(caught.value, BudgetExceededError) or isinstance(caught.value.__cause__, BudgetExceededError)


def test_unknown_action_of_a_budget_is_corrected_with_the_known_ones() -> None:
    wrong: Any = "rise"
    with pytest.raises(InputError) as caught:
        Budget(calls=1, on_exceeded=wrong)

    assert caught.value.code == "bad-limit"
    fix = str(caught.value).partition("Fix:")[2]
    assert [word for word in ("stop", "route", "interrupt", "on_error") if word not in fix] == []
    assert "numbers" not in fix


@pytest.mark.parametrize("limit", [{"tokens": -1}, {"usd": "1"}, {"calls": 1, "warn_at": 2}, {}])
def test_invalid_number_of_a_budget_is_corrected_with_numbers(limit: Any) -> None:
    with pytest.raises(InputError, match=r"Fix: Correct them: Budget\(tokens="):
        Budget(**limit)


@pytest.mark.parametrize("limit", [{"model_calls": 0}, {"seconds": "1"}, {"on_limit": "rise"}])
def test_invalid_limit_of_an_agent_names_the_fix(limit: Any) -> None:
    with pytest.raises(InputError, match="Fix: Correct them") as caught:
        AgentLimits(**limit)

    assert caught.value.code == "bad-limit"
