"""Graphs of the corpus that fail, are cancelled, die with their process, or end.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Annotated, Any

import typing_extensions as te

from graphrt import END, START, Command, Context, RetryPolicy, Send

from .shapes import EVERY_KIND, Colour, Point, State, Typed, Verdict, ask, builder, fails, fan, large, line, note
from .world import world


@cache
def broken() -> Any:
    """One of three fails; what the others came to waits."""
    return fan("broken", ("p", note("p")), ("q", fails("q")), ("r", note("r")))


@cache
def broken_for_good() -> Any:
    retry = RetryPolicy(3, wait_initial_s=0)
    return line("broken-for-good", ("a", note("a")), ("q", fails("q")), ("b", note("b")), q={"retry": retry})


@cache
def broken_router() -> Any:
    def router(state: Any) -> str:
        world.count("router")
        world.fault("no way")
        return "on"

    g = builder("broken-router")
    g.add_node("a", note("a"))
    g.add_node("b", note("b"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", router, {"on": "b"})
    g.add_edge("b", END)
    return g.compile()


def picky(current: list[Any], incoming: list[Any]) -> list[Any]:
    """A reducer that fails until the faults are repaired."""
    if "q" in incoming:
        world.fault("not this one")
    return [*current, *incoming]


class Picky(te.TypedDict, total=False):
    notes: Annotated[list[Any], picky]


@cache
def broken_reducer() -> Any:
    return fan("broken-reducer", ("p", note("p")), ("q", note("q")), state=Picky)


@cache
def conflict() -> Any:
    def one(state: Any) -> Any:
        return {"x": world.count("p")}

    def other(state: Any) -> Any:
        world.count("q")
        return {"notes": ["q"]} if world.mended else {"x": "q"}

    return fan("conflict", ("p", one), ("q", other), ("r", note("r")))


@cache
def bad_update() -> Any:
    def node(state: Any) -> Any:
        world.count("q")
        return {"n": 1} if world.mended else {"n": "not a number"}

    return fan("bad-update", ("p", note("p")), ("q", node))


@cache
def rounds() -> Any:
    """Ten rounds, more than the limits let it have at first."""
    g = builder("rounds")
    g.add_node("round", lambda state: {"n": 1, "notes": [world.count("round")]})
    g.add_edge(START, "round")
    g.add_conditional_edges("round", lambda state: state["n"] < 10, {True: "round", False: END})
    return g.compile()


@cache
def tired() -> Any:
    """A node that has a way out when it was visited too often."""
    g = builder("tired")
    g.add_node("round", lambda state: {"n": 1}, max_visits=3, on_fatigue="rest")
    g.add_node("rest", ask("rest"))
    g.add_edge(START, "round")
    g.add_conditional_edges("round", lambda state: state["n"] < 99, {True: "round", False: END})
    g.add_edge("rest", END)
    return g.compile()


@cache
def starved() -> Any:
    """A join that waits for a node that was not taken; the next release's router takes it."""
    g = builder("starved")
    g.add_node("a", note("a"))
    g.add_node("b", note("b"))
    g.add_node("c", note("c"))
    g.add_node("meet", note("meet"))
    g.add_edge(START, "a")
    g.add_edge(START, "c")
    g.add_conditional_edges("a", lambda state: "stop", {"on": "b", "stop": END})
    g.add_join(["b", "c"], "meet")
    g.add_edge("meet", END)
    return g.compile(allow=("starving-join",))


@cache
def broken_send() -> Any:
    def one(state: Any, ctx: Context) -> Any:
        world.count(f"one {ctx.arg}")
        sent = ctx.effect("send", lambda: world.count(f"send {ctx.arg}"), kind="once")
        if ctx.arg == 2:
            world.fault("the last one is broken")
        return {"notes": [sent]}

    g = builder("broken-send")
    g.add_node("one", one)
    g.add_node("last", note("last"))
    g.add_conditional_edges(START, lambda state: [Send("one", number) for number in range(3)], ["one"])
    g.add_edge("one", "last").add_edge("last", END)
    return g.compile()


@cache
def broken_inside() -> Any:
    inner = fan("inside", ("p", note("p")), ("q", fails("q")))
    return line("broken-inside", ("a", note("a")), ("in", inner), ("b", note("b")))


@cache
def cancelled() -> Any:
    def node(state: Any) -> Any:
        world.count("q")
        world.cancel()
        return {"notes": ["q"]}

    return line("cancelled", ("a", note("a")), ("q", node), ("b", note("b")))


async def _stage(ctx: Context, text: str) -> Any:
    await ctx.effect("look", _looked, text)
    return await ctx.effect("pay", _looked, f"pay {text}", kind="once")


async def _looked(text: str) -> str:
    return world.count(text)


@cache
def dying_fan() -> Any:
    """Tasks that finished, one that recorded its effects, one that did not begin: then the process dies."""

    async def one(state: Any, ctx: Context) -> Any:
        world.count(f"one {ctx.arg}")
        found = await _stage(ctx, f"look {ctx.arg}")
        if ctx.arg == 2:
            await world.dies()
        return {"notes": [found]}

    g = builder("dying-fan")
    g.add_node("split", note("split"))
    g.add_node("one", one)
    g.add_node("last", note("last"))
    g.add_edge(START, "split")
    g.add_conditional_edges("split", lambda state: [Send("one", number) for number in range(4)], ["one"])
    g.add_edge("one", "last").add_edge("last", END)
    return g.compile()


@cache
def dying_line() -> Any:
    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        found = [await _stage(ctx, "first"), await _stage(ctx, "second"), ctx.random.randint(0, 10**9)]
        await world.dies()
        return {"notes": found}

    return line("dying-line", ("a", note("a")), ("q", node), ("b", note("b")))


@cache
def dying_once() -> Any:
    """The process dies in an effect that must not be done twice."""

    async def pay() -> str:
        world.count("pay")
        await world.dies()
        return "paid"

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        return {"notes": [await ctx.effect("pay", pay, kind="once")]}

    return line("dying-once", ("q", node), ("b", note("b")))


@cache
def dying_inside() -> Any:
    """The process dies in a nested graph that committed twice, beside a task that finished."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("in3")
        found = await _stage(ctx, "look")
        await world.dies()
        return {"notes": [found]}

    inner = line("inside", ("in1", note("in1")), ("in2", note("in2")), ("in3", node), ("in4", note("in4")))
    return fan("dying-inside", ("p", note("p")), ("in", inner))


@cache
def dying_answered() -> Any:
    """The process dies after an answer was given, before its superstep is complete."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        answer = ctx.interrupt("how?")
        await ctx.effect("look", _looked, "look")
        await world.dies()
        return {"notes": [answer]}

    return fan("dying-answered", ("p", note("p")), ("q", node))


@cache
def dying_retry() -> Any:
    """The process dies in the second attempt."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        await ctx.effect("look", _looked, "look")
        if ctx.attempt == 1:
            raise ConnectionError("not yet")
        await world.dies()
        return {"notes": [ctx.attempt]}

    retry = RetryPolicy(3, wait_initial_s=0)
    return line("dying-retry", ("a", note("a")), ("q", node), ("b", note("b")), q={"retry": retry})


@cache
def dying_after() -> Any:
    """The process dies while the outcome of a node waits to be seen."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        await world.dies()
        return {"notes": ["q"]}

    async def first(state: Any) -> Any:
        return {"notes": [world.count("p")]}

    return fan("dying-after", ("p", first), ("q", node), p={"interrupt_after": True})


@cache
def dying_bulky() -> Any:
    """Large values wait beside the journal when the process dies."""

    async def one(state: Any) -> Any:
        return {"notes": [large(world.count("one"))]}

    async def other(state: Any, ctx: Context) -> Any:
        world.count("other")
        found = await ctx.effect("fetch", _fetched)
        await world.dies()
        return {"notes": [found[:8]]}

    return fan("dying-bulky", ("one", one), ("other", other))


async def _fetched() -> str:
    world.count("fetch")
    await asyncio.sleep(0)
    return large("one")


@cache
def plain() -> Any:
    return line("plain", ("a", note("a")), ("b", note("b")), ("c", note("c")))


@cache
def travels() -> Any:
    """Commands, sends, joins, a nested graph and a retry in one run that ends."""

    def shaky(state: Any, ctx: Context) -> Any:
        world.count("shaky")
        if ctx.attempt == 1:
            raise ConnectionError("not yet")
        return {"notes": ["shaky"]}

    def begin(state: Any) -> Any:
        return Command(update={"notes": [world.count("begin")], "n": 1}, goto=[Send("visit", n) for n in (1, 2)])

    def visit(state: Any, ctx: Context) -> Any:
        world.count("visit")
        return {"notes": [ctx.effect("visit", lambda: f"visit {ctx.arg}")], "n": ctx.arg}

    g = builder("travels")
    g.add_node("begin", begin, goto=["visit"])
    g.add_node("visit", visit)
    g.add_node("shaky", shaky, retry=RetryPolicy(2, wait_initial_s=0))
    g.add_node("in", line("inside", ("in1", note("in1")), ("in2", note("in2"))))
    g.add_node("meet", note("meet"))
    g.add_edge(START, "begin").add_edge("visit", "shaky").add_edge("visit", "in")
    g.add_join(["shaky", "in"], "meet")
    g.add_edge("meet", END)
    return g.compile()


@cache
def values() -> Any:
    """A value of every kind that can be stored."""

    def node(state: Any) -> Any:
        world.count("fill")
        return {
            "values": EVERY_KIND,
            "verdict": Verdict(ok=True, why="because"),
            "point": Point(1, 2),
            "colour": Colour.BLUE,
            "seen": ["b", "a", "b"],
            "table": {"k": Point(3)},
        }

    return line("values", ("fill", node), ("asks", ask("asks")), ("b", note("b")), state=Typed)


@cache
def lengthy() -> Any:
    """More supersteps than snapshots are apart."""
    g = builder("lengthy", State)
    g.add_node("round", lambda state: {"n": 1, "notes": [state["n"]]}, max_visits=None)
    g.add_node("asks", ask("asks"))
    g.add_edge(START, "round")
    g.add_conditional_edges("round", lambda state: state["n"] < 150, {True: "round", False: "asks"})
    g.add_edge("asks", END)
    return g.compile()


@cache
def grows() -> Any:
    """Each run adds a large value, so that earlier ones are no longer those of the newest entries."""
    return line("grows", ("a", lambda state: {"x": large(world.count("a") + str(len(state["notes"]))), "notes": ["a"]}))
