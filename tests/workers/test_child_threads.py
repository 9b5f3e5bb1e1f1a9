"""Child threads: each starts once, a parent waits without a worker, and gets their outcomes (R24)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt import END, START, ChildThread, Context, GraphBuilder, NodeError, Send
from graphrt.testing import drive_due
from graphrt.workers import Worker

from .child_support import Plan, Work, child_of, double, plan_graph, started, work_graph
from .mail_support import PATIENT_S, Gate, Open, driven, kinds, soon


def test_a_parent_gets_the_states_of_its_children(open_any: Open) -> None:
    child = work_graph(double)
    parents, children = open_any(child_of(child)), open_any(child)
    paused = parents.run({"most": 3}, thread="p")
    assert (paused.status, [one.kind for one in paused.interrupts]) == ("interrupted", ["thread"])
    assert not paused.interrupts[0].answerable
    assert parents.due(graph="parent") == ()
    results = drive_due(parents, children)

    assert results["p"].state.got == [0, 2, 4]
    assert len(started(children)) == 3
    assert parents.due(graph="parent") == ()
    assert (parents.inbox(), parents.inbox(kind="thread")) == ((), ())
    assert parents.replay("p").values.got == [0, 2, 4]
    assert parents.reexecute("p").same
    assert parents.verify(replay=True).ok


def test_child_is_started_once_although_its_node_runs_again(open_: Open) -> None:
    """The node runs again after a pause, a failed attempt and a retry of the thread."""
    child = work_graph(double)
    runs: list[int] = []

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        runs.append(1)
        one = ctx.start(child, {"n": len(runs)}, name="the one", title="One", tags={"kid"})
        assert one == ctx.start(child, {"n": 99}, name="the one")
        if len(runs) < 3:
            raise ValueError("not yet")
        return {"child": one.thread, "got": [ctx.wait(one).out]}

    parents, children = open_(plan_graph(go)), open_(child)
    for _ in range(2):
        with pytest.raises(NodeError):
            parents.run({}, thread="p") if not runs else parents.retry("p")
    parents.retry("p")
    drive_due(parents, children)

    assert len(runs) == 4
    state = parents.state("p").values
    assert (state.got, started(children)) == ([2], [state.child])
    assert kinds(parents, "p").count("ThreadStarted") == 3  # with each outcome, as effects are
    (info,) = children.threads(tags={"kid"})
    assert (info.thread, info.title, info.graph) == (state.child, "One", "child")


def test_parent_does_not_wait_for_a_child_that_has_already_ended(open_: Open) -> None:
    child = work_graph(double)
    children = open_(child)

    def start(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"child": ctx.start(child, {"n": 4}).thread}

    def finish(state: Plan, ctx: Context) -> dict[str, Any]:
        drive_due(children)
        return {"got": [ctx.wait(ChildThread(child, state.child)).out]}

    parents = open_(plan_graph(start, finish))
    result = parents.run({}, thread="p")

    assert (result.status, result.state.got) == ("completed", [8])
    assert [info.thread for info in parents.due()] == ["p"]  # an unclaimed letter
    seq = parents.state("p").seq
    assert drive_due(parents, children)["p"].status == "completed"
    assert (parents.due(), parents.state("p").seq) == ((), seq)  # it is gone, and left no entry
    assert parents.reexecute("p").same


def test_async_nodes_start_children_and_wait_concurrently(open_any: Open) -> None:
    child = work_graph(double)

    async def go(state: Plan, ctx: Context) -> dict[str, Any]:
        made = await asyncio.gather(*(ctx.astart(child, Work(n=n), name=f"n{n}") for n in range(3)))
        return {"got": [(await ctx.await_(one)).out for one in made]}

    parents, children = open_any(plan_graph(go)), open_any(child)
    assert asyncio.run(parents.arun({}, thread="p")).status == "interrupted"
    assert drive_due(parents, children)["p"].state.got == [0, 2, 4]
    assert parents.reexecute("p").same


def test_fanned_out_tasks_each_have_a_child(open_: Open) -> None:
    child = work_graph(double)
    g = GraphBuilder(Plan, name="parent")

    @g.node
    def each(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"got": [ctx.wait(ctx.start(child, {"n": ctx.arg})).out]}

    g.add_conditional_edges(START, lambda state: [Send("each", n) for n in range(state.most)], [each])
    g.add_edge(each, END)
    parents, children = open_(g.compile()), open_(child)
    paused = parents.run({"most": 4}, thread="p")
    assert len(paused.interrupts) == 4

    assert drive_due(parents, children)["p"].state.got == [0, 2, 4, 6]


def test_a_nested_graph_starts_children_of_the_thread(open_: Open) -> None:
    child = work_graph(double)
    g = GraphBuilder(Plan, name="outer")
    g.add_node("inner", child_of(child))
    g.add_sequence([START, "inner", END])
    parents, children = open_(g.compile()), open_(child)
    parents.run({"most": 2}, thread="p")
    assert len(started(children)) == 2
    assert drive_due(parents, children)["p"].state.got == [0, 2]
    parents.run({"most": 2}, thread="q")
    assert parents.cancel("q")
    drive_due(parents, children)

    assert {children.state(one).status for one in started(children, "q")} == {"cancelled"}


def test_workers_drive_parents_and_children(open_: Open) -> None:
    child = work_graph(double)
    parents, children = open_(child_of(child)), open_(child)
    with Worker(parents, children):
        thread = parents.start({"most": 8})

        assert parents.wait(thread, timeout_s=PATIENT_S).state.got == [2 * n for n in range(8)]
        soon(lambda: not parents.due())
    assert len(started(children, thread)) == 8


def test_parent_that_is_being_driven_is_notified_of_its_child(open_: Open) -> None:
    """The message arrives while another task still works next to the waiting one."""
    gate, child = Gate(), work_graph(double)
    g = GraphBuilder(Plan, name="parent")

    @g.node
    def waits(state: Plan, ctx: Context) -> dict[str, Any]:
        return {"got": [ctx.wait(ctx.start(child, {"n": 2})).out]}

    @g.node
    def works(state: Plan, ctx: Context) -> dict[str, Any]:
        gate.began.set()
        assert gate.go.wait(PATIENT_S)
        return {}

    for node in ("waits", "works"):
        g.add_edge(START, node)
        g.add_edge(node, END)
    parents, children = open_(g.compile()), open_(child)
    running, found = driven(parents, {}, thread="p")
    assert gate.began.wait(PATIENT_S)
    soon(children.due)
    drive_due(children)
    gate.go.set()
    running.join(PATIENT_S)
    results = drive_due(parents, children)

    assert results.get("p", found[0]).state.got == [4]
    assert parents.reexecute("p").same
