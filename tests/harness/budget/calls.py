"""Models and graphs that these tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Send
from graphrt.errors import BudgetExceededError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, FunctionModel, ModelProfile, ModelRequest
from graphrt.reducers import append

PRICED = ModelProfile(name="priced", input_usd_per_token=1e-6, output_usd_per_token=2e-6, count_tokens=lambda _: 10)
COUNTED = ModelProfile(name="counted", count_tokens=lambda _: 10)
"""Each request is 10 tokens long."""


class Calls:
    """A model that counts its calls, and the number of concurrent ones."""

    def __init__(
        self,
        used: Callable[[ModelRequest], Usage | None] | Usage | None,
        *,
        profile: ModelProfile = COUNTED,
        turns: int = 3,
    ) -> None:
        self.made = self.ended = self.now = self.most = 0
        self.began = asyncio.Event()
        self._used = used
        self._turns = turns
        self.model = FunctionModel(self._reply, usage=None, profile=profile)

    async def _reply(self, request: ModelRequest) -> AgentReply:
        self.made += 1
        self.now += 1
        self.most = max(self.most, self.now)
        self.began.set()
        try:
            for _ in range(self._turns):
                await asyncio.sleep(0)
        finally:
            self.now -= 1
        self.ended += 1
        usage = self._used(request) if callable(self._used) else self._used
        return AgentReply(text="ok", usage=usage)


def agent(calls: Calls, max_tokens: int | None = 80, **options: Any) -> Agent:
    return Agent(calls.model, max_tokens=max_tokens, **options)


def took(tokens: int) -> Usage:
    return Usage(input_tokens=10, output_tokens=tokens - 10, calls=1)


class State(BaseModel):
    said: Annotated[list[str], append] = []


def fan(count: int, node: Callable[..., Any] | None = None, **policy: Any) -> Any:
    """*count* parallel tasks; each calls once, and notes whether the call was allowed."""
    g = GraphBuilder(State, name="fan")

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        try:
            reply = await ctx.harness.run(f"question {ctx.arg}")
        except BudgetExceededError:
            return {"said": ["refused"]}
        return {"said": [reply.text]}

    g.add_node("ask", node or ask, **policy)
    g.add_conditional_edges(START, lambda _: [Send("ask", n) for n in range(count)], ["ask"])
    g.add_edge("ask", END)
    return g.compile()


async def ask_once(state: State, ctx: Context) -> dict[str, Any]:
    return {"said": [(await ctx.harness.run("?")).text]}
