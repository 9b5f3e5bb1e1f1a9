"""A worker for parents and children that kills itself at a chosen moment, in a process that `process_support` starts.

`KILL_AT` in its environment names the moment. No test.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from graphrt import END, START, Context, GraphBuilder, Limits, Runtime
from graphrt._runs import due_threads
from graphrt._runs.child_threads import ThreadsOfRun
from graphrt.graph import CompiledGraph
from graphrt.workers import Worker

from .graphs import State, note


def work() -> CompiledGraph[State, Any]:
    """A child of two steps; the first one writes a note."""
    g = GraphBuilder(State, name="work")

    @g.node
    def begin(state: State, ctx: Context) -> dict[str, Any]:
        time.sleep(state.pause_s)
        ctx.effect("outside", note, state.folder, str(ctx.thread))
        if os.environ.get("KILL_AT") == "in a child":
            die()
        return {"log": [state.n]}

    @g.node
    def end(state: State) -> dict[str, Any]:
        return {"n": state.n * 2}

    g.add_sequence([START, begin, end, END])
    return g.compile()


def family() -> CompiledGraph[State, Any]:
    """A parent that starts three children and waits for them, in each of `most` rounds."""
    child = work()
    g = GraphBuilder(State, name="family")

    @g.node
    def round_(state: State, ctx: Context) -> dict[str, Any]:
        given = {"pause_s": state.pause_s, "folder": state.folder}
        children = [ctx.start(child, {"n": 10 * state.n + k, **given}) for k in range(3)]
        return {"n": state.n + 1, "log": [ctx.wait(one).n for one in children]}

    g.set_entry(round_)
    g.add_conditional_edges(round_, lambda state: state.n < state.most, {True: round_, False: END})
    return g.compile(limits=Limits(max_visits=None))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Nth:
    """A method that kills the process at its n-th call: before its work, or after."""

    def __init__(self, method: Callable[..., Any], nth: int, *, before: bool) -> None:
        self.method, self.left, self.before = method, nth, before

    def __get__(self, owner: Any, kind: Any) -> Callable[..., Any]:
        return lambda *args, **words: self.call(owner, *args, **words)

    def call(self, *args: Any, **words: Any) -> Any:
        self.left -= 1
        if self.before and not self.left:
            die()
        found = self.method(*args, **words)
        if not self.left:
            die()
        return found


def looked(self: Any, graph: Any, thread: str) -> Any:
    found = ENDED(self, graph, thread)
    if found is None:
        die()
    return found


def taken(config: Any, thread: str) -> bool:
    took = TAKE(config, thread)
    if took and config.plan.name == "family":
        die()
    return took


ENDED, TAKE = ThreadsOfRun.ended, due_threads.take_mail


def plant(moment: str) -> None:
    """Make this process kill itself at *moment*."""
    target: Any = ThreadsOfRun
    match moment:
        case "before a child is made":
            target.make = Nth(ThreadsOfRun.make, 2, before=True)
        case "after a child was made":
            target.make = Nth(ThreadsOfRun.make, 2, before=False)
        case "after a look":
            target.ended = looked
        case "after the letter was taken":
            due_threads.take_mail = taken
        case _:
            pass


def main(url: str, lease_s: float) -> None:
    plant(os.environ.get("KILL_AT", ""))
    runtimes = [Runtime(graph, store=url, lease_s=lease_s) for graph in (family(), work())]
    worker = Worker(*runtimes, concurrency=4, poll_s=0.05, max_tries=50)
    print("working", flush=True)  # noqa: T201 - the test waits for it
    worker.serve(grace_s=2.0)
    for runtime in runtimes:
        runtime.close()
