"""Every reducer with every kind of value that the documentation names: with `reduced()`, and called."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, assert_type

from pydantic import BaseModel

from graphrt.harness import Message
from graphrt.reducers import (
    add,
    append,
    ephemeral,
    first,
    max,  # noqa: A004 - the reducer
    merge,
    messages,
    min,  # noqa: A004 - the reducer
    overwrite,
    redacted,
    reduced,
    union,
    untracked,
)


class Item(BaseModel, frozen=True):
    name: str = ""


def newest(current: set[str], incoming: set[str]) -> set[str]:
    return current | incoming


def _no_words() -> tuple[str, ...]:
    return ()


def _point() -> tuple[int, int]:
    return 0, 0


@dataclass
class Everything:
    last: str = reduced(overwrite, default="")
    last_or_none: Item | None = reduced(overwrite, default=None)
    last_mapping: dict[str, Any] = reduced(overwrite, default_factory=dict)

    notes: list[str] = reduced(append, default_factory=list)
    noted: tuple[str, ...] = reduced(append, default=())
    noted_later: tuple[str, ...] = reduced(append, default_factory=tuple)
    no_words: tuple[str, ...] = reduced(append, default_factory=_no_words)
    items: list[Item] = reduced(append, default_factory=list)
    anything: list[Any] = reduced(append, default_factory=list)
    objects: list[dict[str, Any]] = reduced(append, ephemeral, default_factory=list)
    notes_or_none: list[str] | None = reduced(append, default=None)

    count: int = reduced(add, default=0)
    total: float = reduced(add, default=0.0)
    price: Decimal = reduced(add, default=Decimal(0))
    spent: timedelta = reduced(add, default=timedelta())
    text: str = reduced(add, default="")
    body: bytes = reduced(add, default=b"")
    sums: list[int] = reduced(add, default_factory=list)
    pair: tuple[int, int] = reduced(add, default_factory=_point)
    count_or_none: int | None = reduced(add, default=None)

    words: list[str] = reduced(union, default_factory=list)
    tags: set[str] = reduced(union, default_factory=set)
    frozen: frozenset[str] = reduced(union, default_factory=frozenset)
    frozen_now: frozenset[str] = reduced(union, default=frozenset())
    numbers: set[int] = reduced(union, untracked, default_factory=set)
    distinct: tuple[str, ...] = reduced(union, default_factory=tuple)
    distinct_now: tuple[str, ...] = reduced(union, default=())
    tags_or_none: set[str] | None = reduced(union, default=None)
    found: list[Item] = reduced(union, default_factory=list)

    scores: dict[str, int] = reduced(merge, default_factory=dict)
    settings: dict[str, Any] = reduced(merge, default_factory=dict)
    by_number: dict[int, list[str]] = reduced(merge, default_factory=dict)
    scores_or_none: dict[str, int] | None = reduced(merge, default=None)

    best: int | None = reduced(max, default=None)
    worst: float = reduced(min, default=0.0)
    latest: date | None = reduced(max, default=None)
    name: str | None = reduced(first, default=None)
    opener: str = reduced(first, redacted, default="")

    chat: list[Message] = reduced(messages, default_factory=list)
    plain_chat: list[dict[str, str]] = reduced(messages, default_factory=list)

    own: set[str] = reduced(newest, default_factory=set)


class Model(BaseModel):
    notes: list[str] = reduced(append, default_factory=list)
    tags: set[str] = reduced(union, default_factory=set)
    frozen: frozenset[str] = reduced(union, default_factory=frozenset)
    best: int | None = reduced(max, default=None)


assert_type(append(["a"], ["b"]), list[str])
assert_type(append(_no_words(), ["b"]), tuple[str, ...])
assert_type(union(["a"], {"b"}), list[str])
assert_type(union({"a"}, ["b"]), set[str])
assert_type(union(frozenset[str](), ["b"]), frozenset[str])
assert_type(merge({"a": 1}, OrderedDict(b=2)), dict[str, int])
assert_type(messages([{"id": "a"}], [{"id": "b"}]), list[dict[str, str]])
assert_type(max(1, 2), int)
assert_type(first("a", "b"), str)
