"""Budgets of agents: bound to a task, below each other, around layers, over pauses and cancellations."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from graphrt import Context, MockHarness, Runtime
from graphrt.errors import BudgetExceededError
from graphrt.harness import AgentReply, Budget, BudgetWarning, Middleware

from .calls import Calls, State, agent, ask_once, fan, took


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "agent"])
def test_budget_that_starts_with_the_node_includes_costs_before_a_pause(bound: bool) -> None:
    calls = Calls(took(90))

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        inner = agent(calls, budget=None if bound else Budget(calls=2), tools=[])
        harness = ctx.bind(inner, budget=Budget(calls=2) if bound else None)
        said = []
        for number in range(4):
            try:
                said.append((await harness.run(str(number))).text)
            except BudgetExceededError:
                said.append("refused")
            if number == 0:
                ctx.interrupt("go on?")
        return {"said": said}

    runtime = Runtime(fan(1, node), store="memory:", harness=agent(calls))
    runtime.run({}, thread="t")
    result = runtime.resume("t", answer=True)

    assert result.state.said == (["ok", "ok", "refused", "refused"] if bound else ["ok"] * 4)
    assert result.usage.total_tokens == (180 if bound else 360)


def test_agents_inside_layers_wait_for_each_other_and_not_for_themselves() -> None:
    """A layer around a model call holds no reservation, and its own calls may wait."""
    calls = Calls(took(90))
    helper = agent(calls, name="helper")

    class Asks(Middleware):
        async def wrap_model(self, request: Any, call: Any) -> Any:
            await helper.run("before")
            response = await call(request)
            await asyncio.gather(helper.run("after"), helper.run("and after"))
            return response

    runtime = Runtime(fan(4), harness=agent(calls, middleware=[Asks()]), budget=Budget(tokens=16 * 90))
    result = asyncio.run(asyncio.wait_for(runtime.arun({}), 30))

    assert (result.state.said, calls.made) == (["ok"] * 4, 16)


def test_agent_outside_a_graph_respects_its_budget_and_warns_its_sinks() -> None:
    calls, seen = Calls(took(90)), list[Any]()
    alone = agent(calls, budget=Budget(tokens=100), sinks=[seen.append])

    assert asyncio.run(alone.run("a")).text == "ok"
    assert [one.used for one in seen if isinstance(one, BudgetWarning)] == [90]


def test_run_that_is_cancelled_inside_a_call_is_refunded() -> None:
    async def body() -> None:
        calls = Calls(took(90), turns=10_000)
        runtime = Runtime(fan(3, ask_once), store="memory:", harness=agent(calls), budget=Budget(tokens=100))
        run = asyncio.create_task(runtime.arun({}, thread="t"))
        await calls.began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert runtime.state("t").usage.total_tokens == 0
        calls._turns = 1
        with pytest.raises(BudgetExceededError):
            await runtime.aretry("t")
        assert calls.ended == 1

    asyncio.run(body())


def test_bound_budget_of_a_plain_harness_includes_costs_before_a_pause() -> None:
    async def node(state: State, ctx: Context) -> dict[str, Any]:
        harness = ctx.bind(MockHarness({re.compile(""): AgentReply(text="ok", usage=took(90))}), budget=Budget(calls=2))
        said: list[str] = []
        for number in range(3):
            try:
                said.append((await harness.run(str(number))).text)
            except BudgetExceededError:
                said.append("refused")
            if number == 0:
                ctx.interrupt("go on?")
        return {"said": said}

    runtime = Runtime(fan(1, node), store="memory:")
    runtime.run({}, thread="t")

    assert runtime.resume("t", answer=True).state.said == ["ok", "ok", "refused"]
