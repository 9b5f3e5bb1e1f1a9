"""One task for each chapter, side by side, and a summary of all of them.

Run it with `python -m examples.map_reduce`. Two branches run in parallel and meet in a join.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Send
from graphrt.reducers import add, append, max

TEXT = {"Dawn": "The sun rises slowly", "Noon": "It is hot", "Dusk": "The light fades and the lamps are lit"}


class State(BaseModel):
    """Reducers fold what the tasks write, in the order in which they were sent, whoever is done first."""

    chapters: dict[str, str]
    lines: Annotated[list[str], append] = []
    words: Annotated[int, add] = 0
    longest: Annotated[int, max] = 0
    title: str = ""
    summary: str = ""


class Update(TypedDict, total=False):
    """What a node may write."""

    lines: list[str]
    words: int
    longest: int
    title: str
    summary: str


g = GraphBuilder(State, Update, name="map-reduce")
g.add_node("split", lambda state: None)  # changes nothing; where the two branches begin


@g.node
def read(state: State, ctx: Context) -> Update:
    words = len(state.chapters[ctx.arg].split())
    return {"lines": [f"{ctx.arg}: {words} words"], "words": words, "longest": words}


@g.node
def name(state: State) -> Update:
    return {"title": " to ".join([min(state.chapters), next(reversed(state.chapters))])}


@g.node
def summarise(state: State) -> Update:
    return {"summary": f"{state.title}: {state.words} words, at most {state.longest} in a chapter"}


def each_chapter(state: State) -> list[Send]:
    return [Send(read, chapter) for chapter in state.chapters]


g.add_edge(START, "split")
