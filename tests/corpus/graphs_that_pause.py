"""Graphs of the corpus that ask somebody, in all ways to ask.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from graphrt import END, START, Command, Context, Interrupt, RetryPolicy, Send

from .shapes import Colour, Fields, State, Typed, Verdict, ask, ask_once, builder, fails, fan, large, line, note
from .world import world

AROUND = {"interrupt_before": True, "interrupt_after": True}


@cache
def ordinal() -> Any:
    return line("ordinal", ("a", note("a")), ("q", ask("q")), ("b", note("b")))


@cache
def keyed() -> Any:
    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        colour = ctx.interrupt("which colour?", key="colour", answer_type=Colour)
        return {"colour": colour, "notes": [ctx.interrupt("how many?", key="count", answer_type=int)]}

    return line("keyed", ("a", note("a")), ("q", node), ("b", note("b")), state=Typed)


@cache
def typed() -> Any:
    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        return {"verdict": ctx.interrupt("good?", answer_type=Verdict)}

    return line("typed", ("q", node), ("b", note("b")), state=Typed)


@cache
def expiring() -> Any:
    return line("expiring", ("a", note("a")), ("q", ask("q", expires_s=3_600)), ("b", note("b")))


@cache
def returned() -> Any:
    return line("returned", ("q", ask_once("q", answer_type=bool)), ("b", note("b")))


@cache
def returned_again() -> Any:
    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        if ctx.answer is None:
            return Interrupt("first?")
        return Interrupt("second?") if ctx.answer == "ask again" else {"notes": [ctx.answer]}

    return line("returned-again", ("q", node), ("b", note("b")))


@cache
def several() -> Any:
    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        sent = ctx.effect("send", lambda: world.count("send"))
        one = ctx.interrupt("one?")
        ctx.effect("between", lambda: world.count("between"), kind="once")
        return {"notes": [sent, one, ctx.interrupt("two?"), ctx.interrupt("three?")]}

    return line("several", ("q", node), ("b", note("b")))


@cache
def before() -> Any:
    return line("before", ("a", note("a")), ("q", note("q")), ("b", note("b")), q={"interrupt_before": True})


@cache
def after() -> Any:
    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        return {"notes": [ctx.effect("look", lambda: world.count("look"))], "x": "from q"}

    return line("after", ("a", note("a")), ("q", node), ("b", note("b")), q={"interrupt_after": True})


@cache
def after_last() -> Any:
    return line("after-last", ("a", note("a")), ("q", note("q")), q={"interrupt_after": True})


@cache
def after_routed() -> Any:
    g = builder("after-routed")
    g.add_node("q", lambda state: {"notes": [world.count("q")], "n": 2}, interrupt_after=True)
    g.add_node("few", note("few"))
    g.add_node("many", note("many"))
    g.add_edge(START, "q")
    g.add_conditional_edges("q", lambda state: state["n"] > 1, {True: "many", False: "few"})
    g.add_edge("few", END).add_edge("many", END)
    return g.compile()


@cache
def after_command() -> Any:
    def node(state: Any) -> Any:
        return Command(update={"notes": [world.count("q")]}, goto=[Send("one", 1), Send("one", 2)])

    g = builder("after-command")
    g.add_node("q", node, interrupt_after=True, goto=["one"])
    g.add_node("one", lambda state, ctx: {"notes": [f"{world.count('one')} {ctx.arg}"]})
    g.add_edge(START, "q")
    return g.compile()


@cache
def around() -> Any:
    return line("around", ("a", note("a")), ("q", ask("q")), ("b", note("b")), q=AROUND)


@cache
def after_beside() -> Any:
    """Outcomes that wait for an answer, beside a question and one that is finished."""
    return fan(
        "after-beside", ("p", note("p")), ("q", ask("q")), ("r", note("r")), ("s", note("s")),
        p={"interrupt_after": True}, r={"interrupt_after": True},
    )  # fmt: skip


@cache
def sends() -> Any:
    def one(state: Any, ctx: Context) -> Any:
        world.count("one")
        if ctx.arg["number"] >= 2:
            return {"notes": [ctx.arg["number"]]}
        return {"notes": [f"{ctx.arg['number']}={ctx.interrupt({'number': ctx.arg['number']})}"]}

    g = builder("sends")
    g.add_node("split", note("split"))
    g.add_node("one", one)
    g.add_node("last", note("last"))
    g.add_edge(START, "split")
    g.add_conditional_edges("split", lambda state: [Send("one", {"number": number}) for number in range(4)], ["one"])
    g.add_edge("one", "last").add_edge("last", END)
    return g.compile()


@cache
def after_broken() -> Any:
    """An outcome that a person has to see, beside a node that failed."""
    return fan("after-broken", ("p", note("p")), ("q", fails("q")), p={"interrupt_after": True})


@cache
def inner() -> Any:
    """Commits twice, asks beside a node that finishes, and ends."""
    g = builder("inner")
    for name in ("in1", "in2", "in4"):
        g.add_node(name, note(name))
    g.add_node("in3", ask("in3"))
    g.add_edge(START, "in1").add_edge("in1", "in2").add_edge("in1", "in3")
    g.add_join(["in2", "in3"], "in4")
    g.add_edge("in4", END)
    return g.compile()


@cache
def nested() -> Any:
    return line(
        "nested", ("a", note("a")), ("outer", line("middle", ("m", note("m")), ("in", inner()))), ("b", note("b"))
    )


@cache
def nested_after() -> Any:
    """Pauses after a node inside, and after the nested graph itself."""
    child = line("child", ("c1", note("c1")), ("c2", note("c2")), c1={"interrupt_after": True})
    return line("nested-after", ("in", child), ("b", note("b")), **{"in": {"interrupt_after": True}})


@cache
def nested_after_last() -> Any:
    child = line("child", ("c1", note("c1")), ("c2", note("c2")), c2={"interrupt_after": True})
    return line("nested-after-last", ("in", child), ("b", note("b")))


@cache
def mixed() -> Any:
    """Every kind of question in one superstep."""
    return fan(
        "mixed", ("p", ask("p")), ("q", ask_once("q")), ("r", ask("r", key="r")), ("s", note("s")), ("t", note("t")),
        ("u", inner()), ("v", note("v")), s={"interrupt_before": True}, t={"interrupt_after": True},
    )  # fmt: skip


@cache
def unsure() -> Any:
    """An effect that must not be done twice, and whose outcome is not known."""

    def pay() -> str:
        world.count("pay")
        if world.ran["pay"] == 1 and not world.mended:
            raise ConnectionError("the line is dead")
        return "paid"

    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        ctx.effect("look", lambda: world.count("look"))
        return {"notes": [ctx.effect("pay", pay, kind="once")]}

    return line("unsure", ("q", node), ("b", note("b")))


@cache
def asks_then_fails() -> Any:
    def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        answer = ctx.interrupt("how?")
        world.fault("broken after the answer")
        return {"notes": [answer]}

    return line("asks-then-fails", ("q", node), ("b", note("b")))


@cache
def handled() -> Any:
    """A node that fails, whose handler asks: the exception is kept meanwhile."""

    def handler(state: Any, ctx: Context) -> Any:
        world.count("handler")
        return {"notes": [f"{type(ctx.error).__name__}: {ctx.error}", ctx.interrupt("go on?")]}

    def node(state: Any) -> Any:
        raise ValueError(world.count("bad"))

    g = builder("handled")
    g.add_node("bad", node, on_error="handler", retry=RetryPolicy(2, wait_initial_s=0))
    g.add_node("handler", handler)
    g.add_edge(START, "bad").add_edge("bad", END).add_edge("handler", END)
    return g.compile()


@cache
def loops() -> Any:
    """Asks in the third of four rounds, so that supersteps and visits have been counted."""

    def node(state: Any, ctx: Context) -> Any:
        world.count("round")
        answer = ctx.interrupt("third?") if state["n"] == 2 else ctx.random.randint(0, 10**9)
        return {"n": 1, "notes": [answer]}

    g = builder("loops")
    g.add_node("round", node)
    g.add_edge(START, "round")
    g.add_conditional_edges("round", lambda state: state["n"] < 4, {True: "round", False: END})
    return g.compile()


@cache
def joins(when: Any) -> Any:
    """A join of three: one has arrived long ago, one asks, one is a superstep later."""
    g = builder(f"joins-{when}")
    g.add_node("early", note("early"))
    g.add_node("way", note("way"))
    g.add_node("asks", ask("asks"))
    g.add_node("wait", note("wait"))
    g.add_node("late", note("late"))
    g.add_node("meet", note("meet"))
    g.add_edge(START, "early").add_edge(START, "way")
    g.add_edge("way", "asks").add_edge("asks", "wait").add_edge("wait", "late")
    g.add_join(["early", "asks", "late"], "meet", when=when)
    g.add_edge("meet", END)
    return g.compile()


@cache
def fields() -> Any:
    """Fields that are not kept: `hint` is due to be seen by the node that asks, `cache` is lost with the process."""

    def first(state: Any) -> Any:
        world.count("first")
        return {"hint": "for the next one", "cache": {"not": "storable", "object": object()}}

    def asks(state: Any, ctx: Context) -> Any:
        world.count("asks")
        return {"notes": [state.hint, ctx.interrupt("?"), state.cache is None]}

    def then(state: Any) -> Any:
        world.count("then")
        return {"notes": [state.hint]}

    return line("fields", ("first", first), ("asks", asks), ("then", then), state=Fields)


@cache
def bulky() -> Any:
    """Large values everywhere: in the state, in what waits, in a question, in what a task was sent."""

    def one(state: Any, ctx: Context) -> Any:
        world.count("one")
        if ctx.arg != state["x"]:
            raise AssertionError("the argument is not what was sent")
        return {"notes": [large("one")]}

    def asks(state: Any, ctx: Context) -> Any:
        world.count("asks")
        return {"notes": [ctx.interrupt({"about": large("one")})]}

    g = builder("bulky")
    g.add_node("split", note("split"))
    g.add_node("one", one)
    g.add_node("asks", asks)
    g.add_node("last", lambda state: {"notes": [world.count("last"), len(state["notes"][1])]})
    g.add_edge(START, "split")
    g.add_conditional_edges("split", lambda state: [Send("one", state["x"]), Send("asks", None)], ["one", "asks"])
    g.add_join(["one", "asks"], "last")
    g.add_edge("last", END)
    return g.compile()


@cache
def named(first: str, *more: str) -> Any:
    """Graphs of one name that differ in the names of their nodes: those of one release and those of the next."""
    return line("named", (first, ask("q")), *[(name, note(name)) for name in more], state=State)
