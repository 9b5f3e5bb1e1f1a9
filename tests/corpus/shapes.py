"""States of the graphs of the corpus, and the small parts that the graphs are built of.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Annotated, Any
from uuid import UUID

import pydantic
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, Interrupt
from graphrt.reducers import add, append, ephemeral, merge, messages, union, untracked

from .world import world


class State(te.TypedDict, total=False):
    """What most graphs of the corpus have."""

    notes: Annotated[list[Any], append]
    n: Annotated[int, add]
    x: Any


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Verdict(pydantic.BaseModel):
    ok: bool
    why: str = ""


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Typed(te.TypedDict, total=False):
    """A state that declares classes of users."""

    notes: Annotated[list[Any], append]
    n: Annotated[int, add]
    verdict: Verdict | None
    point: Point
    colour: Colour
    seen: Annotated[list[Any], union]
    table: Annotated[dict[str, Any], merge]
    values: dict[str, Any]


class Fields(pydantic.BaseModel):
    """A state with fields that are not kept."""

    notes: Annotated[list[Any], append] = []
    hint: Annotated[str, ephemeral] = "none"
    cache: Annotated[Any, untracked] = None


class Talk(pydantic.BaseModel):
    """A state of an agent's node."""

    notes: Annotated[list[Any], append] = []
    talk: Annotated[list[Any], messages] = []


class Thrifty(pydantic.BaseModel):
    """A state that holds a budget itself."""

    token_budget: int = 1_000
    notes: Annotated[list[Any], append] = []


def builder(name: str, state: Any = State) -> GraphBuilder[Any, Any]:
    made: GraphBuilder[Any, Any] = GraphBuilder(state, name=name)
    return made


def line(name: str, *nodes: tuple[str, Any], state: Any = State, **policies: Any) -> Any:
    """START, the nodes one after another, END."""
    g = builder(name, state)
    for node, fn in nodes:
        g.add_node(node, fn, **policies.get(node, {}))
    for src, dst in zip([START, *[node for node, _ in nodes]], [*[node for node, _ in nodes], END], strict=True):
        g.add_edge(src, dst)
    return g.compile()


def fan(name: str, *nodes: tuple[str, Any], state: Any = State, **policies: Any) -> Any:
    """START to `split`, to all nodes at once, and a join of all of them into `last`."""
    g = builder(name, state)
    g.add_node("split", note("split"))
    g.add_edge(START, "split")
    for node, fn in nodes:
        g.add_node(node, fn, **policies.get(node, {}))
        g.add_edge("split", node)
    g.add_node("last", note("last"))
    g.add_join([node for node, _ in nodes], "last")
    g.add_edge("last", END)
    return g.compile()


def note(text: str) -> Callable[[Any], dict[str, Any]]:
    """A node that notes *text*."""

    def node(state: Any) -> dict[str, Any]:
        return {"notes": [world.count(text)]}

    return node


def ask(text: str, **options: Any) -> Callable[..., Any]:
    """A node that asks, and notes the answer."""

    def node(state: Any, ctx: Context) -> Any:
        world.count(text)
        return {"notes": [f"{text}={ctx.interrupt({'q': text}, **options)}"]}

    return node


def ask_once(text: str, **options: Any) -> Callable[..., Any]:
    """A node that returns an Interrupt, and notes its answer."""

    def node(state: Any, ctx: Context) -> Any:
        world.count(text)
        return Interrupt({"q": text}, **options) if ctx.answer is None else {"notes": [f"{text}={ctx.answer}"]}

    return node


def fails(text: str) -> Callable[[Any], dict[str, Any]]:
    """A node that fails until the faults are repaired."""

    def node(state: Any) -> dict[str, Any]:
        world.count(text)
        world.fault(f"{text} is broken")
        return {"notes": [text]}

    return node


def large(text: str, size: int = 66_000) -> str:
    """A text of *size* characters, more than 64 KiB: large values are stored beside the journal."""
    line = f"{hashlib.sha256(text.encode()).hexdigest()} {text}\n"
    return (line * (size // len(line) + 1))[:size]


EVERY_KIND: dict[str, Any] = {
    "tuple": (1, ("a", None)),
    "set": {3, 1, 2},
    "frozen": frozenset({"a"}),
    "bytes": b"\x00\xff",
    "by-number": {1: "a", (2, 3): "b"},
    "decimal": Decimal("1.50"),
    "fraction": Fraction(1, 3),
    "uuid": UUID(int=7),
    "path": PurePosixPath("a/b"),
    "date": dt.date(2024, 2, 29),
    "aware": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    "naive": dt.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - what is kept
    "delta": dt.timedelta(days=1, seconds=2),
    "infinite": float("-inf"),
    "huge": 2**200,
    "complex": 1 + 2j,
    "text": "größe \u2028 \U0001f600",
    "nested": [[], {}, [None, True, 1.5]],
}
