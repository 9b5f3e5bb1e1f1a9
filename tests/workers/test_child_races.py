"""Two executions of one task that start a child, and a parent that another process cancels in between (R24)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt._engine.child_threads import child_id
from graphrt._runs import open_run
from graphrt._runs.child_threads import ThreadsOfRun
from graphrt.errors import RunFailedError, StoreError
from graphrt.stores import MemoryStore
from graphrt.testing import drive_due
from graphrt.testing.flaky_store import Fault, FlakyStore

from .child_support import Plan, ask, child_of, double, started, work_graph
from .mail_support import PATIENT_S, Open

KID = child_id("p", "1.0:go", "0")
CHILD = work_graph(double)


def making(parents: Runtime[Any]) -> ThreadsOfRun:
    """The execution of a process that lost its claim on the parent and does not know it yet."""
    return ThreadsOfRun(parents._config, "p", open_run.begin)


def test_child_that_starts_after_its_parent_was_cancelled_is_also_cancelled(open_: Open) -> None:
    """The parent's request to cancel went to a thread that did not exist yet."""
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({"most": 0}, thread="p")
    parents.start({"most": 0}, thread="p")
    parents.cancel("p")
    late = making(parents)
    late.make(asked, {}, KID, None, detached=False)
    late.make(asked, {}, f"{KID[:-1]}x", None, detached=True)
    drive_due(children)

    assert {one: children.state(one).status for one in started(children)} == {
        KID: "cancelled",
        f"{KID[:-1]}x": "interrupted",
    }


def test_two_executions_of_a_task_start_its_child_once(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({"most": 0}, thread="p")
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(making(parents).make, asked, {"n": n}, KID, None, detached=False) for n in range(4)]:
            made.result(PATIENT_S)

    assert started(children) == [KID]
    assert [type(entry.event).__name__ for entry in children.entries(KID)] == ["RunStarted", "RunHandedOver"]


def test_child_is_started_although_the_execution_that_claimed_its_id_died(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({"most": 0}, thread="p")
    store: Any = children.store
    other = store.claim(KID, create=True, lease_s=60, at=0.0)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(making(parents).make, asked, {}, KID, None, detached=False)
        time.sleep(0.2)
        assert not made.done()
        store.release(other)
        made.result(PATIENT_S)

    assert started(children) == [KID]


def test_parent_is_notified_of_a_parked_child(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    (kid,) = started(children)
    with pytest.raises(RunFailedError, match="parked"):
        children.drive(kid, max_tries=0)

    assert parents.due(graph="parent")[0].thread == "p"


@pytest.mark.parametrize("queue", [None, "gpu"])
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("fault", ["held", "away"])
def test_store_failure_while_a_child_starts_is_not_a_failure_of_the_node(
    queue: str | None, way: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread or queued task is left unchanged: neither a retry policy nor an `on_error` node sees the error."""
    store = MemoryStore()
    ran: list[str] = []

    def broken() -> None:
        ran.append("node")
        if len(ran) == 1 and fault == "away":
            faulty = FlakyStore(store, [Fault("claim")])
            claim = store.claim
            faulty.store = cast("Any", SimpleNamespace(claim=claim))
            monkeypatch.setattr(store, "claim", faulty.claim)

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        broken()
        return {"got": [ctx.wait(ctx.start(CHILD, {"n": 4})).out]}

    async def ago(state: Plan, ctx: Context) -> dict[str, Any]:
        broken()
        return {"got": [(await ctx.await_(await ctx.astart(CHILD, {"n": 4}))).out]}

    g = GraphBuilder(Plan, name="parent")
    g.add_node("go", go if way == "sync" else ago, queue=queue, retry=RetryPolicy(attempts=3), on_error="handle")
    g.add_node("handle", lambda state: ran.append("handler"))
    g.add_edge(START, "go").add_edge("go", END).add_edge("handle", END)
    graph = g.compile()
    with Runtime(graph, store=store, lease_s=0.05) as parents, Runtime(CHILD, store=store) as children:
        parents.start({}, thread="p")
        run = partial(parents.run_task, "p", "1.0:go") if queue else partial(parents.drive, "p")
        if queue:
            parents.drive("p")
        other = store.claim(KID, create=True, lease_s=60, at=0.0) if fault == "held" else None
        with pytest.raises(StoreError) as caught:
            run()
        assert caught.value.code == {"held": "conflict", "away": "store-unavailable"}[fault]
        assert parents.state("p").status == ("interrupted" if queue else "running")
        if other is not None:
            store.release(other)
        run()
        if queue:
            parents.drive("p")
        children.drive(KID)
        parents.drive("p")
        if queue:
            run()
            parents.drive("p")

        assert parents.state("p").values.got == [8]
        assert set(ran) == {"node"}
        assert not {"TaskRetried", "TaskFailed", "RunFailed"} & {
            type(one.event).__name__ for one in parents.entries("p")
        }
