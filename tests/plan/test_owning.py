"""Copies that share no container with the value: what a run owns."""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from graphrt import Overwrite
from graphrt._plan.copying import own


@dataclasses.dataclass
class Box:
    content: Any


class Pair(NamedTuple):
    items: list[int]
    n: int


class Inner(BaseModel):
    items: list[int]


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda items: {"a": items},
        lambda items: (items, 1),
        lambda items: [(items,), {"b": [items]}],
        lambda items: Pair(items, 1),
        lambda items: deque([items]),
        lambda items: Inner.model_construct(items=items),
        Box,
        Overwrite,
        lambda items: {"a": Overwrite([items])},
        lambda items: [Inner.model_construct(items=items)],
    ],
)
def test_no_container_is_shared_with_the_copy(make: Any) -> None:
    items = [1]
    value = make(items)

    copied = own(value)
    items.append(2)

    assert copied == make([1])
    assert copied.__class__ is value.__class__


def test_uncopyable_values_are_shared_and_cycles_terminate() -> None:
    import threading

    lock = threading.Lock()
    cycle: list[Any] = [1]
    cycle.append(cycle)
    deep: Any = []
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]

    copied = own(cycle)

    assert own({"lock": lock})["lock"] is lock
    assert copied is not cycle
    assert copied[1] is copied
    assert own(deep) is not None
