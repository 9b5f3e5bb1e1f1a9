"""Race conditions of stopping: a task that is stopped before its first step, a halt just before the wait."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import Any

import pytest

from graphrt import NodeError, RetryPolicy, Runtime

from .support import SOON_S, Beside, call, parallel


@pytest.mark.parametrize("retry_first", [True, False])
def test_retry_that_is_stopped_before_its_first_step_does_not_hang_the_run(face: str, retry_first: bool) -> None:
    """Both fail at the same moment: one is due again, and the other stops the superstep."""

    async def again(state: Any) -> Any:
        await asyncio.sleep(0)
        raise ConnectionError

    async def bad(state: Any) -> Any:
        await asyncio.sleep(0)
        raise ValueError

    policy = {"retry": RetryPolicy(3, wait_initial_s=0)}
    nodes = [("again", again), ("bad", bad)]
    graph = parallel(*(nodes if retry_first else nodes[::-1]), again=policy)

    with pytest.raises(NodeError):
        Beside(lambda: call(face, graph, "run", {})).result()


@pytest.mark.parametrize("count", [2, 5])
def test_tasks_that_are_cancelled_before_their_first_step_do_not_hang_the_run(face: str, count: int) -> None:
    """A router is the last user code before the tasks start: it cancels the run."""

    async def never(state: Any) -> Any:
        raise AssertionError("it was cancelled before")

    names = [f"n{n}" for n in range(count)]
    from graphrt import END, START, GraphBuilder

    from .support import State, note

    g: Any = GraphBuilder(State)
    g.add_node("first", note("first")).add_edge(START, "first")
    for name in names:
        g.add_node(name, never).add_edge(name, END)

    def router(state: Any) -> list[str]:
        runtime.cancel("t")
        return names

    g.add_conditional_edges("first", router, names)
    runtime = Runtime(g.compile(), store="memory:")

    result = Beside(lambda: call(face, runtime, "run", {}, thread="t")).result()

    assert result.status == "cancelled"
    assert runtime.state("t").next == tuple(names)


def test_cancel_just_before_the_wait_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver checks whether the run halts, then clears its event and waits: a signal in between must count."""
    started = threading.Event()
    cancelled: list[bool] = []

    async def slow(state: Any) -> Any:
        started.set()
        await asyncio.sleep(60)

    runtime = Runtime(parallel(("a", slow), ("b", slow)), store="memory:")
    clear = threading.Event.clear

    def late(event: threading.Event) -> None:
        if threading.current_thread() is caller and started.wait(5) and not cancelled:
            cancelled.append(runtime.cancel("t"))
        clear(event)

    caller = threading.current_thread()
    monkeypatch.setattr(threading.Event, "clear", late)
    began = time.monotonic()

    result = runtime.run({}, thread="t")

    assert cancelled == [True]
    assert result.status == "cancelled"
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize("timeout_s", [None, 60])
def test_no_attempt_starts_after_a_permanent_failure_of_another_task(face: str, timeout_s: float | None) -> None:
    """A backoff ends while the run waits for a task that is still busy (rule R9)."""
    attempts: list[int] = []
    resting, failed, rested = threading.Event(), threading.Event(), threading.Event()

    def again(state: Any, ctx: Any) -> Any:
        attempts.append(ctx.attempt)
        raise ConnectionError

    def bad(state: Any) -> Any:
        resting.wait()
        failed.set()
        raise ValueError

    def busy(state: Any) -> Any:
        rested.wait()
        time.sleep(0.2)  # an attempt would start in this time

    def sleep(seconds: float) -> None:
        resting.set()
        failed.wait()
        time.sleep(0.5)  # the run has seen the failure, and waits for `busy`
        rested.set()

    async def asleep(seconds: float) -> None:
        resting.set()
        try:
            while not failed.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
        finally:
            rested.set()

    policy = {"timeout_s": timeout_s}
    retry = {"retry": RetryPolicy(3, wait_initial_s=0.3, jitter=False), **policy}
    graph = parallel(("again", again), ("bad", bad), ("busy", busy), again=retry, bad=policy, busy=policy)

    with pytest.raises(NodeError, match="bad"):
        Beside(lambda: call(face, graph, "run", {}, sleep=sleep if face == "sync" else asleep)).result()
    assert attempts == [1]


def test_backoffs_do_not_reduce_the_worker_threads() -> None:
    """The timers of forty backoffs are not worker threads: later helpers can still start."""
    from graphrt import START, GraphBuilder, Send

    from .support import State

    meet = threading.Barrier(8)

    def flaky(state: Any, ctx: Any) -> Any:
        if ctx.attempt == 1:
            raise ConnectionError

    def together(state: Any, ctx: Any) -> Any:
        meet.wait(30)

    g: Any = GraphBuilder(State)
    names = [f"step{n}" for n in range(21)]
    for name, after in itertools.pairwise(names):  # two backoffs in each of twenty supersteps
        g.add_node(name, lambda state: None)
        for side in ("left", "right"):
            g.add_node(f"{name}-{side}", flaky, retry=RetryPolicy(2, wait_initial_s=0.01))
            g.add_edge(name, f"{name}-{side}")
        g.add_join([f"{name}-left", f"{name}-right"], after)
    g.add_edge(START, names[0])
    g.add_node(names[-1], lambda state: None)
    g.add_node("together", together)
    g.add_conditional_edges(names[-1], lambda state: [Send("together", n) for n in range(8)], ["together"])

    assert g.compile().run({}).status == "completed"
