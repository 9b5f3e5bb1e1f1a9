"""Random graphs out of blocks, and what a run of one has to end with. No tests.

A kind of block is one function in `BLOCKS`: it adds nodes to the builder and returns its first and its last one. What a
new kind of block (a timer, a signal, a child thread) needs from outside while it runs, the storm does in `attend`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Interrupt, Limits, Runtime, Send
from graphrt.graph import CompiledGraph
from graphrt.reducers import add, append

WIDTH = 4
"""Tasks of a fan-out: also the most that one superstep can repeat."""


class State(BaseModel):
    thread: str = ""
    folder: str = ""
    pause_s: float = 0.0
    log: Annotated[list[str], append] = []
    total: Annotated[int, add] = 0


def note(folder: str, line: str) -> str:
    """What an effect does: leave a line outside."""
    if folder:
        with (Path(folder) / "outside.txt").open("a") as file:
            file.write(f"{line}\n")
    return line


Block = tuple[str, str]
Builder = GraphBuilder[State, Any]


def step(g: Builder, name: str, _chance: random.Random) -> Block:
    def work(state: State) -> dict[str, Any]:
        time.sleep(state.pause_s)
        return {"log": [name], "total": 1}

    g.add_node(name, work)
    return name, name


def effect(g: Builder, name: str, _chance: random.Random) -> Block:
    def work(state: State, ctx: Context) -> dict[str, Any]:
        done = ctx.effect("outside", note, state.folder, f"{state.thread} {name}")
        time.sleep(state.pause_s)
        return {"log": [done.partition(" ")[2]], "total": 1}

    g.add_node(name, work)
    return name, name


def fan(g: Builder, name: str, chance: random.Random) -> Block:
    width = chance.randint(2, WIDTH)
    split, part, gather = f"{name}-split", f"{name}-part", f"{name}-gather"

    def one(state: State, ctx: Context) -> dict[str, Any]:
        time.sleep(state.pause_s)
        done = ctx.effect("outside", note, state.folder, f"{state.thread} {part} {ctx.arg}")
        return {"log": [done.partition(" ")[2]], "total": ctx.arg}

    g.add_node(split, lambda state: {"log": [split]})
    g.add_node(part, one)
    g.add_node(gather, lambda state: {"log": [f"{gather} {state.total}"]})
    g.add_conditional_edges(split, lambda state: [Send(part, k) for k in range(width)], [part])
    g.add_edge(part, gather)
    return split, gather


def join(g: Builder, name: str, chance: random.Random) -> Block:
    first, last = f"{name}-first", f"{name}-join"
    g.add_node(first, lambda state: {"log": [first]})
    g.add_node(last, lambda state: {"log": [f"{last} {state.total}"]})
    ends: list[str] = []
    for branch in "ab":  # of different lengths, so that one arrives later
        before = first
        for number in range(chance.randint(1, 2)):
            here = f"{name}-{branch}{number}"
            step(g, here, chance)
            g.add_edge(before, here)
            before = here
        ends.append(before)
    g.add_join(ends, last)
    return first, last


def ask(g: Builder, name: str, _chance: random.Random) -> Block:
    def work(state: State, ctx: Context) -> Any:
        return Interrupt(name) if ctx.answer is None else {"log": [ctx.answer], "total": 1}

    g.add_node(name, work)
    return name, name


def answer_to(payload: str) -> str:
    """What a person says to a question."""
    return f"answer to {payload}"


BLOCKS: tuple[Callable[[Builder, str, random.Random], Block], ...] = (step, effect, fan, join, ask)


def graph(seed: int) -> CompiledGraph[State, Any]:
    """The graph of *seed*: one block of each kind at least, and a few more, in random order."""
    chance = random.Random(seed)
    kinds = [*BLOCKS, *chance.choices(BLOCKS, k=3)]
    chance.shuffle(kinds)
    g: Builder = GraphBuilder(State, name=f"chaos-{seed}")
    before: Any = START
    for number, kind in enumerate(kinds):
        first, last = kind(g, f"{kind.__name__}{number}", chance)
        g.add_edge(before, first)
        before = last
    g.add_edge(before, END)
    return g.compile(limits=Limits(max_visits=None))


def twin(seed: int) -> State:
    """The final state of a run of the graph that nothing disturbs."""
    with Runtime(graph(seed), store="memory:") as runtime:
        result = runtime.run({}, thread="twin")
        while result.status == "interrupted":
            result = runtime.resume("twin", answer=answer_to(result.interrupts[0].payload))
        return result.state
