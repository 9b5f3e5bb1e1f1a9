"""The graphs of these tests: a loop that can be stopped and watched from outside. No tests."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Limits, Send
from graphrt.graph import CompiledGraph
from graphrt.reducers import add, append


class State(BaseModel):
    n: int = 0
    most: int = 5
    pause_s: float = 0.0
    log: Annotated[list[int], append] = []
    parts: Annotated[int, add] = 0
    folder: str = ""


def note(folder: str, line: str) -> None:
    """Append a line to a file, as an effect outside."""
    if folder:
        with (Path(folder) / "done.txt").open("a") as file:
            file.write(f"{line}\n")


def loop(name: str = "loop") -> CompiledGraph[State, Any]:
    """Count to `most`, with a pause in each step."""
    g = GraphBuilder(State, name=name)

    @g.node
    def count(state: State) -> dict[str, Any]:
        time.sleep(state.pause_s)
        return {"n": state.n + 1, "log": [state.n]}

    g.set_entry(count)
    g.add_conditional_edges(count, lambda state: state.n < state.most, {True: count, False: END})
    return g.compile(limits=Limits(max_visits=None))


def chatty() -> CompiledGraph[State, Any]:
    """Count to `most`, and emit progress before and after the pause of each step."""
    g = GraphBuilder(State, name="chatty")

    @g.node
    def count(state: State, ctx: Context) -> dict[str, Any]:
        ctx.emit({"at": state.n})
        time.sleep(state.pause_s)
        ctx.emit({"at": state.n + 0.5})
        return {"n": state.n + 1, "log": [state.n]}

    g.set_entry(count)
    g.add_conditional_edges(count, lambda state: state.n < state.most, {True: count, False: END})
    return g.compile(limits=Limits(max_visits=None))


def large() -> CompiledGraph[State, Any]:
    """Write an update of 200 kB in each step, until `most`, and emit progress for each."""
    g = GraphBuilder(State, name="large")

    @g.node
    def write(state: State, ctx: Context) -> dict[str, Any]:
        time.sleep(state.pause_s)
        ctx.emit(state.n)
        return {"n": state.n + 1, "folder": f"{state.n}" + "x" * 200_000}

    g.set_entry(write)
    g.add_conditional_edges(write, lambda state: state.n < state.most, {True: write, False: END})
    return g.compile(limits=Limits(max_visits=None))


def fan() -> CompiledGraph[State, Any]:
    """Rounds of several parallel parts, each with an effect that leaves a note, until `most`."""
    g = GraphBuilder(State, name="fan")

    @g.node
    def split(state: State) -> dict[str, Any]:
        return {"n": state.n + 1, "log": [state.n]}

    @g.node
    def part(state: State, ctx: Context) -> dict[str, Any]:
        time.sleep(state.pause_s)
        ctx.effect("outside", note, state.folder, f"{ctx.thread} {state.n} {ctx.arg}")
        return {"parts": 1}

    @g.node
    def gather(state: State) -> dict[str, Any]:
        return {}

    g.set_entry(split)
    g.add_conditional_edges(split, lambda state: [Send("part", k) for k in range(4)], [part])
    g.add_edge(part, gather)
    g.add_conditional_edges(gather, lambda state: state.n < state.most, {True: split, False: END})
    return g.compile(limits=Limits(max_visits=None))


def deadly() -> CompiledGraph[State, Any]:
    """Kill the process that drives it while the file `deadly` exists in its folder."""
    g = GraphBuilder(State, name="deadly")

    @g.node
    def die(state: State) -> dict[str, Any]:
        if (Path(state.folder) / "deadly").exists():
            os.kill(os.getpid(), 9)
        return {"n": 1}

    g.set_entry(die)
    g.set_finish(die)
    return g.compile()


def asking() -> CompiledGraph[State, Any]:
    """Ask a person once."""
    g = GraphBuilder(State, name="asking")

    @g.node
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"n": int(ctx.interrupt("how many?", key="many"))}

    g.set_entry(ask)
    g.set_finish(ask)
    return g.compile()


def sleeping() -> CompiledGraph[State, Any]:
    """Sleep `most` times for `pause_s`, and leave a note when each timer fires."""
    g = GraphBuilder(State, name="sleeping")

    @g.node
    def nap(state: State, ctx: Context) -> dict[str, Any]:
        ctx.sleep(state.pause_s)
        ctx.effect("outside", note, state.folder, f"{ctx.thread} {state.n}")
        return {"n": state.n + 1, "log": [state.n]}

    g.set_entry(nap)
    g.add_conditional_edges(nap, lambda state: state.n < state.most, {True: nap, False: END})
    return g.compile(limits=Limits(max_visits=None))


def receiving() -> CompiledGraph[State, Any]:
    """Receive signals with numbers one after another, until `most`."""
    g = GraphBuilder(State, name="receiving")

    @g.node
    def take(state: State, ctx: Context) -> dict[str, Any]:
        number = ctx.receive("number")
        time.sleep(state.pause_s)
        return {"n": state.n + 1, "log": [number]}

    g.set_entry(take)
    g.add_conditional_edges(take, lambda state: state.n < state.most, {True: take, False: END})
    return g.compile(limits=Limits(max_visits=None))


def slow() -> CompiledGraph[State, Any]:
    """Work for a long time on two parallel tasks, and stop at once when cancelled."""
    g = GraphBuilder(State, name="slow")

    @g.node
    async def waits(state: State) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {"n": 1}

    @g.node
    def looks(state: State, ctx: Context) -> dict[str, Any]:
        note(state.folder, "began")
        until = time.monotonic() + 60
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.002)
        return {}

    for node in (waits, looks):
        g.add_edge(START, node)
        g.add_edge(node, END)
    return g.compile()


def remote() -> CompiledGraph[State, Any]:
    """`most` parallel tasks of the queue `gpu`, each with two effects that leave notes, and a pause between them."""
    g = GraphBuilder(State, name="remote")

    def work(state: State, ctx: Context) -> dict[str, Any]:
        place = f"{ctx.thread} {ctx.arg}"
        # The effect has a key, because its arguments contain the process, which may differ when the task runs again.
        ctx.effect("first", note, state.folder, f"{place} first {os.getpid()}", key="first")
        time.sleep(state.pause_s)
        ctx.effect("second", note, state.folder, f"{place} second {os.getpid()}", key="second")
        return {"log": [int(ctx.arg)], "parts": 1}

    g.add_node("split", lambda state: None)
    g.add_node("work", work, queue="gpu")
    g.set_entry("split")
    g.add_conditional_edges("split", lambda state: [Send("work", n) for n in range(state.most)], ["work"])
    return g.add_edge("work", END).compile()
