"""Whole runs with many tasks, failing calls and nodes, and nested graphs: budgets hold, and all sums agree.

Some calls fail without an answer; others fail after one and are billed, with or without a report of the provider; and
some answers have no report.

Some dozen seeds; 1,000 with GRAPHRT_FULL=1.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Annotated, Any, Final

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime, Send
from graphrt._usage.amounts import used_amounts
from graphrt.errors import BadResponseError, BudgetExceededError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, Budget, FunctionModel, TokenTracker
from graphrt.reducers import append

from .calls import COUNTED

FULL = os.environ.get("GRAPHRT_FULL") == "1"
SEEDS: Final = 1_000 if FULL else 30
TASKS: Final = 64
ENDS: Final = (*["ok"] * 6, "free", "free", "silent", "billed", "unreadable")
"""How calls end, at random: with a reply, without an answer, with a reply that has no report, with an
error and a report, with an error alone."""


class State(BaseModel):
    token_budget: int
    said: Annotated[list[str], append] = []


class World:
    """A model with random latencies, failures and lengths, which records the costs that budgets have to count."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.paid = self.flying = self.billed = self.unreported = 0
        self.limit = self.draw.randrange(90, 4_000)
        self.field = self.draw.randrange(90, 4_000)
        self.model = FunctionModel(self._answer, usage=None, profile=COUNTED)

    async def _answer(self, _request: Any) -> AgentReply:
        self.flying += 90
        assert self.paid + self.flying <= min(self.limit, self.field)
        length, end = self.draw.randrange(81), self.draw.choice(ENDS)
        try:
            for _ in range(self.draw.randrange(5)):
                await asyncio.sleep(0)
            if end == "free":
                raise TransientModelError("busy", retry_after_s=0.0)
        finally:
            self.flying -= 90
        reported = Usage(input_tokens=10, output_tokens=length, calls=1) if end in ("ok", "billed") else None
        self.billed += 1
        self.unreported += reported is None
        self.paid += 90 if reported is None else reported.total_tokens  # 90: the reservation of the call
        if end in ("billed", "unreadable"):
            raise BadResponseError("cut", retry_after_s=0.0, billed=True, usage=reported)
        return AgentReply(text="ok", usage=reported)


def fan(world: World, count: int) -> Any:
    g = GraphBuilder(State, name="fan")

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        odds = random.Random(f"{ctx.task_id}")
        fails = odds.random() < 0.2
        try:
            for number in range(odds.randrange(1, 4)):
                task = asyncio.create_task(ctx.harness.run(f"{ctx.arg} {number}"))
                if odds.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
        except (BudgetExceededError, TransientModelError, BadResponseError) as error:
            return {"said": [type(error).__name__]}
        if fails:
            raise ValueError("after the calls")
        return {"said": ["ok"]}

    async def after(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [type(ctx.error).__name__]}

    g.add_node("ask", ask, on_error="after")
    g.add_node("after", after)
    g.add_conditional_edges(START, lambda _: [Send("ask", n) for n in range(count)], ["ask"])
    g.add_edge("ask", END)
    return g.compile()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_budgets_hold_and_all_sums_agree(seed: int) -> None:
    world = World(seed)
    g = GraphBuilder(State, name="outer")
    g.add_node("inner", fan(world, TASKS // 2))
    g.add_node("other", fan(world, TASKS // 2), budget=Budget(tokens=2_000))
    g.add_edge(START, "inner")
    g.add_edge(START, "other")
    tracker = TokenTracker()
    harness = Agent(world.model, max_tokens=80, retry=RetryPolicy(attempts=2, wait_initial_s=0))
    runtime = Runtime(
        g.compile(), store="memory:", harness=harness, budget=Budget(tokens=world.limit), sinks=[tracker], seed=seed
    )
    result = asyncio.run(runtime.arun({"token_budget": world.field}, thread="t"))
    again = Runtime(runtime.graph, store=runtime.store).state("t")

    assert len(result.state.said) > TASKS / 2  # handlers of one node merge
    assert result.usage == tracker.total == again.usage
    counted = used_amounts(result.usage)
    assert (counted.tokens, counted.calls) == (world.paid, world.billed)
    assert result.usage.unreported_calls == world.unreported
    assert result.state.token_budget == again.values.token_budget == world.field - counted.tokens
    assert TokenTracker().read(runtime.entries("t")).summary() == tracker.summary()
