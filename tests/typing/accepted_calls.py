"""Inputs of runs: a whole state, the declared `input=`, an update of a TypedDict, or any mapping; and effects."""

from __future__ import annotations

import functools
from typing import Annotated, Any, NotRequired, TypedDict, assert_type

from pydantic import BaseModel

from graphrt import CompiledGraph, Context, GraphBuilder, RunResult, Runtime
from graphrt.reducers import append
from graphrt.testing import record
from graphrt.workers import Worker


class State(BaseModel, frozen=True):
    question: str
    notes: list[str] = []


class Update(TypedDict, total=False):
    notes: list[str]


class Question(TypedDict):
    question: str


class Chat(TypedDict):
    chat: Annotated[list[str], append]
    topic: NotRequired[str]


class Turn(TypedDict, total=False):
    chat: list[str]
    topic: str


def add(state: State, update: int) -> State:
    return state


model = GraphBuilder(State, Update).compile()
model.run({"question": "why?"})
model.run(State(question="why?"))

asked = GraphBuilder(State, Update, input=Question).compile()
asked.run({"question": "why?"})
asked.run(State(question="why?"))
assert_type(asked, CompiledGraph[State, Update, Question])
assert_type(Runtime(asked), Runtime[State, Question])
Runtime(asked).start({"question": "why?"}, thread="t")
record(asked, {"question": "why?"})

chat = GraphBuilder(Chat).compile()
chat.run({"chat": ["hello"]})
chat.run({"chat": ["hello"], "topic": "tea"})
turns = GraphBuilder(Chat, Turn).compile()
turns.run({"topic": "tea"})
turns.stream({"chat": []}, modes="values")
assert_type(turns, CompiledGraph[Chat, Turn, Chat | Turn])
GraphBuilder.overwrite(Chat).compile().run({"chat": []})

numbers = GraphBuilder(State, int, reducer=add).compile()
numbers.run({"question": "why?"})
Runtime(numbers).run(3, thread="t")
Worker(Runtime(numbers))


# A parameter of type graph without its input accepts any mapping, for data from outside.
def serve(graph: CompiledGraph[Chat, Turn], runtime: Runtime[Chat], body: dict[str, Any]) -> None:
    graph.run(body)
    runtime.run(body)


serve(turns, Runtime(chat), {"chat": ["hello"]})


def any_graph(graph: CompiledGraph[Any, Any]) -> None: ...
def without_types(builder: GraphBuilder, graph: CompiledGraph, runtime: Runtime, result: RunResult) -> None: ...


any_graph(asked)
any_graph(turns)


# --- Effects


def price(item: str, currency: str = "EUR") -> float:
    return 1.0


async def order(item: str, count: int) -> int:
    return count


class Shop:
    def sell(self, *items: str) -> list[str]:
        return [*items]


async def effects(ctx: Context, shop: Shop) -> None:
    assert_type(ctx.effect("e", lambda: 1), int)
    assert_type(ctx.effect("e", lambda v: v + 1, 2), int)
    assert_type(ctx.effect("e", price, "tea"), float)
    assert_type(ctx.effect("e", price, "tea", "USD", key="a", kind="once"), float)
    assert_type(await ctx.effect("e", order, "tea", 2), int)
    assert_type(ctx.effect("e", shop.sell, "tea", "milk"), list[str])
    assert_type(ctx.effect("e", functools.partial(price, "tea"), "USD"), float)
    assert_type(ctx.effect("e", len, "tea"), int)
    assert_type(ctx.effect("e", dict[str, int]), dict[str, int])
