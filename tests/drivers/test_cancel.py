"""`cancel(thread)` from outside: the run stops with the status "cancelled", and the thread can be retried."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from graphrt import Limits, Runtime
from graphrt._drivers.thread_pool import ThreadPool
from graphrt.errors import StoreError
from graphrt.stores import open_store
from graphrt.stores.filters import ThreadFilter

from .support import PATIENCE_S, Beside, call, note, parallel, sequence


class Gate:
    """A node that reports its start and then waits, sync or async, until it is released or cancelled."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running = threading.Event()
        self.open = threading.Event()
        self.ended = threading.Event()
        self.runs = 0

    def node(self) -> Any:
        async def wait(state: Any, ctx: Any) -> Any:
            self.runs += 1
            self.running.set()
            try:
                while not self.open.is_set():  # noqa: ASYNC110 - set from another worker thread
                    await asyncio.sleep(0.001)
            finally:
                self.ended.set()
            return {"notes": ["gate"]}

        def block(state: Any, ctx: Any) -> Any:
            self.runs += 1
            self.running.set()
            until = time.monotonic() + PATIENCE_S
            while not self.open.is_set() and not ctx.cancelled and time.monotonic() < until:
                time.sleep(0.001)
            self.ended.set()
            return {"notes": ["gate"]}

        return wait if self.kind == "async" else block


@pytest.mark.parametrize("shape", ["alone", "beside", "nested", "timeout"])
def test_cancel_from_another_worker_thread(face: str, kind: str, shape: str) -> None:
    gate = Gate(kind)
    graph: Any = {
        "alone": lambda: sequence(("first", note("first")), ("gate", gate.node()), ("last", note("last"))),
        "beside": lambda: parallel(("gate", gate.node()), ("other", note("other"))),
        "nested": lambda: sequence(("child", sequence(("gate", gate.node())))),
        "timeout": lambda: sequence(("gate", gate.node()), gate={"timeout_s": 60}),
    }[shape]()
    runtime = Runtime(graph, store="memory:")
    running = Beside(lambda: call(face, runtime, "run", {}, thread="t"))
    assert gate.running.wait(PATIENCE_S)

    assert runtime.cancel("t") is True
    result = running.result()

    assert result.status == "cancelled"
    assert runtime.state("t").status == "cancelled"
    assert gate.ended.is_set()
    gate.open.set()
    done = call(face, runtime, "retry", "t")
    assert done.status == "completed"
    assert done.state["notes"].count("gate") == 1


def test_cancel_from_another_task(kind: str) -> None:
    gate = Gate("async")

    async def main() -> None:
        runtime = Runtime(sequence(("gate", gate.node()), ("last", note("last"))), store="memory:")
        running = asyncio.ensure_future(runtime.arun({}, thread="t"))
        while not gate.running.is_set():  # noqa: ASYNC110 - set from another worker thread
            await asyncio.sleep(0)

        assert await runtime.acancel("t")
        result = await running

        assert result.status == "cancelled"
        assert gate.ended.is_set()
        gate.open.set()
        assert (await runtime.aretry("t")).state["notes"] == ["gate", "last"]

    asyncio.run(main())


@pytest.mark.parametrize("shape", ["alone", "beside"])
def test_node_may_cancel_its_own_run_without_cancelling_the_caller(face: str, kind: str, shape: str) -> None:
    """The cancellation of an async node must never reach the caller's task after the run."""
    runtime: Any = None

    def cancel(state: Any) -> Any:
        runtime.cancel("t")
        return {"notes": ["cancel"]}

    async def acancel(state: Any) -> Any:
        return cancel(state)

    node = acancel if kind == "async" else cancel
    graph = (
        sequence(("node", node), ("last", note("last")))
        if shape == "alone"
        else parallel(("node", node), ("other", note("other")))
    )
    runtime = Runtime(graph, store="memory:")

    if face == "async":

        async def main() -> Any:
            result = await runtime.arun({}, thread="t")
            for _ in range(5):
                await asyncio.sleep(0)
            assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
            return result

        result = asyncio.run(main())
    else:
        result = runtime.run({}, thread="t")

    assert result.status == "cancelled"
    assert call(face, runtime, "retry", "t").state["notes"].count("cancel") == 1


def test_cancel_of_a_thread_without_a_driver_returns_false() -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")
    runtime.run({}, thread="t")

    assert runtime.cancel("t") is False
    assert runtime.cancel("unknown") is False
    assert asyncio.run(runtime.acancel("t")) is False


def test_a_cancelled_thread_takes_the_next_input(face: str) -> None:
    gate = Gate("async")
    runtime = Runtime(sequence(("gate", gate.node())), store="memory:")
    running = Beside(lambda: call(face, runtime, "run", {}, thread="t"))
    assert gate.running.wait(PATIENCE_S)
    runtime.cancel("t")
    running.result()
    gate.open.set()

    result = call(face, runtime, "run", {"notes": ["again"]}, thread="t")

    assert result.status == "completed"
    assert result.state["notes"] == ["again", "gate"]


def test_cancel_while_a_retry_waits(face: str) -> None:
    from graphrt import RetryPolicy

    failed = threading.Event()

    def bad(state: Any) -> Any:
        failed.set()
        raise ConnectionError

    policy = {"retry": RetryPolicy(5, wait_initial_s=60, wait_max_s=60, jitter=False)}
    runtime = Runtime(sequence(("bad", bad), bad=policy), store="memory:")
    running = Beside(lambda: call(face, runtime, "run", {}, thread="t"))
    assert failed.wait(PATIENCE_S)
    time.sleep(0.01)

    runtime.cancel("t")

    assert running.result().status == "cancelled"


def test_queued_sync_tasks_never_start_after_a_cancellation(face: str) -> None:
    runs: list[str] = []
    runtime: Any = None

    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            runs.append(name)
            runtime.cancel("t")
            return {"notes": [name]}

        return (name, run)

    runtime = Runtime(parallel(*(node(f"n{i}") for i in range(5)), limits=Limits(max_concurrency=1)), store="memory:")

    assert call(face, runtime, "run", {}, thread="t").status == "cancelled"
    assert runs == ["n0"]
    runs.clear()
    for _ in range(5):
        result = call(face, runtime, "retry", "t")
    assert result.status == "completed"
    assert result.state["notes"] == [f"n{i}" for i in range(5)]
    assert runs == [f"n{i}" for i in range(1, 5)]


def test_no_sync_task_starts_at_the_moment_of_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may learn of the cancellation and of the end of the task that requested it at once."""
    submitted: list[str] = []
    submit = ThreadPool.submit

    def spied(pool: ThreadPool, job: Any) -> None:
        submitted.append(job.task.node.name)
        submit(pool, job)

    monkeypatch.setattr(ThreadPool, "submit", spied)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def node(name: str) -> Any:
            def run(state: Any) -> Any:
                begun = threading.Event()
                loop.call_soon_threadsafe(lambda: (begun.set(), ended.wait(PATIENCE_S)))
                begun.wait(PATIENCE_S)  # the loop is busy until the task has ended
                runtime.cancel("t")
                threading.Timer(0.05, ended.set).start()
                return {"notes": [name]}

            return (name, run)

        ended = threading.Event()
        graph = parallel(node("n0"), node("n1"), limits=Limits(max_concurrency=1))
        runtime = Runtime(graph, store="memory:")

        assert (await runtime.arun({}, thread="t")).status == "cancelled"

    asyncio.run(main())

    assert submitted == ["n0"]


def test_close_cancels_active_runs_even_if_their_cleanup_awaits(face: str) -> None:
    running = threading.Event()
    ended: list[str] = []

    async def slow(state: Any) -> Any:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.005)
            ended.append("clean")

    with Runtime(sequence(("slow", slow)), store="memory:") as runtime:
        work = Beside(lambda: call(face, runtime, "run", {}, thread="t"))
        assert running.wait(PATIENCE_S)
        runtime.close()
        assert work.result().status == "cancelled"

    assert ended == ["clean"]


def test_close_during_a_run_without_a_thread_ends_it(face: str) -> None:
    running = threading.Event()

    async def slow(state: Any) -> Any:
        running.set()
        await asyncio.sleep(0.2)

    with Runtime(sequence(("slow", slow))) as runtime:
        work = Beside(lambda: call(face, runtime, "run", {}))
        assert running.wait(PATIENCE_S)
        runtime.close()
        try:
            status = work.result().status
        except Exception as error:  # noqa: BLE001 - asserted below
            status = type(error).__module__
    assert status in {"completed", "cancelled", "graphrt.errors"}


def test_close_closes_its_store_when_the_last_run_has_ended(face: str) -> None:
    """The runs still store their cancellation."""
    gates = {"t": Gate("sync"), "u": Gate("sync")}

    def wait(state: Any, ctx: Any) -> Any:
        gates[ctx.thread].running.set()
        assert gates[ctx.thread].open.wait(PATIENCE_S)

    runtime = Runtime(sequence(("wait", wait), ("last", note("last"))), store="memory:")
    store: Any = runtime.store
    works = {thread: Beside(lambda thread=thread: call(face, runtime, "run", {}, thread=thread)) for thread in gates}
    assert all(gate.running.wait(PATIENCE_S) for gate in gates.values())
    runtime.close()

    gates["t"].open.set()
    assert works["t"].result().status == "cancelled"
    assert {head.thread for head in store.query(ThreadFilter())} == {"t", "u"}

    gates["u"].open.set()
    assert works["u"].result().status == "cancelled"
    with pytest.raises(StoreError) as caught:
        store.query(ThreadFilter())
    assert caught.value.code == "store-closed"


def test_close_does_not_close_a_store_of_the_caller(face: str) -> None:
    gate = Gate("sync")
    store = open_store("memory:")
    runtime = Runtime(sequence(("gate", gate.node())), store=store)
    work = Beside(lambda: call(face, runtime, "run", {}, thread="t"))
    assert gate.running.wait(PATIENCE_S)
    runtime.close()
    gate.open.set()
    assert work.result().status == "cancelled"

    assert [head.thread for head in store.query(ThreadFilter())] == ["t"]


def test_close_in_a_node_closes_the_store_after_the_run(face: str) -> None:
    runtime: Any = None

    def stop(state: Any) -> Any:
        runtime.close()

    runtime = Runtime(sequence(("stop", stop), ("last", note("last"))), store="memory:")

    assert call(face, runtime, "run", {}, thread="t").status == "cancelled"
    with pytest.raises(StoreError, match="closed"):
        runtime.state("t")


def test_close_during_a_stream_closes_the_store_at_its_end() -> None:
    runtime = Runtime(sequence(("a", note("a")), ("b", note("b"))), store="memory:")
    store: Any = runtime.store
    steps = runtime.steps({}, thread="t")
    next(steps)
    runtime.close()
    assert [head.thread for head in store.query(ThreadFilter())] == ["t"]
    assert list(steps) == []

    with pytest.raises(StoreError, match="closed"):
        store.query(ThreadFilter())
