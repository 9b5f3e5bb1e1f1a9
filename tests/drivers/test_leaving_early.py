"""Leaving `steps`, `stream` and their async twins early: the run is cancelled, and all its work has ended by then."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing, closing
from typing import Any

import pytest

from graphrt import GraphBuilder, Runtime

from .support import PATIENCE_S, SOON_S, State, note, parallel, sequence

VERBS = [("steps", {}), ("stream", {}), ("stream", {"modes": "values"}), ("stream", {"modes": "events"})]


def three(after: list[str]) -> Any:
    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            after.append(name)
            return {"notes": [name]}

        return (name, run)

    return sequence(node("a"), node("b"), node("c"))


@pytest.mark.parametrize(("verb", "options"), VERBS)
def test_leaving_a_sync_iterator_cancels_the_run(verb: str, options: Any) -> None:
    ran: list[str] = []
    runtime = Runtime(three(ran), store="memory:")
    with closing(getattr(runtime, verb)({}, thread="t", **options)) as items:
        for _ in items:
            break

    snapshot = runtime.state("t")
    assert snapshot.status == "cancelled"
    done = list(ran)
    assert runtime.retry("t").state["notes"] == ["a", "b", "c"]
    assert ran == ["a", "b", "c"]
    assert len(done) < 3


@pytest.mark.parametrize(("verb", "options"), VERBS)
def test_leaving_an_async_iterator_cancels_the_run(verb: str, options: Any) -> None:
    ran: list[str] = []

    async def main() -> None:
        runtime = Runtime(three(ran), store="memory:")
        async with aclosing(getattr(runtime, f"a{verb}")({}, thread="t", **options)) as items:
            async for _ in items:
                break
        assert runtime.state("t").status == "cancelled"
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert (await runtime.aretry("t")).state["notes"] == ["a", "b", "c"]

    asyncio.run(main())

    assert ran == ["a", "b", "c"]


@pytest.mark.parametrize("context", [True, False])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("modes", ["custom", ("custom", "updates")])
def test_leaving_a_live_async_stream_ends_the_running_node(context: bool, beside: bool, modes: Any) -> None:
    """The item comes from one node, and the reader leaves while the next one sleeps."""
    ended: list[str] = []

    running = threading.Event()

    async def sleep() -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")

    async def slow(state: Any) -> Any:
        await sleep()

    async def slow_with_context(state: Any, ctx: Any) -> Any:
        await sleep()

    g: Any = GraphBuilder(State)
    g.add_node("emit", lambda s, ctx: ctx.emit("hello")).add_node("slow", slow_with_context if context else slow)
    g.add_node("other", note("other"))
    g.add_sequence(["emit", "slow"]).set_entry("emit")
    if beside:
        g.add_edge("emit", "other")
    graph = g.compile(allow=["unreachable-node"])

    async def main() -> None:
        before = asyncio.all_tasks()
        async with aclosing(graph.astream({}, modes=modes)) as items:
            async for _ in items:
                while not running.is_set():  # noqa: ASYNC110 - set from another task, perhaps of another loop
                    await asyncio.sleep(0.001)
                break
        assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))

    assert ended == ["slow"]


@pytest.mark.parametrize("beside", [True, False])
def test_leaving_a_live_sync_stream_ends_the_running_async_node(beside: bool) -> None:
    running, ended = threading.Event(), threading.Event()

    async def slow(state: Any) -> Any:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    g: Any = GraphBuilder(State)
    g.add_node("emit", lambda s, ctx: ctx.emit("hello")).add_node("slow", slow).add_node("other", note("other"))
    g.add_sequence(["emit", "slow"]).set_entry("emit")
    if beside:
        g.add_edge("emit", "other")
    graph = g.compile(allow=["unreachable-node"])

    started = time.monotonic()
    with closing(graph.stream({}, modes="custom")) as items:
        assert next(items) == "hello"
        assert running.wait(PATIENCE_S)

    assert time.monotonic() - started < SOON_S
    assert ended.is_set()


def test_reader_whose_task_is_cancelled_ends_the_run() -> None:
    running = asyncio.Event()
    ended: list[str] = []

    async def slow(state: Any) -> Any:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")

    async def main() -> None:
        async def read(modes: Any) -> None:
            async with aclosing(sequence(("slow", slow)).astream({}, modes=modes)) as items:
                async for _ in items:
                    pass

        before = asyncio.all_tasks()
        for modes in ("custom", "updates"):
            running.clear()
            task = asyncio.ensure_future(read(modes))
            await running.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))

    assert ended == ["slow", "slow"]


def test_iterator_that_was_never_started_leaves_the_thread_free() -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")
    runtime.steps({}, thread="t")
    runtime.stream({}, thread="t", modes="custom").close()

    assert runtime.run({}, thread="t").status == "completed"


def test_dropped_iterator_is_closed() -> None:
    runtime = Runtime(three([]), store="memory:")
    items = runtime.steps({}, thread="t")
    next(items)
    del items

    assert runtime.state("t").status == "cancelled"


def test_leaving_a_superstep_with_several_tasks_cancels_the_run() -> None:
    runtime = Runtime(parallel(("a", note("a")), ("b", note("b"))), store="memory:")
    with closing(runtime.steps({}, thread="t")) as steps:
        assert next(steps).node == "a"

    assert runtime.state("t").values["notes"] == ["a", "b"]  # the superstep was committed before its steps appeared
    status = runtime.state("t").status
    assert status in {"cancelled", "completed"}


def test_exception_of_the_reader_ends_the_run() -> None:
    runtime = Runtime(three([]), store="memory:")

    def read() -> None:
        with closing(runtime.steps({}, thread="t")) as steps:
            for _ in steps:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()

    assert runtime.state("t").status == "cancelled"
