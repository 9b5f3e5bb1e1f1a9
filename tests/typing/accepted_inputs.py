"""Inputs of runs: a whole state, what `input=` declares, an update of a TypedDict, or any mapping of a model's fields."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict, assert_type

from pydantic import BaseModel

from graphrt import CompiledGraph, GraphBuilder, Runtime
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


# Where a graph is taken without its input, any mapping is: for what comes from outside.
def serve(graph: CompiledGraph[Chat, Turn], runtime: Runtime[Chat], body: dict[str, Any]) -> None:
    graph.run(body)
    runtime.run(body)


serve(turns, Runtime(chat), {"chat": ["hello"]})


def any_graph(graph: CompiledGraph[Any, Any]) -> None: ...


any_graph(asked)
any_graph(turns)
