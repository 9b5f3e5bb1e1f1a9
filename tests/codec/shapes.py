"""Classes for the tests of the codec, and their comparison: same value, same type, all the way down."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections import deque
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, RootModel, field_validator

from graphrt.commands import Replacement, Send

T = TypeVar("T")


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"
    CRIMSON = "r"  # noqa: PIE796 - an alias of RED is tested


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


@dataclasses.dataclass
class Note:
    text: str
    tags: set[str] = dataclasses.field(default_factory=set)
    made: int = dataclasses.field(init=False)
    """Neither an argument nor a field with a default: it may have no value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any = 0


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Model(BaseModel):
    x: Any
    y: Any = 5


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    x: Any = None
    _seen: Any = PrivateAttr(default=0)
    _late: Any = PrivateAttr()


class Picky(BaseModel):
    """Its validator changes its input: a model that is validated twice differs."""

    text: str

    @field_validator("text")
    @classmethod
    def _louder(cls, text: str) -> str:
        return text + "!"

    @functools.cached_property
    def size(self) -> int:
        return len(self.text)


class Box(BaseModel, Generic[T]):
    value: T


class Numbers(RootModel[list[Any]]):
    pass


ALL = (Color, Level, Rights, Note, Point, Pair, Model, Open, Picky, Box[int], Numbers)


def same(one: Any, other: Any) -> bool:  # noqa: C901, PLR0911 - a rule per kind
    """Whether the two are equal with equal types, in the same order, all the way down; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, Decimal):
        return one.as_tuple() == other.as_tuple()
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, (list, tuple, deque)):
        most = [(x.maxlen if isinstance(x, deque) else None) for x in (one, other)]
        return most[0] == most[1] and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, BaseModel):
        private = [getattr(x, "__pydantic_private__", None) for x in (one, other)]
        return (
            same(one.__dict__, other.__dict__)
            and one.model_fields_set == other.model_fields_set
            and same(one.model_extra, other.model_extra)
            and same(*private)
        )
    if dataclasses.is_dataclass(one):
        missing = object()
        values = [[getattr(x, field.name, missing) for field in dataclasses.fields(x)] for x in (one, other)]
        return all(a is b or same(a, b) for a, b in zip(*values, strict=True))
    if isinstance(one, Send):
        return one.node == other.node and same(one.arg, other.arg)
    if isinstance(one, Replacement):
        return same(one.value, other.value)
    if hasattr(one, "fold"):
        return (one, one.fold, repr(one.tzinfo)) == (other, other.fold, repr(other.tzinfo))
    return bool(one == other) and repr(one) == repr(other)
