"""A graph whose state holds a value of every storable kind; imported by two processes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
import uuid
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pydantic

from graphrt import END, START, CompiledGraph, Context, GraphBuilder
from graphrt.reducers import append
from graphrt.stores import register_type


class Level(enum.Enum):
    LOW = 1
    HIGH = "high"


class Flag(enum.Flag):
    A = 1
    B = 2


class Address(pydantic.BaseModel):
    street: str
    zip_code: str

    @pydantic.field_validator("zip_code")
    @classmethod
    def digits(cls, value: str) -> str:
        if not value.isdigit():
            raise ValueError("digits only")
        return value.zfill(5)


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    tags: tuple[str, ...] = ()


class Pair(NamedTuple):
    left: int
    right: str


class Money:
    """A user class that is registered with the codec below."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None

    def __repr__(self) -> str:
        return f"Money({self.cents})"


register_type(Money, tag="tests.money", encode=lambda money: money.cents, decode=Money)

UTC = dt.UTC
VALUES: dict[str, Any] = {
    "a_bool": True,
    "a_none": None,
    "an_int": 2**70,
    "a_float": 0.1,
    "text": "zażółć 🦆 \u0000",
    "raw": bytes(range(256)),
    "moment": dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC),
    "naive": dt.datetime(1999, 12, 31, 23, 59, 59),  # noqa: DTZ001 - without a zone on purpose
    "day": dt.date(2024, 2, 29),
    "hour": dt.time(23, 59, 59, 1),
    "span": dt.timedelta(days=-1, microseconds=1),
    "price": Decimal("1.10"),
    "ident": uuid.UUID(int=7),
    "path": pathlib.PurePosixPath("/tmp/x y"),
    "level": Level.HIGH,
    "flag": Flag.A | Flag.B,
    "group": {3, 1, 2},
    "frozen": frozenset({"a", "b"}),
    "tup": (1, ("two", 3.0), [4]),
    "pair": Pair(1, "r"),
    "home": Address(street="Main", zip_code="123"),
    "point": Point(1.5, ("t",)),
    "money": Money(150),
    "nested": {"list": [{"deep": (Decimal(1), {1, 2})}], "odd key $t": {"$t": "not a tag"}},
    "by_number": {1: "one", 2: "two"},
}


class State(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    a_bool: bool = False
    a_none: None = None
    an_int: int = 0
    a_float: float = 0.0
    text: str = ""
    raw: Any = b""
    moment: dt.datetime | None = None
    naive: dt.datetime | None = None
    day: dt.date | None = None
    hour: dt.time | None = None
    span: dt.timedelta | None = None
    price: Decimal = Decimal(0)
    ident: uuid.UUID | None = None
    path: pathlib.PurePosixPath | None = None
    level: Level = Level.LOW
    flag: Flag = Flag.A
    group: set[int] = set()
    frozen: frozenset[str] = frozenset()
    tup: Any = None
    pair: Pair | None = None
    home: Address | None = None
    point: Point | None = None
    money: Money | None = None
    nested: Any = None
    by_number: dict[int, str] = {}
    seen: Annotated[list[str], append] = []


INPUT: dict[str, Any] = {name: value for name, value in VALUES.items() if name < "m"}
"""Half of them come with the input, the rest from a node."""


def rest(state: State) -> dict[str, Any]:
    return {name: value for name, value in VALUES.items() if name not in INPUT}


def gate(state: State, ctx: Context) -> dict[str, Any]:
    ctx.interrupt(VALUES["nested"])
    return {"seen": sorted(name for name in VALUES if getattr(state, name) == VALUES[name])}


def graph() -> CompiledGraph[Any, Any]:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="values")
    g.add_node("rest", rest)
    g.add_node("gate", gate)
    g.add_edge(START, "rest")
    g.add_edge("rest", "gate")
    g.add_edge("gate", END)
    return g.compile()
