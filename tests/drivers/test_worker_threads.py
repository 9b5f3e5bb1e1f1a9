"""The worker threads of a runtime: their number, their lifetime, and that no task waits for one forever (rule R19)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, InputError, Limits, Runtime, Send
from graphrt.errors import DeadlineError

from .support import PATIENCE_S, State, note, parallel, sequence
from .test_max_concurrency import Gauge


def where(state: Any) -> dict[str, Any]:
    """A node that notes its thread."""
    return {"notes": [threading.current_thread()]}


class Held:
    """A sync node that waits until it is released."""

    def __init__(self) -> None:
        self.ran = 0
        self.running, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, state: Any) -> Any:
        self.ran += 1
        self.running.set()
        assert self.go.wait(PATIENCE_S)
        self.ended.set()
        return {"n": 1}

    async def begun(self) -> None:
        while not self.running.is_set():  # noqa: ASYNC110 - set from a worker thread
            await asyncio.sleep(0.001)


def test_worker_threads_live_while_the_runtime_is_open() -> None:
    async def main() -> None:
        async with Runtime(sequence(("a", where))) as runtime:
            found = [(await runtime.arun({})).state["notes"][0] for _ in range(3)]
            assert len(set(found)) == 1
            assert found[0].is_alive()
        assert not found[0].is_alive()

    asyncio.run(main())


def test_worker_threads_end_with_the_run_without_a_with_block() -> None:
    (thread,) = asyncio.run(Runtime(sequence(("a", where))).arun({})).state["notes"]

    assert not thread.is_alive()


def test_loop_thread_of_a_run_after_close_ends_with_the_run() -> None:
    """A runtime that is used again after its `with` block leaves no thread behind."""

    async def there(state: Any) -> dict[str, Any]:
        return where(state)

    with Runtime(sequence(("a", there))) as runtime:
        first = runtime.run({}).state["notes"][0]
    second = runtime.run({}).state["notes"][0]

    assert not first.is_alive()
    assert not second.is_alive()


def test_the_pool_bounds_the_sync_nodes_of_all_runs_of_a_runtime() -> None:
    gauge = Gauge(3)
    graph = parallel(*[(f"n{number}", gauge.sync) for number in range(5)])

    async def main() -> None:
        async with Runtime(graph, worker_threads=3) as runtime:
            await asyncio.gather(*(runtime.arun({}) for _ in range(3)))

    asyncio.run(main())

    assert gauge.entered == 15
    assert gauge.peak == 3


def test_a_thousand_sends_run_on_one_worker_thread() -> None:
    g: Any = GraphBuilder(State)
    g.add_node("begin", lambda s: None).add_edge(START, "begin")
    g.add_node("work", lambda s, ctx: {"notes": [ctx.arg]}).add_edge("work", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", number) for number in range(1_000)], ["work"])

    result = asyncio.run(g.compile().arun({}, worker_threads=1))

    assert result.state["notes"] == list(range(1_000))


@pytest.mark.parametrize("how", ["run", "asyncio.run", "ctx.call", "thread"])
def test_node_may_wait_for_runs_of_its_own_runtime(how: str) -> None:
    """With a single worker thread, which the outer node holds while it waits, three runs deep."""

    def descend(state: Any, ctx: Any) -> Any:
        depth = state["x"]
        if depth == 0:
            return {"notes": ["bottom"]}
        inner: Any = {"x": depth - 1}
        if how == "run":
            result = runtime.run(inner)
        elif how == "asyncio.run":
            result = asyncio.run(runtime.arun(inner))
        elif how == "ctx.call":
            result = ctx.call(runtime.arun, inner)
        else:
            with ThreadPoolExecutor(1) as executor:
                result = executor.submit(runtime.run, inner).result(PATIENCE_S)
        return {"notes": [*result.state["notes"], depth]}

    runtime: Any = Runtime(parallel(("a", descend), ("b", note("b"))), worker_threads=1)

    found = asyncio.run(asyncio.wait_for(runtime.arun({"x": 3}), PATIENCE_S)).state["notes"]

    assert found == ["bottom", "b", 1, "b", 2, "b", 3, "b"]


def test_nested_graphs_share_the_only_worker_thread() -> None:
    inner = parallel(("a", where), ("b", where))
    graph = parallel(("left", sequence(("deep", inner))), ("right", inner), ("leaf", where))

    found = asyncio.run(graph.arun({}, worker_threads=1)).state["notes"]

    assert len(found) == 5
    assert len(set(found)) == 1


@pytest.mark.parametrize("beside", [False, True])
def test_cancelling_the_awaiting_task_waits_for_the_node_and_keeps_its_outcome(beside: bool) -> None:
    held = Held()
    nodes = [("held", held), *([("other", note("other"))] if beside else [])]
    runtime = Runtime(parallel(*nodes, limits=Limits(grace_s=PATIENCE_S)), store="memory:")

    async def main() -> None:
        task = asyncio.create_task(runtime.arun({}, thread="t"))
        await held.begun()
        task.cancel()
        await asyncio.sleep(0)
        held.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert held.ended.is_set()
    assert runtime.state("t").status == "cancelled"
    assert runtime.retry("t").state["n"] == 1
    assert held.ran == 1


@pytest.mark.parametrize("beside", [False, True])
def test_node_that_exceeds_the_grace_time_is_abandoned(beside: bool) -> None:
    held = Held()
    nodes = [("held", held), *([("other", note("other"))] if beside else [])]
    runtime = Runtime(parallel(*nodes, limits=Limits(grace_s=0.01)), store="memory:", worker_threads=1)

    async def main() -> None:
        task = asyncio.create_task(runtime.arun({}, thread="t"))
        await held.begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not held.ended.is_set()

    asyncio.run(main())
    assert runtime.state("t").status == "cancelled"
    held.go.set()

    assert runtime.retry("t").state["n"] == 1
    assert held.ran == 2


def test_cancel_ends_a_run_whose_sync_node_holds_a_worker_thread() -> None:
    held = Held()
    runtime = Runtime(sequence(("held", held), ("next", note("next"))), store="memory:", limits=Limits(grace_s=0.01))

    async def main() -> Any:
        task = asyncio.create_task(runtime.arun({}, thread="t"))
        await held.begun()
        assert runtime.cancel("t")
        return await task

    assert asyncio.run(main()).status == "cancelled"
    held.go.set()


def test_node_that_waits_for_a_worker_thread_does_not_start_after_a_cancellation() -> None:
    held, other = Held(), Held()
    runtime = Runtime(sequence(("held", held)), store="memory:", worker_threads=1)
    never = runtime.graph.with_nodes({"held": other})

    async def main() -> None:
        async with runtime:
            second: Any = Runtime(never, store=runtime.store)
            second._config.threads._pool = runtime._config.threads.pool()
            first = asyncio.create_task(runtime.arun({}, thread="a"))
            await held.begun()
            waiting = asyncio.create_task(second.arun({}, thread="b"))
            await asyncio.sleep(0.005)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            held.go.set()
            await first

    asyncio.run(main())

    assert other.ran == 0


def test_timeout_starts_when_a_worker_thread_takes_the_node() -> None:
    """The second run waits for the only worker thread longer than its node may take."""
    held = Held()

    def choose(state: Any) -> Any:
        return held(state) if state["x"] else {"n": 1}

    graph = sequence(("a", choose), a={"timeout_s": 1.0})
    slow = graph.with_nodes({"a": choose})

    async def main() -> Any:
        async with Runtime(slow, worker_threads=1) as runtime:
            blocker: Any = Runtime(sequence(("held", held)))
            blocker._config.threads._pool = runtime._config.threads.pool()
            first = asyncio.create_task(blocker.arun({}))
            await held.begun()
            second = asyncio.create_task(runtime.arun({"x": 0}))
            asyncio.get_running_loop().call_later(1.1, held.go.set)
            await first
            return await second

    assert asyncio.run(main()).state["n"] == 1


def test_a_deadline_ends_a_run_that_waits_for_a_worker_thread() -> None:
    held, other = Held(), Held()

    async def main() -> None:
        async with Runtime(sequence(("held", held)), worker_threads=1) as runtime:
            second: Any = Runtime(sequence(("other", other)), limits=Limits(deadline_s=0.02))
            second._config.threads._pool = runtime._config.threads.pool()
            first = asyncio.create_task(runtime.arun({}))
            await held.begun()
            with pytest.raises(DeadlineError):
                await second.arun({})
            held.go.set()
            await first

    asyncio.run(main())

    assert other.ran == 0


def test_abandoned_worker_thread_is_replaced() -> None:
    """The only worker thread hangs in a node that timed out; the next node runs on another."""
    held = Held()
    g: Any = GraphBuilder(State)
    g.add_node("held", held, timeout_s=0.01, on_error="mend").add_node("mend", note("mended"))
    g.add_edge(START, "held").add_edge("held", END).add_edge("mend", END)

    result = asyncio.run(g.compile().arun({}, worker_threads=1))
    held.go.set()

    assert result.state["notes"] == ["mended"]


@pytest.mark.parametrize("number", [0, -1, 1.5, True, None, "4"])
def test_worker_threads_must_be_a_positive_number(number: Any) -> None:
    with pytest.raises(InputError, match="worker_threads= cannot be") as caught:
        Runtime(sequence(("a", where)), worker_threads=number)

    assert caught.value.code == "input"
