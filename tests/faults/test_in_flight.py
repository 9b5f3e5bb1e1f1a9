"""The store fails while tasks are running: they end before the run does, and no node sees the fault as its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, GraphBuilder, Limits, NodeError, Runtime, StoreError
from graphrt._drivers import aio, async_parallel_tasks, attempt_times
from graphrt.errors import DeadlineError
from graphrt.limits import RetryPolicy
from graphrt.reducers import append
from graphrt.stores import MemoryStore

from .faulty import PATIENCE_S, FaultyStore, nothing_left, within_reason, worker_threads


class State(te.TypedDict):
    notes: Annotated[list[str], append]


class Failing(FaultyStore):
    """Fails at the first commit that stages an outcome, and reports it."""

    def __init__(self, inner: Any, *, prefix: str = "", once: bool = True) -> None:
        super().__init__(inner)
        self.prefix = prefix
        self.once = once

    def commit(self, claim: Any, commit: Any) -> None:
        if any(key.startswith(self.prefix) for key, _ in commit.stage) and not (self.once and self.failed):
            self.failed = "commit"
            raise StoreError("Planted.", code="store-full", fix="Nothing.")
        self.inner.commit(claim, commit)


def call(runtime: Any, face: str, verb: str, *arguments: Any, **options: Any) -> Any:
    if face == "sync":
        return getattr(runtime, verb)(*arguments, **options)
    return asyncio.run(getattr(runtime, f"a{verb}")(*arguments, **options))


def pair(quick, slow):
    g = GraphBuilder(State, name="pair")
    g.add_node("quick", quick)
    g.add_node("slow", slow)
    for name in ("quick", "slow"):
        g.add_edge(START, name).add_edge(name, END)
    return g.compile()


def test_async_task_is_cancelled_and_awaited_before_the_run_ends():
    ended = []

    async def quick(state):
        return {"notes": ["quick"]}

    async def slow(state):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cancelled")
            raise

    async def drive():
        others = asyncio.all_tasks()
        runtime = Runtime(pair(quick, slow), store=Failing(MemoryStore()))
        with pytest.raises(StoreError, match="Planted"):
            await asyncio.wait_for(runtime.arun({"notes": []}, thread="t"), PATIENCE_S)
        assert asyncio.all_tasks() == others
        assert ended == ["cancelled"]

    asyncio.run(drive())


def test_sync_task_is_notified_and_awaited_before_the_run_ends():
    before = worker_threads()
    began = threading.Event()
    ended = []

    def quick(state):
        assert began.wait(PATIENCE_S)
        return {"notes": ["quick"]}

    def slow(state, ctx):
        began.set()
        pause = threading.Event()
        while not ctx.cancelled:
            pause.wait(0.005)
        ended.append(ctx.cancelled)
        return {"notes": ["slow"]}

    runtime = Runtime(pair(quick, slow), store=Failing(MemoryStore()))
    with pytest.raises(StoreError, match="Planted"):
        within_reason(lambda: runtime.run({"notes": []}, thread="t"))

    assert ended == [True]
    nothing_left(before)


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("alone", [False, True], ids=["beside-another", "alone"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nested_graph_that_cannot_be_stored_is_not_a_failure_of_its_node(face, alone, kind):
    """Neither `retry` nor `on_error` sees it: a node cannot do anything about it."""
    runs = []

    def one(state):
        runs.append("one")
        return {"notes": ["one"]}

    async def aone(state):
        return one(state)

    def two(state):
        runs.append("two")
        return {"notes": ["two"]}

    def handle(state, ctx):
        runs.append("handled")

    child = GraphBuilder(State, name="child")
    child.add_node("one", one if kind == "sync" else aone)
    child.add_node("two", two)
    child.add_edge(START, "one").add_edge("one", "two").add_edge("two", END)
    g = GraphBuilder(State, name="parent")
    g.add_node("nested", child.compile(), retry=RetryPolicy(attempts=3, wait_initial_s=0.0), on_error="handle")
    g.add_node("handle", handle)
    g.add_edge(START, "nested").add_edge("nested", END).add_edge("handle", END)
    if not alone:
        g.add_node("beside", lambda state: {"notes": ["beside"]})
        g.add_edge(START, "beside").add_edge("beside", END)
    store = Failing(MemoryStore(), prefix="1.0:nested/")
    runtime = Runtime(g.compile(), store=store)

    with pytest.raises(StoreError, match="Planted"):
        within_reason(lambda: call(runtime, face, "run", {"notes": []}, thread="t"))
    assert runs == ["one"]
    assert runtime.state("t").status == "running"

    done = within_reason(lambda: call(runtime, face, "retry", "t"))
    assert done.state["notes"] == ["one", "two"] + ([] if alone else ["beside"])
    assert "handled" not in runs


@pytest.mark.parametrize("face", ["sync", "async"])
def test_failure_of_a_nodes_own_store_is_a_failure_of_the_node(face):
    """It is handled like any other failure."""

    def node(state):
        raise StoreError("mine", code="store-full", fix="Nothing.")

    g = GraphBuilder(State)
    g.add_node("node", node)
    g.add_edge(START, "node").add_edge("node", END)
    with MemoryStore() as store:
        runtime = Runtime(g.compile(), store=store)
        with pytest.raises(NodeError) as caught:
            call(runtime, face, "run", {"notes": []}, thread="t")

        assert isinstance(caught.value.__cause__, StoreError)
        assert runtime.state("t").status == "failed"


@pytest.mark.parametrize("face", ["sync", "async"])
def test_effect_with_an_unstored_result_is_not_repeated_if_the_failure_was_stored(face):
    """The node fails, and its effects are stored with the failure."""
    done = []

    def node(state, ctx):
        return {"notes": [ctx.effect("pay", lambda: done.append("paid") or "paid")]}

    g = GraphBuilder(State)
    g.add_node("node", node)
    g.add_edge(START, "node").add_edge("node", END)
    runtime = Runtime(g.compile(), store=Failing(MemoryStore(), prefix="1.0:node#"))
    with pytest.raises(StoreError):
        call(runtime, face, "run", {"notes": []}, thread="t")

    assert call(runtime, face, "retry", "t").state["notes"] == ["paid"]
    assert done == ["paid"]


def test_deadline_before_another_attempt_ends_the_other_tasks_first(monkeypatch):
    """They end before the run does, like after any failure."""
    now = [0.0]
    for module in (aio, async_parallel_tasks, attempt_times):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    began = threading.Event()
    ended = []

    def flaky(state):
        assert began.wait(PATIENCE_S)
        now[0] = 2_000.0
        raise ConnectionError("planted")

    async def slow(state):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    g = GraphBuilder(State, name="pair")
    g.add_node("flaky", flaky, retry=RetryPolicy(attempts=3, wait_initial_s=0.0))
    g.add_node("slow", slow)
    for name in ("flaky", "slow"):
        g.add_edge(START, name).add_edge(name, END)
    runtime = Runtime(g.compile(), store=MemoryStore(), limits=Limits(deadline_s=1_000))

    async def drive():
        others = asyncio.all_tasks()
        with pytest.raises(DeadlineError):
            await runtime.arun({"notes": []}, thread="t")
        assert asyncio.all_tasks() == others
        assert ended == ["cancelled"]

    asyncio.run(drive())
