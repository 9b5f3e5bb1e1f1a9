"""Other verbs on threads that have children or a parent, and invalid calls about child threads (R24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.stores.test_finding import Plain

from graphrt import START, ChildThread, Context, GraphBuilder, Runtime
from graphrt.errors import GraphrtError, InputError
from graphrt.stores import MemoryStore, SqliteStore, TenantStore
from graphrt.testing import drive_due, run_scripted

from .child_support import Plan, ask, child_of, double, plan_graph, started, work_graph
from .mail_support import Open, kinds, refused

# -- other verbs on parents -------------------------------------------------------------------------------------------


def test_fork_has_its_own_children_or_the_recorded_outcomes_of_its_source(open_any: Open) -> None:
    child = work_graph(double)
    parents, children = open_any(child_of(child)), open_any(child)
    parents.run({}, thread="p")
    fork = parents.fork("p", to="f")  # while it waits
    drive_due(parents, children)
    assert parents.state(fork).values.got == [0]
    assert (len(started(children)), len(started(children, "f"))) == (1, 1)
    assert parents.state("p").values.got == [0]
    begin = next(entry.seq for entry in parents.entries("p"))
    again = parents.fork("p", at=begin, to="g", keep_effects=True)
    parents.retry(again) if parents.state(again).status == "running" else None

    assert parents.state("g").values.got == [0]
    assert started(children, "g") == []


def test_fork_has_its_own_children_of_nested_graphs(open_: Open) -> None:
    child = work_graph(double)
    middle = GraphBuilder(Plan, name="middle").add_node("inner", child_of(child)).add_edge(START, "inner")
    outer = GraphBuilder(Plan, name="outer").add_node("middle", middle.compile()).add_edge(START, "middle")
    parents, children = open_(outer.compile()), open_(child)
    parents.run({}, thread="p")
    fork = parents.fork("p", to="f")
    assert parents.retry(fork).status == "interrupted"
    assert (len(started(children)), len(started(children, "f"))) == (1, 1)
    drive_due(parents, children)

    assert parents.state("f").values.got == parents.state("p").values.got == [0]


def test_cancelling_a_fork_does_not_cancel_the_children_of_its_source(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    copy = parents.copy_thread("p", "c")
    assert parents.retry(copy).status == "interrupted"  # it starts its own child
    drive_due(parents, children)
    parents.cancel(copy)
    drive_due(parents, children)
    assert [children.state(one).status for one in started(children, "c")] == ["cancelled"]
    (kid,) = started(children)
    children.resume(kid, 1)

    assert drive_due(parents, children)["p"].state.got == [1]


def test_copy_of_a_child_has_no_parent(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    drive_due(children)
    (kid,) = started(children)
    copy = children.copy_thread(kid, "copy")
    children.resume(copy, 7)
    assert parents.due(graph="parent") == ()
    children.resume(kid, 8)

    assert drive_due(parents)["p"].state.got == [8]


def test_snapshots_and_prunes_keep_children_and_parents(open_: Open) -> None:
    asked = work_graph(ask)

    def start(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"child": ctx.start(asked, {}).thread}

    def finish(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"got": [ctx.wait(ChildThread(asked, state.child)).out]}

    parents, children = open_(plan_graph(start, finish)), open_(asked)
    for thread in ("p", "q"):
        parents.run({}, thread=thread)
        drive_due(children)
        parents.prune(thread)
        children.prune(started(children, thread)[0])
    parents.cancel("q")
    drive_due(parents, children)
    assert children.state(started(children, "q")[0]).status == "cancelled"
    children.resume(started(children)[0], 6)

    assert drive_due(parents, children)["p"].state.got == [6]


def test_waiting_task_takes_no_answer_and_a_retry_checks_the_child_again(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    paused = parents.run({}, thread="p")
    refused("waits-for-thread", lambda: parents.resume("p", 3))
    refused("waits-for-thread", lambda: parents.resume("p", {paused.interrupts[0].id: 3}))
    refused("not-due", lambda: parents.drive("p"))
    assert parents.retry("p").status == "interrupted"
    drive_due(children)
    children.resume(started(children)[0], 4)

    assert parents.retry("p").state.got == [4]


def test_worker_of_the_shared_store_drives_families_of_tenants(tmp_path: Path) -> None:
    """It addresses the same threads by longer ids, and recorded outcomes by the same ids."""
    child = work_graph(double)

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        first = ctx.wait(ctx.start(child, {"n": 1})).out
        return {"got": [first, ctx.wait(ctx.start(child, {"n": 2})).out]}

    parent = plan_graph(go)
    with SqliteStore(tmp_path / "runs.db") as shared, TenantStore(shared, "acme") as acme:
        mine, kids = Runtime(parent, store=acme), Runtime(child, store=acme)
        all_, all_kids = Runtime(parent, store=shared), Runtime(child, store=shared)
        mine.run({}, thread="p")
        drive_due(kids)
        mine.drive("p")  # the second child is started by the tenant's process
        results = drive_due(all_, all_kids)

        assert results["acme~p"].state.got == [2, 4]
        assert mine.state("p").values.got == [2, 4]
        assert len(started(kids)) == len(started(all_kids, "acme~p")) == 2
        assert mine.reexecute("p").same
        assert all_.reexecute("acme~p").same
        mine.run({}, thread="q")
        all_.cancel("acme~q")
        drive_due(kids)
        assert kids.state(started(kids, "q")[0]).status == "cancelled"


def test_exported_family_continues_in_another_store(tmp_path: Path) -> None:
    asked = work_graph(ask)
    parent = child_of(asked)
    with SqliteStore(tmp_path / "first.db") as first:
        parents, children = Runtime(parent, store=first), Runtime(asked, store=first)
        parents.run({}, thread="p")
        drive_due(children)
        for n, thread in enumerate(("p", *started(children))):
            first.export_thread(thread, tmp_path / f"{n}.export")
    with SqliteStore(tmp_path / "second.db") as second:
        parents, children = Runtime(parent, store=second), Runtime(asked, store=second)
        for n in range(2):
            second.import_thread(tmp_path / f"{n}.export")
        children.resume(started(children)[0], 9)

        assert drive_due(parents, children)["p"].state.got == [9]


# -- bad input --------------------------------------------------------------------------------------------------------


def failing(call: Any) -> GraphrtError:
    with pytest.raises(GraphrtError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda ctx: ctx.start("child", {}), "input"),
        (lambda ctx: ctx.start(work_graph(double), {}, name=""), "input"),
        (lambda ctx: ctx.start(work_graph(double), {}, name="x" * 101), "input"),
        (lambda ctx: ctx.wait("p.0"), "input"),
        (lambda ctx: ctx.start(work_graph(double), {}, tags="one"), "bad-label"),
    ],
)
def test_wrong_arguments_are_refused_before_an_entry_is_stored(open_: Open, wrong: Any, code: str) -> None:
    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        wrong(ctx)
        return {}

    parents = open_(plan_graph(go))
    error = failing(lambda: parents.run({}, thread="p"))

    assert code in (getattr(error, "code", ""), getattr(error.__cause__, "code", ""))
    assert [info.thread for info in parents.threads()] == ["p"]
    assert "ThreadStarted" not in kinds(parents, "p")


def test_invalid_input_of_a_child_is_refused_before_an_entry_is_stored(open_: Open) -> None:
    child = work_graph(double)

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        ctx.start(child, {"n": "many"})
        return {}

    parents = open_(plan_graph(go))
    failing(lambda: parents.run({}, thread="p"))

    assert "ThreadStarted" not in kinds(parents, "p")


def test_thread_that_is_not_a_child_can_be_read_but_not_waited_for(open_: Open) -> None:
    asked = work_graph(ask)
    children = open_(asked)
    children.run({}, thread="other")

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"got": [ctx.wait(ChildThread(asked, "other")).out]}

    parents = open_(plan_graph(go))
    error = failing(lambda: parents.run({}, thread="p"))
    assert isinstance(error, InputError)
    assert error.code == "not-a-child"
    children.resume("other", 1)

    assert parents.retry("p").state.got == [1]


@pytest.mark.parametrize("store", [None, "memory:"])
def test_run_without_a_thread_cannot_start_children(store: str | None) -> None:
    graph = child_of(work_graph(double))
    if store is None:
        assert failing(lambda: graph.run({})).code == "child-needs-store"
    else:
        assert run_scripted(graph, {}, store=store, thread="p").status == "interrupted"


def test_store_without_mail_cannot_start_children(tmp_path: Path) -> None:
    with Runtime(child_of(work_graph(double)), store=Plain(MemoryStore())) as runtime:
        assert failing(lambda: runtime.run({}, thread="p")).code == "child-needs-store"


def test_child_ids_fit_for_long_or_unusual_parents_and_names(open_: Open) -> None:
    child = work_graph(double)

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        names = ("ünlike any id / #kept", "a" * 100, "a" * 99 + "b")
        return {"got": [ctx.wait(ctx.start(child, {"n": n}, name=name)).out for n, name in enumerate(names)]}

    parents, children = open_(plan_graph(go)), open_(child)
    thread = "p" * 200
    parents.run({}, thread=thread)

    assert drive_due(parents, children)[thread].state.got == [0, 2, 4]
    assert all(len(info.thread) <= 200 for info in children.threads(graph="child"))
