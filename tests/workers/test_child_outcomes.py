"""Child threads that do not complete, and the fate of children whose parent is cancelled or ends (R24)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphrt import Context, NodeError
from graphrt.errors import ChildThreadError, WaitTimeoutError
from graphrt.stores.filters import MailFilter
from graphrt.testing import drive_due
from graphrt.workers import Worker

from .child_support import Broken, Plan, Work, ask, child_of, double, plan_graph, started, work_graph
from .mail_support import PATIENT_S, Gate, Open


def test_failed_child_fails_its_parent_until_it_is_repaired(open_any: Open) -> None:
    broken = Broken()
    child = work_graph(broken.work)
    parents, children = open_any(child_of(child)), open_any(child)
    parents.run({}, thread="p")
    for runtime in (children, parents):
        with pytest.raises(NodeError) as caught:
            drive_due(runtime)
    error = caught.value.__cause__
    assert isinstance(error, ChildThreadError)
    (kid,) = started(children)
    assert (error.code, error.thread, error.status) == ("child-ended", kid, "failed")
    assert "ValueError: broken" in str(error)
    with pytest.raises(NodeError):  # nothing has changed
        parents.retry("p")
    broken.mended = True
    assert children.retry(kid).state.out == 1
    result = parents.retry("p")

    assert (result.status, result.state.got) == ("completed", [1])
    assert parents.reexecute("p").same
    assert parents.replay("p").values.got == [1]


def test_caught_failure_of_a_child_is_replayed_after_the_child_was_repaired(open_: Open) -> None:
    """The child is repaired while its parent waits for a person; the parent's recorded outcome does not change."""
    broken = Broken()
    child = work_graph(broken.work)

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        try:
            told: Any = ctx.wait(ctx.start(child, {})).out
        except ChildThreadError as error:
            told = error.status
        return {"got": [told, ctx.interrupt("and now?")]}

    parents, children = open_(plan_graph(go)), open_(child)
    parents.run({}, thread="p")
    with pytest.raises(NodeError):
        drive_due(children)
    assert drive_due(parents)["p"].interrupts[0].payload == "and now?"
    broken.mended = True
    children.retry(started(children)[0])
    drive_due(parents, children)

    assert parents.resume("p", "go on").state.got == ["failed", "go on"]
    assert parents.reexecute("p").same


def test_a_parent_waits_while_its_child_waits_for_a_person(open_: Open) -> None:
    child = work_graph(ask)
    parents, children = open_(child_of(child)), open_(child)
    parents.run({}, thread="p")
    assert drive_due(parents, children)[started(children)[0]].status == "interrupted"
    with pytest.raises(WaitTimeoutError, match="waits for 1 child thread"):
        parents.wait("p", timeout_s=0)
    (item,) = children.inbox()
    assert item.interrupt.payload == "how much?"
    assert [one.thread for one in parents.inbox(kind="thread")] == ["p"]
    children.resume(item.thread, 5)

    assert drive_due(parents, children)["p"].state.got == [5]
    assert parents.wait("p", timeout_s=PATIENT_S).state.got == [5]


def test_parent_gets_an_error_when_its_child_was_deleted(open_: Open) -> None:
    child = work_graph(double)
    parents, children = open_(child_of(child)), open_(child)
    parents.run({}, thread="p")
    drive_due(children)
    children.delete_thread(started(children)[0])
    with pytest.raises(NodeError) as caught:
        drive_due(parents)

    assert isinstance(caught.value.__cause__, ChildThreadError)
    assert caught.value.__cause__.status == "deleted"


def test_parent_waits_again_for_a_child_that_has_begun_another_run(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    kid = started(children)[0]
    drive_due(children)
    children.resume(kid, 1)
    children.run({"n": 1}, thread=kid)  # it waits for a person again
    assert drive_due(parents)["p"].status == "interrupted"
    children.resume(kid, 2)

    assert drive_due(parents)["p"].state.got == [2]
    assert parents.reexecute("p").same


def test_children_are_cancelled_with_their_parent_unless_detached(open_any: Open) -> None:
    """Grandchildren too, but only children that are not known to have ended."""
    leaf = work_graph(ask, name="leaf")

    def middle(state: Work, ctx: Context) -> dict[str, Any]:
        return {"out": ctx.wait(ctx.start(leaf, {})).out}

    mid, quick = work_graph(middle, name="mid"), work_graph(double, name="quick")

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        ended = ctx.start(quick, {}, name="ended")
        free = ctx.start(leaf, {}, name="free", detached=True)
        bound = ctx.start(mid, {}, name="bound")
        return {"got": [ctx.wait(ended).out, ctx.wait(bound).out, ctx.wait(free).out]}

    runtimes = [open_any(graph) for graph in (plan_graph(go), mid, quick, leaf)]
    parents = runtimes[0]
    parents.run({}, thread="p")
    drive_due(*runtimes)
    assert parents.cancel("p")
    assert parents.wait("p", timeout_s=PATIENT_S).status == "cancelled"
    drive_due(*runtimes)

    found = {info.thread.partition("-")[0]: info.status for info in parents.threads()}
    assert found["p.ended"] == "completed"
    assert found["p.bound"] == "cancelled"
    assert found["p.free"] == "interrupted"
    (grandchild,) = [info for info in parents.threads(graph="leaf") if info.thread.count(".") == 2]
    assert grandchild.status == "cancelled"
    assert parents.due(graph="parent") == ()
    last = list(parents.entries("p"))[-1].event
    assert [one.partition("-")[0] for one in last.threads] == ["p.bound"]  # type: ignore[union-attr]


def test_a_running_child_sees_that_its_parent_is_cancelled(open_: Open) -> None:
    gate = Gate()

    def node(state: Work, ctx: Context) -> dict[str, Any]:
        return gate.node(state, ctx) and {}  # type: ignore[arg-type]

    child = work_graph(node)
    parents, children = open_(child_of(child)), open_(child)
    parents.run({}, thread="p")
    with Worker(children):
        assert gate.began.wait(PATIENT_S)
        parents.cancel("p")
        (kid,) = started(children)

        assert children.wait(kid, timeout_s=PATIENT_S).status == "cancelled"
    assert gate.cancelled
    event = list(children.entries(kid))[-1].event
    assert event.reason == "its parent 'p' was cancelled"  # type: ignore[union-attr]


def test_abandoned_run_cancels_its_children(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    parents.run({"most": 0}, thread="p", if_exists="abandon")
    drive_due(parents, children)

    assert [children.state(one).status for one in started(children)] == ["cancelled"]


def test_retry_of_a_cancelled_parent_sees_its_cancelled_children(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    parents.cancel("p")
    drive_due(parents, children)
    with pytest.raises(NodeError) as caught:
        parents.retry("p")
    assert isinstance(caught.value.__cause__, ChildThreadError)
    assert caught.value.__cause__.status == "cancelled"
    (kid,) = started(children)
    children.retry(kid)
    children.resume(kid, 3)

    assert parents.retry("p").state.got == [3]


def test_parent_that_has_ended_does_not_cancel_its_children(open_: Open) -> None:
    asked = work_graph(ask)

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"child": ctx.start(asked, {}).thread}

    parents, children = open_(plan_graph(go)), open_(asked)
    kid = parents.run({}, thread="p").state.child
    parents.run({"most": 2}, thread="p")
    parents.cancel("p")
    drive_due(parents, children)
    assert children.state(kid).status == "interrupted"
    assert children.resume(kid, 1).state.out == 1


def test_cancellation_by_the_parent_does_not_reach_a_later_run_of_the_child(open_: Open) -> None:
    """The child had failed when its parent was cancelled; a person then retries the child."""
    broken, gate = Broken(), Gate()

    def node(state: Work, ctx: Context) -> dict[str, Any]:
        if broken.mended:
            gate.began.set()
            assert gate.go.wait(PATIENT_S)
        return broken.work(state)

    child = work_graph(node)
    parents, children = open_(child_of(child)), open_(child)
    parents.run({}, thread="p")
    with pytest.raises(NodeError):
        drive_due(children)
    (kid,) = started(children)
    parents.cancel("p")
    assert len(children.store.query(MailFilter(thread=kid))) == 1  # type: ignore[union-attr]
    broken.mended = True
    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(children.retry, kid)
        assert gate.began.wait(PATIENT_S)
        time.sleep(0.3)  # longer than the run needs to read its mail
        gate.go.set()
        result = retried.result(PATIENT_S)

    assert result.status == "completed"
    assert children.store.query(MailFilter(thread=kid)) == []  # type: ignore[union-attr]
