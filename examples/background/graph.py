"""The graph of the service: chapters of a report, one after another, and a person who approves it."""

from __future__ import annotations

import os
import time
from typing import Annotated

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.reducers import append

STORE = os.environ.get("REPORTS_STORE", "sqlite:///reports.db")
CHAPTER_S = float(os.environ.get("REPORTS_CHAPTER_S", "1.0"))
"""Seconds for a chapter, which a model would write here."""


class State(BaseModel):
    """A report in progress."""

    topic: str
    chapters: Annotated[list[str], append] = []
    wanted: int = 5
    approved: bool | None = None


g = GraphBuilder(State, name="report")


@g.node
def write(state: State) -> dict[str, list[str]]:
    time.sleep(CHAPTER_S)
    return {"chapters": [f"{state.topic}, chapter {len(state.chapters) + 1}"]}


@g.node
def approve(state: State, ctx: Context) -> dict[str, bool]:
    return {"approved": ctx.interrupt({"chapters": len(state.chapters)}, key="approve", answer_type=bool)}


g.add_edge(START, write)
g.add_conditional_edges(write, lambda state: len(state.chapters) < state.wanted, {True: write, False: approve})
g.add_edge(approve, END)
graph = g.compile()


def runtime() -> Runtime[State]:
    """Return a runtime on the shared database, with a short lease, because chapters are short."""
    return Runtime(graph, store=STORE, lease_s=10)
