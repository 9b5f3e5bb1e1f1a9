"""Shared parts of the tests of findings: a small state, nodes and routers of every kind, the text of a finding."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import START, DefinitionError, GraphBuilder
from graphrt.errors import Problem
from graphrt.reducers import add, append, untracked


class State(BaseModel):
    text: str = ""
    notes: Annotated[list[str], append] = []


class One(BaseModel):
    total: Annotated[int, lambda current: current] = 0


class Two(BaseModel):
    total: Annotated[int, add, max] = 0


class Untracked(BaseModel):
    client: Annotated[Any, untracked]


class Unknown(TypedDict):
    text: Nowhere  # noqa: F821 - the tested mistake


class Misspelt(TypedDict, total=False):
    txet: str


@dataclasses.dataclass
class Defaults:
    text: str = ""


class Verdict(enum.Enum):
    GOOD = "good"
    POOR = "poor"


def work(state): ...


def lost(state, ctx, extra): ...


def nothing(): ...


def many(state):
    yield {}


def go(state):
    return "a"


async def later(state):
    return "a"


def three(state, ctx, more):
    return "a"


def gen(state):
    yield "a"


def verdict(state) -> Literal["good", "poor"]:
    return "good"


def enumed(state) -> Verdict:
    return Verdict.GOOD


def flag(state) -> bool:
    return True


def g(*nodes: str, state: Any = State, update: Any = None) -> Any:
    builder: Any = GraphBuilder(state, update, name="g")
    for name in nodes:
        builder.add_node(name, work)
    return builder


def a() -> Any:
    return g("a").set_entry("a")


def ab() -> Any:
    return g("a", "b").add_sequence([START, "a", "b"])


def found(builder: Any, **options: Any) -> tuple[Problem, ...]:
    with pytest.raises(DefinitionError) as caught:
        builder.compile(**options)
    return caught.value.problems


def text(problem: Problem) -> str:
    return re.sub(r"\b(test_findings\w*|planting)\.py:\d+", "HERE", str(problem))


def texts(builder: Any, **options: Any) -> list[str]:
    return [text(problem) for problem in found(builder, **options)]
