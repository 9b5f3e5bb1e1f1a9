"""Shared parts of the clauses: a host on a storage, graphs that count their executions, and waits with a limit.

This module checks no rules itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel

from graphrt._drivers.context import Context
from graphrt.commands import END, Interrupt, Send
from graphrt.events import RunResumed
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.limits import Limits
from graphrt.reducers import append
from graphrt.runtime import Runtime
from graphrt.stores.protocol import Store
from graphrt.testing.conformance._world import BrokenClauseError
from graphrt.workers import Host

MakeHost: TypeAlias = Callable[..., Host]


class Counting(BaseModel):
    """The state of the graphs of the clauses."""

    most: int = 3
    n: int = 0
    log: Annotated[list[int], append] = []


class HostWorld:
    """One storage, the hosts and runtimes on it, and the work of their nodes. All are closed when the clause ends."""

    def __init__(self, make: MakeHost, open_store: Callable[[], Store], look_s: float, patience_s: float) -> None:
        self._make = make
        self._open = open_store
        self.look_s: float = look_s
        self._patience_s = patience_s
        self._hosts: list[Host] = []
        self._runtimes: list[Runtime[Any, Any]] = []
        self._stores: list[Store] = []
        self.done: Counter[tuple[str, int]] = Counter()
        """Number of executions of each node activation, by thread and number."""
        self.gate: threading.Event = threading.Event()
        """Gate for which the nodes of `loop` wait; initially open, until the clause closes it."""
        self.gate.set()
        self.entered: threading.Event = threading.Event()
        """Set when a node of `loop` runs."""

    # -- what clauses use ------------------------------------------------------------------------------------------

    def store(self) -> Store:
        """Open the storage once more."""
        store = self._open()
        self._stores.append(store)
        return store

    def runtime(self, graph: CompiledGraph[Any, Any, Any], store: Store | None = None) -> Runtime[Any, Any]:
        """Make a runtime, by default on its own store object."""
        runtime = Runtime(graph, store=store or self.store())
        self._runtimes.append(runtime)
        return runtime

    def host(
        self, *graphs: CompiledGraph[Any, Any, Any], store: Store | None = None, queues: Sequence[str] = ()
    ) -> Host:
        """Start a host with a runtime for each graph, all with one store; it serves *queues*."""
        shared = store or self.store()
        served: dict[str, Any] = {"queues": queues} if queues else {}
        host = self._make(*(self.runtime(graph, shared) for graph in graphs), **served)
        self._hosts.append(host)
        host.start()
        return host

    def ends(self, runtime: Runtime[Any, Any], thread: str, what: str, status: str = "completed") -> Any:
        """Return the state of a thread after the host has ended its run."""
        snapshot = runtime.state(thread)  # a late message may show an ended thread as running
        until = time.monotonic() + self._patience_s
        while snapshot.status in {"running", "new"}:
            if time.monotonic() > until:
                raise BrokenClauseError(f"{what}: the run does not end")
            time.sleep(0.01)
            before, snapshot = snapshot.seq, runtime.state(thread)
            if snapshot.seq != before:  # allow more time for a run in progress on a slow store
                until = time.monotonic() + self._patience_s
        if snapshot.status != status:
            raise BrokenClauseError(f"{what}: the thread is {snapshot.status}, not {status}")
        return snapshot.values

    def eventually(self, true: Callable[[], object], what: str) -> None:
        """Wait until something is true."""
        until = time.monotonic() + self._patience_s
        while not true():
            if time.monotonic() > until:
                raise BrokenClauseError(what)
            time.sleep(0.01)

    @contextmanager
    def unchanged(self, value: Callable[[], object], what: str) -> Generator[None]:
        """Check that neither the code inside nor two later sweeps of a host change a value."""
        before = value()  # read first, because a host may act before a later read
        yield
        for _ in range(math.ceil(2 * self.look_s / 0.02)):  # counts, because the host may not run in that time
            time.sleep(0.02)
            if (now := value()) != before:
                raise BrokenClauseError(f"{what}: {before!r} became {now!r}")

    def once_each(self, thread: str, count: int, what: str) -> None:
        """Check that each activation of `loop` ran once."""
        ran = {number: self.done[thread, number] for number in range(count)}
        if set(ran.values()) != {1}:
            raise BrokenClauseError(f"{what}: activations ran so often: {ran}")

    def takings(self, runtime: Runtime[Any, Any], thread: str) -> int:
        """Return the number of takeovers of the thread."""
        return sum(isinstance(entry.event, RunResumed) for entry in runtime.entries(thread))

    def close(self) -> None:
        """Open the gate, stop every host, and close opened objects."""
        self.gate.set()
        for host in self._hosts:
            host.stop(grace_s=5.0)
        for runtime in self._runtimes:
            runtime.close()
        for store in self._stores:
            store.close()

    # -- graphs ----------------------------------------------------------------------------------------------------

    def loop(self, name: str = "loop") -> CompiledGraph[Any, Any, Any]:
        """Return a graph that counts to `most`, waits for the gate in each step, and records its executions."""
        g = GraphBuilder(Counting, name=name)

        def count(state: Counting, ctx: Context) -> dict[str, Any]:
            self.entered.set()
            self.gate.wait()
            self.done[str(ctx.thread), state.n] += 1
            return {"n": state.n + 1, "log": [state.n]}

        g.add_node("count", count)
        g.set_entry("count")
        g.add_conditional_edges("count", lambda state: state.n < state.most, {True: "count", False: END})
        return g.compile(limits=Limits(max_visits=None))

    def fan(self, name: str = "fan") -> CompiledGraph[Any, Any, Any]:
        """Return a graph that starts `most` tasks of the queue `q` at once; each has an effect and waits for the gate."""
        g = GraphBuilder(Counting, name=name)

        def work(_state: Counting, ctx: Context) -> dict[str, Any]:
            value = ctx.effect("count", self._count, str(ctx.thread), int(ctx.arg))
            self.entered.set()
            self.gate.wait()
            return {"log": [value]}

        g.add_node("split", lambda _state: None)
        g.add_node("work", work, queue="q")
        g.add_node("join", lambda state: {"n": len(state.log)})
        g.set_entry("split")
        g.add_conditional_edges("split", lambda state: [Send("work", n) for n in range(state.most)], ["work"])
        g.add_edge("work", "join").add_edge("join", END)
        return g.compile()

    def _count(self, thread: str, number: int) -> int:
        self.done[thread, number] += 1
        return number

    def failing(self) -> CompiledGraph[Any, Any, Any]:
        """Return a graph whose only node records its execution and raises."""
        g = GraphBuilder(Counting, name="failing")

        def fail(state: Counting, ctx: Context) -> dict[str, Any]:
            self.done[str(ctx.thread), state.n] += 1
            raise ValueError("planned")

        g.add_node("fail", fail)
        g.set_entry("fail")
        g.set_finish("fail")
        return g.compile()

    def asking(self) -> CompiledGraph[Any, Any, Any]:
        """Return a graph that asks for a number."""
        g = GraphBuilder(Counting, name="asking")

        def ask(state: Counting, ctx: Context) -> Any:
            if ctx.answer is None:
                self.done[str(ctx.thread), state.n] += 1
                return Interrupt("how many?")
            return {"n": ctx.answer}

        g.add_node("ask", ask)
        g.set_entry("ask")
        g.set_finish("ask")
        return g.compile()
