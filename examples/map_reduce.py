"""One task for each chapter, in parallel, and a join that waits for them and for the title.

Run it with `python -m examples.map_reduce`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

from graphrt import END, Context, GraphBuilder, Send, reducers

BOOK = "A day\nDawn: the sun rises\nNoon: it is hot\nDusk: the light fades and lamps are lit"


class State(BaseModel):
    """Reducers fold the writes of tasks in the order in which they were sent, regardless of speed."""

    book: str
    title: str = ""
    lines: Annotated[list[str], reducers.append] = []
    words: Annotated[int, reducers.add] = 0
    longest: Annotated[int, reducers.max] = 0
    summary: str = ""


g = GraphBuilder(State, name="map-reduce")


@g.node
def entitle(state: State) -> dict[str, str]:
    return {"title": state.book.splitlines()[0]}


@g.node
def read(_state: State, ctx: Context) -> dict[str, object]:
    name, _, text = ctx.arg.partition(": ")
    count = len(text.split())
    return {"lines": [f"{name} {count}"], "words": count, "longest": count}


@g.node
def summarise(state: State) -> dict[str, object]:
    return {"summary": f"{state.title}: {', '.join(state.lines)}; {state.words} words, at most {state.longest}"}


def begin(state: State) -> list[Send | str]:
    return ["entitle", *(Send(read, chapter) for chapter in state.book.splitlines()[1:])]


g.set_conditional_entry(begin, [entitle, read])
g.add_join([entitle, read], summarise, starved="run")  # a book without chapters has a summary too
g.add_edge(summarise, END)
graph = g.compile()

if __name__ == "__main__":
    print(graph.run({"book": BOOK}).state.summary)
