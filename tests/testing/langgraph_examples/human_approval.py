"""Human in the loop: a person reads a draft and sends it, edits it or requests another one, three times at most."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph


class Review(BaseModel):
    do: Literal["send", "edit", "again"]
    text: str = ""


class State(BaseModel):
    topic: str
    draft: str = ""
    version: int = 0
    review: Review | None = None
    sent: str = ""


def write(state: State) -> dict[str, Any]:
    return {"version": state.version + 1, "draft": f"{state.topic}, version {state.version + 1}"}


def ask(state: State, ctx: Context) -> dict[str, Any]:
    return {"review": ctx.interrupt({"draft": state.draft}, key="review", answer_type=Review)}


def edit(state: State) -> dict[str, Any]:
    return {"draft": state.review.text if state.review else state.draft}


def send(state: State) -> dict[str, Any]:
    return {"sent": state.draft}


def decided(state: State) -> Literal["send", "edit", "again"]:
    if state.review is None:
        return "send"
    return "send" if state.review.do == "again" and state.version >= 3 else state.review.do


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="human-approval")
    for node in (write, ask, edit, send):
        g.add_node(node.__name__, node)
    g.add_sequence([START, "write", "ask"])
    g.add_conditional_edges("ask", decided, {"send": "send", "edit": "edit", "again": "write"})
    g.add_sequence(["edit", "send", END])
    return g.compile()


EXAMPLE = Example(
    name="human-approval",
    graph=graph,
    input={"topic": "tea"},
    answers=({"do": "again"}, {"do": "edit", "text": "Tea."}),
    possible=({"do": "send"}, {"do": "edit", "text": "Better."}, {"do": "again"}),
)
