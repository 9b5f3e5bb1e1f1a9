"""A graph whose threads have entries of many kinds: Sends, a join, retries, effects, a nested graph, two questions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel
from typing_extensions import TypedDict

from graphrt import END, START, Command, GraphBuilder, Interrupt, RetryPolicy, Send
from graphrt.reducers import add, append, merge


class Stop(BaseModel):
    """A stop of the voyage."""

    name: str
    at: dt.datetime
    fee: Decimal


class Inner(TypedDict, total=False):
    notes: Annotated[list[Any], append]


class State(TypedDict, total=False):
    notes: Annotated[list[Any], append]
    count: Annotated[int, add]
    table: Annotated[dict[str, Any], merge]
    last: Stop


tries: dict[str, int] = {}


def inner() -> Any:
    g = GraphBuilder(Inner, name="inner")
    g.add_node("look", lambda _: {"notes": ["looked"]})
    g.add_node("ask", lambda _, ctx: {"notes": [ctx.interrupt("which way?", answer_type=str)]})
    g.add_edge(START, "look").add_edge("look", "ask").add_edge("ask", END)
    return g.compile()


def begin(_: State) -> dict[str, Any]:
    stop = Stop(name="Oslo", at=dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), fee=Decimal("1.50"))
    return {"count": 1, "last": stop, "table": {"a": (1, 2), "b": b"\x00\xff"}}


def visit(_: State, ctx: Any) -> dict[str, Any]:
    return {"notes": [ctx.effect("visit", lambda: f"visited {ctx.arg}", kind="once")], "count": 1}


def shaky(_: State, ctx: Any) -> dict[str, Any]:
    if ctx.attempt == 1:
        raise ConnectionError("not yet")
    return {"notes": ["steady"]}


def gate(state: State, ctx: Any) -> Any:
    if ctx.answer is None:
        return Interrupt({"seen": len(state["notes"])}, answer_type=bool)
    return Command(update={"notes": [f"gate {ctx.answer}"]}, goto="close")


def close(state: State) -> dict[str, Any]:
    if "break" in state.get("table", {}):
        raise ValueError("broken on purpose")
    return {"notes": ["closed"]}


def graph() -> Any:
    g = GraphBuilder(State, name="voyage")
    g.add_node("begin", begin)
    g.add_node("visit", visit)
    g.add_node("shaky", shaky, retry=RetryPolicy(2, wait_initial_s=0))
    g.add_node("nest", inner())
    g.add_node("meet", lambda _: {"notes": ["met"]})
    g.add_node("gate", gate, goto=["close"])
    g.add_node("close", close)
    g.add_edge(START, "begin")
    g.add_conditional_edges("begin", lambda _: [Send("visit", n) for n in range(3)], ["visit"])
    g.add_edge("visit", "shaky").add_edge("visit", "nest")
    g.add_join(["shaky", "nest"], "meet")
    g.add_edge("meet", "gate").add_edge("close", END)
    return g.compile()


NOTES = ["visited 0", "visited 1", "visited 2", "steady", "looked", "left", "met", "gate True", "closed"]
