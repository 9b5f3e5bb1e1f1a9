"""Graphs and threads whose logs the tests read."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from graphrt import START, Context, GraphBuilder
from graphrt.reducers import append

KEY = bytes(range(32))
OTHER = bytes(range(60, 92))


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]
    answer: str


def talk(steps: int = 1) -> Any:
    """A graph with that many steps, each of which adds a note."""
    g: Any = GraphBuilder(State, name="talk")
    names = [f"say{number}" for number in range(steps)]
    for name in names:
        g.add_node(name, lambda state: {"notes": [f"note {len(state['notes'])}"]})
    g.add_edge(START, names[0])
    g.add_sequence(names) if steps > 1 else None
    return g.compile()


def ask() -> Any:
    """A graph that writes a note, asks a question, and notes the answer."""

    def question(_: State, ctx: Context) -> Any:
        return {"notes": ["asked"], "answer": ctx.interrupt("May I?")}

    g: Any = GraphBuilder(State, name="ask")
    g.add_node("say", lambda _: {"notes": ["said"]})
    g.add_node("question", question)
    g.add_edge(START, "say").add_edge("say", "question")
    return g.compile()


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def records_in(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines_in(path) if "seal" in line]


def seal_of(line: dict[str, Any]) -> bytes:
    return b64decode(line["seal"])
