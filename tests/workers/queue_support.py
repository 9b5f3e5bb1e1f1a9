"""Graphs with nodes of the queue `gpu`, and functions that inspect them. No tests."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime, Send
from graphrt.graph import CompiledGraph
from graphrt.reducers import append
from graphrt.workers import Worker

from .mail_support import PATIENT_S, Open


class State(BaseModel):
    number: int = 3
    log: Annotated[list[str], append] = []


def alone(fn: Any, **policy: Any) -> CompiledGraph[Any, Any]:
    """A graph with one node, of the queue `gpu`."""
    g = GraphBuilder(State, name="alone")
    g.add_node("work", fn, queue="gpu", **policy)
    return g.add_edge(START, "work").add_edge("work", END).compile()


def fan(fn: Any, **policy: Any) -> CompiledGraph[Any, Any]:
    """A graph that starts `number` tasks of a node of the queue `gpu`, and then a node without a queue."""
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


class Gauge:
    """Counts how many run at the same time. Each waits until *full* have run together."""

    def __init__(self, full: int) -> None:
        self.full = full
        self.most = 0
        self._now = 0
        self._lock, self._filled = threading.Lock(), threading.Event()

    def enter(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            if self.most >= self.full:
                self._filled.set()
        assert self._filled.wait(PATIENT_S), f"{self.full} never ran together"

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


def most_at_once(open_: Open, queues: Any, workers: int, number: int, *, full: int = 1) -> tuple[int, float]:
    """Run a fan-out on several workers; return how many tasks ran at the same time, and the seconds for all.

    Each task waits until *full* have run at the same time.
    """
    gauge = Gauge(full)

    def work(state: State, ctx: Context) -> dict[str, Any]:
        gauge.enter()
        time.sleep(0.02)  # one too many would begin in this time
        gauge.leave()
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
    return gauge.most, time.monotonic() - began
