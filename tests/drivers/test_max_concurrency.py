"""`max_concurrency` is exact: N never means N + 1, and N tasks do run in parallel (rule R8)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, Limits, RetryPolicy, Send
from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.parallel_tasks import ParallelTasks
from graphrt._drivers.schedule import Job

from .support import PATIENCE_S, State, call, parallel

LINGER_S = 0.004
"""Seconds that a node stays to see whether one too many arrives; not asserted."""


class Gauge:
    """Counts concurrent tasks. Each stays until *full* were there together, and a little longer."""

    def __init__(self, full: int) -> None:
        self.full = full
        self.peak = 0
        self.entered = 0
        self._now = 0
        self._lock = threading.Lock()
        self._filled, self._over = threading.Event(), threading.Event()

    def _enter(self) -> None:
        with self._lock:
            self._now += 1
            self.entered += 1
            self.peak = max(self.peak, self._now)
            if self.peak >= self.full:
                self._filled.set()
            if self.peak > self.full:
                self._over.set()

    def _leave(self) -> None:
        with self._lock:
            self._now -= 1

    def sync(self, state: Any) -> dict[str, Any]:
        self._enter()
        try:
            assert self._filled.wait(PATIENCE_S), f"{self.full} never ran at once"
            self._over.wait(LINGER_S)
        finally:
            self._leave()
        return {"n": 1}

    async def asynchronous(self, state: Any) -> dict[str, Any]:
        self._enter()
        try:
            while not self._filled.is_set():  # noqa: ASYNC110 - set from worker threads too
                await asyncio.sleep(0.001)
            await asyncio.sleep(LINGER_S)
        finally:
            self._leave()
        return {"n": 1}


KINDS = ["sync", "timed", "async", "timed-async", "mixed"]


def nodes(gauge: Gauge, kind: str, count: int) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """*count* nodes of *kind*, and their policies."""
    found: list[tuple[str, Any]] = []
    policies: dict[str, Any] = {}
    for number in range(count):
        name, mine = f"n{number}", KINDS[number % 4] if kind == "mixed" else kind
        found.append((name, gauge.asynchronous if "async" in mine else gauge.sync))
        if "timed" in mine:
            policies[name] = {"timeout_s": 60}
    return found, policies


@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_max_concurrency_nodes_run_in_parallel(face: str, kind: str, bound: int) -> None:
    gauge = Gauge(bound)
    found, policies = nodes(gauge, kind, 8)
    graph = parallel(*found, limits=Limits(max_concurrency=bound), **policies)

    result = call(face, graph, "run", {})

    assert result.state["n"] == 8
    assert gauge.peak == bound


@pytest.mark.parametrize("bound", [1, 2])
def test_max_concurrency_sends_run_in_parallel(face: str, kind: str, bound: int) -> None:
    gauge = Gauge(bound)

    async def awork(state: Any, ctx: Any) -> Any:
        return await gauge.asynchronous(state)

    g: Any = GraphBuilder(State)
    g.add_node("begin", lambda s: None).add_edge(START, "begin")
    g.add_node("work", awork if kind == "async" else lambda s, ctx: gauge.sync(s)).add_edge("work", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", number) for number in range(9)], ["work"])

    result = call(face, g.compile(limits=Limits(max_concurrency=bound)), "run", {})

    assert result.state["n"] == 9
    assert gauge.peak == bound


@pytest.mark.parametrize("kind", ["async", "timed"])
@pytest.mark.parametrize("bound", [1, 2])
def test_no_task_starts_between_the_check_of_the_bound_and_the_count(monkeypatch: Any, kind: str, bound: int) -> None:
    """A worker thread that starts a task is delayed until another one starts one as well: none does above the bound."""
    gauge = Gauge(1)
    starting = [0]
    lock, crowd = threading.Lock(), threading.Event()

    def slowly(start: Any, *, wanted: Any) -> Any:
        def started(*args: Any) -> None:
            if wanted(*args):
                with lock:
                    starting[0] += 1
                    if starting[0] > bound:
                        crowd.set()
                crowd.wait(LINGER_S * 5)
                with lock:
                    starting[0] -= 1
            start(*args)

        return started

    monkeypatch.setattr(ParallelTasks, "_submit", slowly(ParallelTasks._submit, wanted=lambda *_: True))
    monkeypatch.setattr(Job, "run", slowly(Job.run, wanted=lambda *_: True))
    found, policies = nodes(gauge, kind, 6)

    result = parallel(*found, limits=Limits(max_concurrency=bound), **policies).run({})

    assert result.state["n"] == 6
    assert not crowd.is_set()
    assert gauge.peak <= bound


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_bound_applies_to_nested_graphs_together(face: str, kind: str, bound: int) -> None:
    """Three nested graphs of four nodes each, in parallel with four nodes, never exceed the bound."""
    gauge = Gauge(bound)
    inner, _ = nodes(gauge, kind, 4)
    child = parallel(*inner)
    beside, _ = nodes(gauge, kind, 4)
    graph = parallel(*beside, *[(f"child{number}", child) for number in range(3)], limits=Limits(max_concurrency=bound))

    call(face, graph, "run", {})

    assert gauge.entered == 16
    assert gauge.peak == bound


@pytest.mark.parametrize("bound", [1, 2])
def test_bound_of_a_nested_graph_applies_to_each_of_its_runs(face: str, kind: str, bound: int) -> None:
    gauge = Gauge(bound)
    inner, _ = nodes(gauge, kind, 6)
    graph = parallel(("child", parallel(*inner, limits=Limits(max_concurrency=bound))))

    call(face, graph, "run", {})

    assert gauge.entered == 6
    assert gauge.peak == bound


def test_nested_graphs_below_nested_graphs_share_the_bound_of_the_run(face: str, kind: str) -> None:
    gauge = Gauge(2)
    inner, _ = nodes(gauge, kind, 3)
    middle = parallel(("left", parallel(*inner)), ("right", parallel(*inner)))
    graph = parallel(("a", middle), ("b", middle), limits=Limits(max_concurrency=2))

    call(face, graph, "run", {})

    assert gauge.entered == 12
    assert gauge.peak == 2


def test_attempt_that_waits_for_its_retry_takes_no_slot(face: str, kind: str) -> None:
    """With a single slot: both fail once, and both attempts of each run alone."""
    gauge = Gauge(1)
    failed: set[str] = set()

    def once(name: str) -> Any:
        def work(state: Any) -> Any:
            if name not in failed:
                failed.add(name)
                raise ConnectionError(name)
            return gauge.sync(state)

        async def awork(state: Any) -> Any:
            if name not in failed:
                failed.add(name)
                raise ConnectionError(name)
            return await gauge.asynchronous(state)

        return awork if kind == "async" else work

    retry = {"retry": RetryPolicy(2, wait_initial_s=0.001)}
    graph = parallel(
        *[(name, once(name)) for name in "abc"],
        limits=Limits(max_concurrency=1),
        **dict.fromkeys("abc", retry),
    )

    result = call(face, graph, "run", {})

    assert result.state["n"] == 3
    assert gauge.peak == 1


def test_abandoned_worker_thread_takes_no_slot(face: str) -> None:
    """Its attempt has ended: otherwise the run would wait for it, against the timeout."""
    go, late = threading.Event(), threading.Event()

    def hang(state: Any) -> Any:
        go.wait(PATIENCE_S)
        late.set()

    def other(state: Any) -> Any:
        assert not late.is_set()
        go.set()
        return {"n": 1}

    g: Any = GraphBuilder(State)
    g.add_node("hang", hang, timeout_s=0.01, on_error="mend").add_node("other", other).add_node("mend", lambda s: None)
    for name in ("hang", "other"):
        g.add_edge(START, name).add_edge(name, END)
    graph = g.add_edge("mend", END).compile(limits=Limits(max_concurrency=1))

    result = call(face, graph, "run", {})

    assert result.state["n"] == 1
    assert late.wait(PATIENCE_S)


# -- the count itself ------------------------------------------------------------------------------------------------


def test_nested_graph_runs_in_the_slot_of_its_task() -> None:
    run = ConcurrencyLimit(2)
    child = ConcurrencyLimit(None, run)
    woken: list[str] = []

    assert run.take(lambda: None)  # the task of the nested graph
    assert child.take(lambda: None)  # its first one: the same slot
    assert child.take(lambda: None)  # its second: the other slot of the run
    assert not child.take(lambda: woken.append("child"))
    assert not run.take(lambda: woken.append("run"))
    child.give_back()

    assert woken == ["child", "run"]
    assert run.take(lambda: None)
    assert not child.take(lambda: None)
    child.give_back()
    assert child.take(lambda: None)  # the slot of its task is left to it


def test_abandoned_nested_tasks_release_their_slots_once() -> None:
    run = ConcurrencyLimit(3)
    child = ConcurrencyLimit(None, run)
    assert run.take(lambda: None)
    assert [child.take(lambda: None) for _ in range(4)] == [True, True, True, False]

    child.abandon()
    assert [run.take(lambda: None) for _ in range(3)] == [True, True, False]
    for _ in range(3):
        child.give_back()  # the abandoned ones end at last

    assert not run.take(lambda: None)
