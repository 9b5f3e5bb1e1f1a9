"""Graphs with nodes of the queue `gpu`, and what is looked up of them. No tests."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime, Send
from graphrt.graph import CompiledGraph
from graphrt.reducers import append
from graphrt.workers import Worker

from .mail_support import Open


class State(BaseModel):
    number: int = 3
    log: Annotated[list[str], append] = []


def alone(fn: Any, **policy: Any) -> CompiledGraph[Any, Any]:
    """A graph with one node, of the queue `gpu`."""
    g = GraphBuilder(State, name="alone")
    g.add_node("work", fn, queue="gpu", **policy)
    return g.add_edge(START, "work").add_edge("work", END).compile()


def fan(fn: Any, **policy: Any) -> CompiledGraph[Any, Any]:
    """A graph that starts `number` tasks of a node of the queue `gpu`, and then one that is not."""
    g = GraphBuilder(State, name="fan")
    g.add_node("plan", lambda state: {"log": ["planned"]})
    g.add_node("work", fn, queue="gpu", **policy)
    g.add_node("end", lambda state: {"log": ["ended"]})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(state.number)], ["work"])
    return g.add_edge("work", "end").add_edge("end", END).compile()


def note(state: State, ctx: Context) -> dict[str, Any]:
    return {"log": [f"{ctx.node} {ctx.arg}"]}


def tasks(runtime: Runtime[Any]) -> list[tuple[str, str]]:
    return [(item.thread, item.interrupt.task_id) for item in runtime.inbox(kind="task")]


def kinds(runtime: Runtime[Any], thread: str) -> list[str]:
    return [type(entry.event).__name__ for entry in runtime.entries(thread)]


def inner(**policy: Any) -> CompiledGraph[Any, Any]:
    g = GraphBuilder(State, name="inner")
    g.add_node("first", note)
    g.add_node("second", note, **policy)
    return g.add_edge(START, "first").add_edge("first", "second").add_edge("second", END).compile()


def most_at_once(open_: Open, queues: Any, workers: int, number: int) -> tuple[int, float]:
    """Run a fan-out on several workers; return how many tasks ran at once, and how long all took in seconds."""
    lock, running, most = threading.Lock(), [0], [0]

    def work(state: State, ctx: Context) -> dict[str, Any]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return {"log": [f"{ctx.arg}"]}

    graph = fan(work)
    runtime = open_(graph)
    made = [Worker(open_(graph), poll_s=0.01, queues=queues).start() for _ in range(workers)]
    began = time.monotonic()
    try:
        thread = runtime.start({"number": number})
        result = runtime.wait(thread, timeout_s=60.0)
    finally:
        for worker in made:
            worker.stop()
    assert result.state.log == ["planned", *map(str, range(number)), "ended"]
    return most[0], time.monotonic() - began
