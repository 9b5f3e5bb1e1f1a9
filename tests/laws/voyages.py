"""A thread from its first input to its end, by hand: every question is answered, and it continues after any
interruption.

This module drives threads and records the result; the laws are in `keeping`.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from graphrt import Runtime
from graphrt._drivers.scripted import Choose, ScriptedDriver
from graphrt._runs import run_to_end
from graphrt.errors import GraphrtError
from graphrt.stores.protocol import Store

from . import observe
from .build import build, to_plain
from .description import Graph, State
from .steady import Steady, World

MOST_DRIVES = 12
THREAD = "t"


@contextlib.contextmanager
def by_hand(choose: Choose | None = None) -> Iterator[None]:
    """A context in which `run`, `resume` and `retry` need no worker threads: tasks end one at a time, as *choose*
    decides.
    """
    with mock.patch.object(run_to_end, "SyncDriver", lambda scope, limits: ScriptedDriver(scope, choose=choose)):
        yield


def in_any_order(chance: random.Random) -> Choose:
    return lambda tasks: chance.randrange(len(tasks))


@dataclass
class Voyage:
    """A graph, and the only thread that is driven with it."""

    graph: Graph
    compiled: Any
    world: World
    options: dict[str, Any]

    def runtime(self, store: Any, **more: Any) -> Runtime[Any]:
        return Runtime(self.compiled, store=store, **{**self.options, **more})

    def state_of(self, runtime: Runtime[Any]) -> State:
        """The values of the thread's state."""
        return to_plain(self.graph, runtime.state(THREAD).values)


def voyage(graph: Graph, **build_options: Any) -> Voyage:
    """*graph*, compiled. Its runs can be compared."""
    world = World()
    compiled = build(graph, Steady(graph, world), **build_options)
    options = observe.options(None)
    del options["ids"]
    return Voyage(graph, compiled, world, options)


def status_of(runtime: Runtime[Any]) -> str:
    """The thread's status, `new` if there is none."""
    return next((info.status for info in runtime.threads()), "new")


def answer(info: Any) -> Any:
    """The answer to an interrupt, the same each time."""
    if "problem" in info.payload:
        return "run"
    return zlib.crc32(info.id.split("/", 1)[1].encode()) % 4


def go_on(voyage: Voyage, runtime: Runtime[Any], look: Callable[[Any], object] = lambda _: None) -> str:
    """Drive the thread until it completes or fails; return its status.

    Args:
        voyage: The thread to drive.
        runtime: Drives it.
        look: Called with the result of each drive that did not fail.
    """
    with contextlib.suppress(GraphrtError):
        for _ in range(MOST_DRIVES):
            status = status_of(runtime)
            if status == "new":
                look(runtime.run(observe.given(voyage.graph), thread=THREAD))
            elif status == "interrupted":
                asked = runtime.state(THREAD).interrupts
                look(runtime.resume(THREAD, {info.id: answer(info) for info in asked}))
            elif status in ("running", "cancelled"):
                look(runtime.retry(THREAD))
            else:
                break
    return status_of(runtime)


def journal(store: Store, voyage: Voyage) -> list[dict[str, Any]]:
    """The thread's entries without the parts that differ between runs: numbers, times, ids of runs, resumes."""
    found: list[dict[str, Any]] = []
    for entry in voyage.runtime(store).entries(THREAD):
        data = entry.to_dict()
        if data["event"] != "run-resumed":
            for name in ("seq", "at", "run", "cause"):
                del data[name]
            found.append(data)
    return found
