"""Customer support: a chat with tools; a tool that changes a booking runs only after the approval of the customer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.reducers import append


class State(BaseModel):
    asked: str
    call: Literal["none", "look_up", "cancel"] = "none"
    flight: str = ""
    agreed: bool = False
    cancelled: bool = False
    said: Annotated[list[str], append] = []


def assist(state: State) -> dict[str, Any]:
    if not state.flight:
        return {"call": "look_up"}
    return {"call": "cancel" if "cancel" in state.asked and not state.said else "none"}


def look_up(_state: State) -> dict[str, Any]:
    return {"flight": "LX 12"}


def confirm(state: State, ctx: Context) -> dict[str, Any]:
    agreed = ctx.interrupt(f"Cancel {state.flight}?", key="cancel", answer_type=bool)
    return {"agreed": agreed, "said": [] if agreed else ["Nothing was changed."]}


def cancel(state: State) -> dict[str, Any]:
    return {"cancelled": True, "said": [f"{state.flight} is cancelled."]}


def close(state: State) -> dict[str, Any]:
    return {"said": [] if state.said else [f"Your flight is {state.flight or 'unknown'}."]}


def next_call(state: State) -> Literal["safe", "sensitive", "none"]:
    return "none" if state.call == "none" else "sensitive" if state.call == "cancel" else "safe"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="customer-support")
    g.add_node("assist", assist, max_visits=4, on_fatigue="close")
    for node in (look_up, confirm, cancel, close):
        g.add_node(node.__name__, node)
    g.add_edge(START, "assist")
    g.add_conditional_edges("assist", next_call, {"safe": "look_up", "sensitive": "confirm", "none": "close"})
    g.add_edge("look_up", "assist")
    g.add_conditional_edges("confirm", lambda state: state.agreed, {True: "cancel", False: "assist"})
    g.add_edge("cancel", "assist")
    g.add_edge("close", END)
    return g.compile()


EXAMPLE = Example(
    name="customer-support",
    graph=graph,
    input={"asked": "cancel my flight"},
    answers=(True,),
    alternatives={"assist": [{"call": "none"}, {"call": "look_up"}, {"call": "cancel"}]},
    possible=(True, False),
)
