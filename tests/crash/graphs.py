"""The graph that is killed: fan-out by edges and by Sends, joins, a retry, interrupts, effects of each kind, a nested
graph with all of that. Its nodes are written once, as sync or async functions.

Each task adds a different power of two: a task that is folded twice, or never, shows in the sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typing_extensions as te

from graphrt import END, START, Command, GraphBuilder, Interrupt, Send
from graphrt.limits import RetryPolicy
from graphrt.reducers import add, append, merge

from . import world
from .world import by_hand

LAST = "seal?"
"""The question that is answered last."""
LARGE = "x" * 9_000
"""Stored once, by its content."""
AGAIN = RetryPolicy(3, wait_initial_s=0.001)
WORKERS = 3


class State(te.TypedDict, total=False):
    plan: str
    log: Annotated[list[str], append]
    sum: Annotated[int, add]
    marks: Annotated[dict[str, str], merge]
    large: str


class Inner(te.TypedDict, total=False):
    log: Annotated[list[str], append]
    sum: Annotated[int, add]


def noted(name: str, bit: int, **more: Any) -> dict[str, Any]:
    return {"log": [name], "sum": 1 << bit, **more}


async def plan(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return noted("plan", 0, plan=await ctx.deps.effect(ctx, "plan", "pure"))


async def hello(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return noted(f"hello {await ctx.deps.effect(ctx, 'greet', 'idempotent')}", 18)


async def left(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    await ctx.deps.effect(ctx, "peek", "pure")
    return noted(f"left {await ctx.deps.effect(ctx, 'book', 'idempotent')}", 1)


async def flaky(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    done = await ctx.deps.effect(ctx, "ping", "idempotent")
    if ctx.attempt == 1:
        raise ConnectionError("the line is busy")
    return noted(f"flaky {done}", 2)


async def approve(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    await ctx.deps.effect(ctx, "draft", "idempotent")
    return noted(f"approve {ctx.interrupt({'ok': 'go on?'}, key='ok', answer_type=str)}", 3)


async def spread(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return Command(
        update=noted("spread", 4, large=LARGE), goto=[*(Send("work", at) for at in range(WORKERS)), "nest", "seal"]
    )


async def work(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    name, kind = ("charge", "once") if ctx.arg == 1 else (f"tool{ctx.arg}", "idempotent")
    done = await ctx.deps.effect(ctx, name, kind)
    return noted(f"work{ctx.arg} {done}", 5 + ctx.arg, marks={str(ctx.arg): done})


async def seal(_state: Any, ctx: Any) -> Any:
    """Waits until the parallel nested graph has ended, whose question is answered last."""
    await ctx.deps.began(ctx)
    return noted(f"seal {ctx.interrupt(LAST)}", 17)


async def finish(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return noted("finish", 14)


def tidy(_state: Any) -> Any:
    world.began("6.0:tidy")
    return noted("tidy", 15)


def close(_state: Any) -> Any:
    world.began("7.0:close")
    return noted("close", 16)


async def split(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return noted(f"split {await ctx.deps.effect(ctx, 'split', 'pure')}", 8)


async def deal(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return Command(update=noted("deal", 9), goto=[Send("inner", at) for at in range(2)])


async def sign(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return Interrupt("sign?") if ctx.answer is None else noted(f"sign {ctx.answer}", 10)


async def inner(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return noted(f"inner{ctx.arg} {await ctx.deps.effect(ctx, 'mail', 'idempotent')}", 11 + ctx.arg)


async def pay(_state: Any, ctx: Any) -> Any:
    await ctx.deps.began(ctx)
    return noted(f"pay {await ctx.deps.effect(ctx, 'pay', 'once')}", 13)


def form(fn: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
    """*fn* unchanged, or as the same sync node."""
    if is_async:
        return fn

    @functools.wraps(fn)
    def plain(state: Any, ctx: Any) -> Any:
        return by_hand(fn(state, ctx))

    del plain.__wrapped__  # type: ignore[attr-defined]  # otherwise it counts as async
    return plain


def build(*, is_async: bool) -> Any:
    """The compiled graph."""

    def node(fn: Callable[..., Any]) -> Any:
        return form(fn, is_async=is_async)

    nested = GraphBuilder(Inner, name="nested")
    for fn in (split, deal, sign, inner, pay):
        nested.add_node(fn.__name__, node(fn), **({"goto": ["inner"]} if fn is deal else {}))
    nested.add_conditional_edges(START, lambda _state: "split", ["split"])
    nested.add_edge("split", "deal").add_edge("split", "sign")
    nested.add_join(["inner", "sign"], "pay").add_edge("pay", END)

    g = GraphBuilder(State, name="crash")
    g.add_node("plan", node(plan)).add_node("left", node(left)).add_node("flaky", node(flaky), retry=AGAIN)
    g.add_node("approve", node(approve)).add_node("spread", node(spread), goto=["work", "nest", "seal"])
    g.add_node("work", node(work)).add_node("nest", nested.compile(allow=("starving-join",))).add_node(
        "finish", form(finish, is_async=False)
    )
    g.add_node("hello", node(hello)).add_edge(START, "plan").add_edge(START, "hello")
    for name in ("left", "flaky", "approve"):
        g.add_edge("plan", name)
    g.add_join(["left", "flaky", "approve"], "spread")
    g.add_node("tidy", tidy).add_node("close", close)
    g.add_node("seal", node(seal))
    g.add_join(["work", "nest", "seal"], "finish").add_sequence(["finish", "tidy", "close"]).add_edge("close", END)
    return g.compile(allow=("starving-join",))
