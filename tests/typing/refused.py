"""Mistakes that both checkers notice. An ignore that is no longer needed means that one of them stopped."""

from __future__ import annotations

from typing import Literal, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, Send


class State(BaseModel):
    question: str
    calls: int = 0


class Update(TypedDict, total=False):
    calls: int
    question: str


class Other(BaseModel):
    name: str


g = GraphBuilder(State, Update)


# --- What a node takes and returns


def misspelt(state: State) -> Update:
    return {"cals": 1}  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportReturnType]


def wrong_value(state: State) -> Update:
    return {"calls": "one"}  # type: ignore[typeddict-item]  # pyright: ignore[reportReturnType]


def wrong_attribute(state: State) -> Update:
    return {"question": state.qestion}  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def takes_another_state(state: Other) -> Update:
    return {"question": state.name}


def takes_too_much(state: State, ctx: Context, more: int) -> Update:
    return {"calls": more}


def returns_a_number(state: State) -> int:
    return state.calls


async def returns_text(state: State) -> str:
    return state.question


def misspelt_command(state: State) -> Command[Update]:
    return Command(update={"cals": 1}, goto=END)  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


g.add_node("a", takes_another_state)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("b", takes_too_much)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("c", returns_a_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("d", returns_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("e", lambda state: {"calls": state.qestion})  # type: ignore[arg-type, attr-defined, return-value]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
g.add_node("f", lambda state: 42)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(takes_another_state)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(returns_a_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(returns_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


# --- Where edges may lead

g.add_edge("a", START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(END, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(1, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge("a", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_join(["a", END], "b")  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
Send(1, "argument")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- Labels and targets


def verdict(state: State) -> Literal["good", "poor"]:
    return "good" if state.calls else "poor"


def takes_nothing() -> str:
    return "good"


g.branch("a", verdict).to({"good": "a", "por": END})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.branch("a", verdict).to({"good": "a", "poor": START})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.add_conditional_edges("a", takes_nothing, {"good": "a"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_conditional_edges("a", verdict, {"good": START})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]


# --- What a run takes and gives

graph = g.compile()
graph.run(Other(name="?"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.run("why?")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
number: int = graph.run(State(question="why?")).state  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
graph.run(State(question="why?")).state.qestion  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
