"""Deadlines of runs: driving time is bounded for all nodes, and finished outcomes are kept."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.patience import with_more_time

from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt._drivers.async_parallel_tasks import AsyncParallelTasks
from graphrt.errors import DeadlineError

from .support import SOON_S, State, call, note, parallel, sequence

SHORT_S = 0.03
LIMITS = Limits(deadline_s=SHORT_S, grace_s=0.1)


@pytest.fixture
def stop() -> Any:
    event = threading.Event()
    yield event
    event.set()


def endless(kind: str, stop: threading.Event) -> Any:
    async def wait(state: Any) -> Any:
        while not stop.is_set():  # noqa: ASYNC110 - set from another worker thread
            await asyncio.sleep(0.001)
        return {"notes": ["slow"]}

    def block(state: Any) -> Any:
        stop.wait(60)
        return {"notes": ["slow"]}

    return wait if kind == "async" else block


def test_timeout_set_by_the_deadline_ends_the_run_and_not_the_node(monkeypatch: Any, stop: threading.Event) -> None:
    """The attempt ends by its share of the deadline at the same moment as the run, which learns of it when it stops."""

    async def at_the_end(self: AsyncParallelTasks, until: float | None = None) -> list[Any]:
        assert until is not None
        await asyncio.sleep(max(0.0, until - time.monotonic()) + 0.05)
        return []

    monkeypatch.setattr(AsyncParallelTasks, "collect", at_the_end)
    graph = parallel(("slow", endless("async", stop)), ("slower", endless("async", stop)))
    runtime = Runtime(graph, store="memory:", limits=LIMITS)
    with pytest.raises(DeadlineError):
        asyncio.run(runtime.arun({"x": 1}, thread="t"))

    assert runtime.state("t").next == ("slow", "slower")


@pytest.mark.parametrize("beside", ["alone", "beside-sync", "beside-async"])
def test_endless_node_is_stopped_by_the_deadline(face: str, kind: str, beside: str, stop: threading.Event) -> None:
    async def other(state: Any) -> Any:
        return {"notes": ["other"]}

    others: list[Any] = {
        "alone": [],
        "beside-sync": [("other", note("other"))],
        "beside-async": [("other", other)],
    }[beside]
    graph = parallel(*others, ("slow", endless(kind, stop)))
    runtime = Runtime(graph, store="memory:", limits=LIMITS)
    started = time.monotonic()

    with pytest.raises(DeadlineError) as caught:
        call(face, runtime, "run", {"x": 1}, thread="t")

    error = caught.value
    assert time.monotonic() - started < Limits().grace_s  # and not after the grace of all other runs
    assert (error.code, error.limit) == ("deadline", SHORT_S)
    assert "slow" in error.nodes
    assert error.state["x"] == 1
    snapshot = runtime.state("t")
    assert snapshot.status == "failed"
    assert "slow" in snapshot.next  # under load the other may not have ended either

    stop.set()
    again = Runtime(graph, store=runtime.store, limits=Limits(deadline_s=None))
    assert call(face, again, "retry", "t").state["notes"] == [name for name, _ in others] + ["slow"]


def test_endless_loop_is_stopped_by_the_deadline(face: str, kind: str) -> None:
    async def acount(state: Any) -> Any:
        await asyncio.sleep(0.001)
        return {"n": 1}

    def count(state: Any) -> Any:
        time.sleep(0.001)
        return {"n": 1}

    g: Any = GraphBuilder(State)
    g.add_node("count", acount if kind == "async" else count, max_visits=None)
    g.add_edge(START, "count")
    g.add_conditional_edges("count", lambda s: s["n"] < 0, {True: END, False: "count"})

    def trial(deadline_s: float) -> None:
        with pytest.raises(DeadlineError) as caught:
            call(face, g.compile(limits=Limits(deadline_s=deadline_s, max_steps=1_000_000)), "run", {})
        assert caught.value.state["n"] > 0

    with_more_time(trial, 0.3, 5.0)


def test_run_within_the_deadline_is_not_affected(face: str) -> None:
    graph = sequence(("a", note("a")), ("b", note("b")), limits=Limits(deadline_s=60))

    assert call(face, graph, "run", {}).state["notes"] == ["a", "b"]


def test_earlier_timeout_of_a_node_is_a_timeout(face: str, kind: str, stop: threading.Event) -> None:
    from graphrt import NodeError

    graph = sequence(("slow", endless(kind, stop)), slow={"timeout_s": 0.01}, limits=Limits(deadline_s=60, grace_s=0.1))

    with pytest.raises(NodeError) as caught:
        call(face, graph, "run", {})

    assert caught.value.code == "node-timeout"
    stop.set()


def test_the_deadline_is_inherited_by_nested_graphs(face: str, kind: str, stop: threading.Event) -> None:
    child = sequence(("slow", endless(kind, stop)))
    graph = sequence(("child", child), limits=LIMITS)
    started = time.monotonic()

    with pytest.raises(DeadlineError):
        call(face, graph, "run", {})

    assert time.monotonic() - started < Limits().grace_s  # and not after the grace of all other runs
    stop.set()


def test_deadline_ends_the_wait_for_a_retry(face: str) -> None:
    from graphrt import RetryPolicy

    def bad(state: Any) -> Any:
        raise ConnectionError

    policy = {"retry": RetryPolicy(5, wait_initial_s=60, wait_max_s=60, jitter=False)}
    started = time.monotonic()

    with pytest.raises(DeadlineError):
        call(face, sequence(("bad", bad), bad=policy, limits=LIMITS), "run", {})

    assert time.monotonic() - started < SOON_S


def test_deadline_ends_the_wait_for_a_retry_while_another_task_runs(face: str) -> None:
    from graphrt import RetryPolicy

    def bad(state: Any) -> Any:
        raise ConnectionError

    policy = {"retry": RetryPolicy(5, wait_initial_s=60, wait_max_s=60, jitter=False)}
    started = time.monotonic()

    with pytest.raises(DeadlineError):
        call(face, parallel(("bad", bad), ("ok", note("ok")), bad=policy, limits=LIMITS), "run", {})

    assert time.monotonic() - started < SOON_S


@pytest.mark.parametrize("timed", [False, True])
def test_deadline_ends_a_run_whose_tasks_wait_for_a_slot(face: str, kind: str, timed: bool) -> None:
    """One task at a time, each shorter than the deadline: queued tasks are not waited for."""
    ran: list[str] = []

    def node(name: str) -> Any:
        def work(state: Any) -> None:
            ran.append(name)
            threading.Event().wait(0.03)

        async def awork(state: Any) -> None:
            ran.append(name)
            await asyncio.sleep(0.03)

        return awork if kind == "async" else work

    names = [f"n{number}" for number in range(20)]
    policies = {name: {"timeout_s": 60} for name in names} if timed else {}
    graph = parallel(
        *[(name, node(name)) for name in names], limits=Limits(max_concurrency=1, deadline_s=0.08), **policies
    )

    with pytest.raises(DeadlineError):
        call(face, graph, "run", {})

    assert len(ran) < len(names)
