"""The graph: one node that reads the log, and one for a failed search."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder
from graphrt.nodes import RecursiveLimits, recursive

MODEL = "openai/gpt-5"
LIMITS = RecursiveLimits(calls=600, depth=0)
"""At most 600 model calls. `LIMITS.bound()` computes their maximal cost."""


class State(BaseModel):
    """The state has the log's path: the log itself is mapped into memory, and stored nowhere."""

    log: Path
    question: str
    answer: str = ""


class Update(TypedDict, total=False):
    """The fields that nodes write."""

    answer: str


g = GraphBuilder(State, Update, name="long-context")
g.add_node(
    "read",
    recursive(State, "{question}", context="log", into="answer", model=MODEL, limits=LIMITS),
    on_error="give_up",
)


@g.node
def give_up(state: State, ctx: Context) -> Update:
    return {"answer": f"No answer to {state.question!r}: {ctx.error}"}


g.add_edge(START, "read")
g.add_edge("read", END)
g.add_edge(give_up, END)
graph = g.compile()
