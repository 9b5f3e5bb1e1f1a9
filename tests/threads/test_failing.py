"""The tasks that `retry` runs again after each kind of failure (rule R9), and the results that it keeps."""

from __future__ import annotations

import asyncio

import pytest

from graphrt import END, START, Context, Limits, RetryPolicy, Send
from graphrt.errors import (
    ConcurrentUpdateError,
    InputError,
    NodeError,
    NodeFatigueError,
    RouteError,
    StarvedJoinError,
    StepLimitError,
    UpdateError,
)

from .support import Counts, Fails, builder, fan, kinds, line, note, refused


def counted(fn):
    def node(state):
        node.calls += 1
        return fn(state)

    node.calls = 0
    return node


def test_after_a_node_error_only_unfinished_tasks_run(world):
    fails, counts = Fails(), Counts("done")
    runtime = world.runtime(fan(("a", counts), ("f", fails)))
    error = refused(
        "node-failed",
        lambda: runtime.run({"notes": []}, thread="t"),
        "'f'",
        "broken pipe",
        "retry('t')",
        error=NodeError,
    )
    assert (error.node, error.thread) == ("f", "t")
    assert isinstance(error.__cause__, RuntimeError)
    assert runtime.state("t").values["notes"] == ["split"]
    fails.broken = False

    assert runtime.retry("t").state["notes"] == ["split", "done", "mended", "last"]
    assert (counts.calls, fails.calls) == (1, 2)
    runtime.replay("t")


def test_a_retry_that_fails_again_can_be_retried(world):
    fails = Fails()
    runtime = world.runtime(line(("a", note("a")), ("f", fails)))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    for _ in range(3):
        with pytest.raises(NodeError):
            runtime.retry("t")
    fails.broken = False

    assert runtime.retry("t").state["notes"] == ["a", "mended"]
    assert kinds(runtime.entries("t")).count("run-failed") == 4


def test_after_a_bad_update_the_offending_task_runs(world):
    good = counted(lambda state: {"notes": ["good"]})
    given = [{"nots": ["typo"]}]
    bad = counted(lambda state: given[-1])
    runtime = world.runtime(fan(("good", good), ("bad", bad)))
    refused("unknown-key", lambda: runtime.run({"notes": []}, thread="t"), "'nots'", "'bad'", error=UpdateError)
    given.append({"notes": ["fixed"]})

    assert runtime.retry("t").state["notes"] == ["split", "good", "fixed", "last"]
    assert (good.calls, bad.calls) == (1, 2)


def test_after_a_conflict_the_tasks_that_wrote_the_field_run(world):
    both = [True]
    p = counted(lambda state: {"x": 1})
    q = counted(lambda state: {"x": 2} if both else {"y": 2})
    other = counted(lambda state: {"notes": ["other"]})
    runtime = world.runtime(fan(("p", p), ("q", q), ("o", other)))
    error = refused(
        "concurrent-update",
        lambda: runtime.run({"notes": []}, thread="t"),
        "'x'",
        "'p'",
        "'q'",
        error=ConcurrentUpdateError,
    )
    assert error.field == "x"
    assert runtime.state("t").values["notes"] == ["split"]
    both.clear()

    assert runtime.retry("t").state == {"notes": ["split", "other", "last"], "n": 2, "x": 1, "y": 2}
    assert (p.calls, q.calls, other.calls) == (2, 2, 1)


def test_after_a_router_error_only_the_router_runs(world):
    chosen = ["nowhere"]
    node = counted(lambda state: {"notes": ["a"]})
    g = builder()
    g.add_node("a", node)
    g.add_node("b", note("b"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: chosen[-1], {"b": "b"})
    g.add_edge("b", END)
    runtime = world.runtime(g.compile())
    refused("unknown-route", lambda: runtime.run({"notes": []}, thread="t"), "'nowhere'", "'b'", error=RouteError)
    assert runtime.state("t").values["notes"] == []
    chosen.append("b")

    assert runtime.retry("t").state["notes"] == ["a", "b"]
    assert node.calls == 1


def test_after_an_entry_router_error_the_thread_can_be_retried(world):
    chosen = ["nowhere"]
    g = builder()
    g.add_node("b", note("b"))
    g.set_conditional_entry(lambda state: chosen[-1], {"b": "b"})
    g.add_edge("b", END)
    runtime = world.runtime(g.compile())
    refused("unknown-route", lambda: runtime.run({"notes": []}, thread="t"), "'nowhere'", error=RouteError)
    chosen.append("b")

    assert runtime.state("t").status == "failed"
    assert runtime.retry("t").state["notes"] == ["b"]
    runtime.replay("t")


def test_after_a_step_limit_the_counters_continue(world):
    g = builder()
    g.add_node("loop", note("x"))
    g.add_edge(START, "loop")
    g.add_conditional_edges("loop", lambda state: "stop" if state["n"] >= 4 else "on", {"on": "loop", "stop": END})
    graph = g.compile(limits=Limits(max_steps=2))
    runtime = world.runtime(graph)
    refused("step-limit", lambda: runtime.run({"notes": []}, thread="t"), "2", error=StepLimitError)
    assert runtime.state("t").values["n"] == 2
    refused("step-limit", lambda: runtime.retry("t"), "2", error=StepLimitError)
    assert runtime.state("t").values["n"] == 2

    assert world.runtime(graph, limits=Limits(max_steps=10)).retry("t").state["n"] == 4


def test_after_node_fatigue_the_thread_continues_with_a_higher_limit(world):
    g = builder()
    g.add_node("loop", note("x"), max_visits=2)
    g.add_edge(START, "loop")
    g.add_conditional_edges("loop", lambda state: "stop" if state["n"] >= 4 else "on", {"on": "loop", "stop": END})
    runtime = world.runtime(g.compile())
    refused("node-fatigue", lambda: runtime.run({"notes": []}, thread="t"), "'loop'", error=NodeFatigueError)
    runtime.update("t", {"n": 10}, as_node="loop")

    assert runtime.state("t").next == ()
    assert runtime.retry("t").state["n"] == 12


def test_after_a_starved_join_an_edit_can_complete_it(world):
    g = builder()
    for name in ("a", "b", "last"):
        g.add_node(name, note(name))
    g.add_edge(START, "a")
    g.add_join(["a", "b"], "last")
    g.add_edge("last", END)
    runtime = world.runtime(g.compile(allow=["unreachable-node", "starving-join"]))
    refused("starved-join", lambda: runtime.run({"notes": []}, thread="t"), "'last'", "'b'", error=StarvedJoinError)
    runtime.update("t", {"notes": ["as b"]}, as_node="b")

    assert runtime.retry("t").state["notes"] == ["a", "as b", "last"]


def test_retries_of_a_policy_are_journalled_and_restart_with_retry(world):
    fails = Fails()
    graph = line(("f", fails), f={"retry": RetryPolicy(attempts=3, wait_initial_s=0, retry_on=RuntimeError)})
    runtime = world.runtime(graph)
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    assert fails.calls == 3
    assert kinds(runtime.entries("t")).count("task-retried") == 2
    with pytest.raises(NodeError):
        runtime.retry("t")
    assert fails.calls == 6


def test_on_error_handlers_see_the_failure_after_a_restart(world):
    fails = Fails()
    seen = []

    def handler(state, ctx):
        seen.append(str(ctx.error))
        return {"notes": [f"handled {ctx.interrupt('how?')}"]}

    g = builder()
    g.add_node("f", fails, on_error="handler")
    g.add_node("handler", handler)
    g.add_edge(START, "f")
    g.add_edge("f", END)
    g.add_edge("handler", END)
    graph = g.compile()
    assert world.runtime(graph).run({"notes": []}, thread="t").status == "interrupted"
    assert world.runtime(graph).resume("t", "so").state["notes"] == ["handled so"]

    assert fails.calls == 1
    assert len(seen) == 2
    assert all("broken pipe" in text for text in seen)


def test_failure_in_a_nested_graph_is_retried_from_its_last_commit(world):
    fails, counts = Fails(), Counts("in1")
    inner = line(("in1", counts), ("f", fails), name="inner")
    outside = Counts("beside")
    graph = fan(("child", inner), ("beside", outside))
    with pytest.raises(NodeError, match="broken"):
        world.runtime(graph).run({"notes": []}, thread="t")
    fails.broken = False
    runtime = world.runtime(graph)

    assert runtime.retry("t").state["notes"] == ["split", "in1", "mended", "beside", "last"]
    assert (counts.calls, fails.calls, outside.calls) == (1, 2, 1)
    runtime.replay("t")


def test_wrong_verbs_raise_an_error_that_names_the_right_one(world):
    fails = Fails()
    runtime = world.runtime(line(("f", fails)))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    before = runtime.state("t").seq

    refused("wrong-verb", lambda: runtime.run({"notes": []}, thread="t"), "failed", "retry('t')", error=InputError)
    refused("wrong-verb", lambda: runtime.resume("t", "yes"), "failed", "retry('t')", error=InputError)
    refused("wrong-verb", lambda: runtime.resume("t"), "failed", "retry('t')", error=InputError)
    assert runtime.state("t").seq == before
    fails.broken = False
    assert runtime.retry("t").status == "completed"


def test_async_failures_are_retried(world):
    broken = [True]

    async def node(state):
        if broken:
            raise ValueError("async trouble")
        return {"notes": ["fine"]}

    counts = Counts("done")
    runtime = world.runtime(fan(("a", counts), ("f", node)))

    async def go():
        with pytest.raises(NodeError, match="async trouble"):
            await runtime.arun({"notes": []}, thread="t")
        broken.clear()
        return await runtime.aretry("t")

    assert asyncio.run(go()).state["notes"] == ["split", "done", "fine", "last"]
    assert counts.calls == 1


@pytest.mark.parametrize("nested", [False, True])
def test_failure_of_a_fan_out_reports_how_many_tasks_are_done(world, nested):
    """In the error, the state, and the error of a waiting process; also for a fan-out inside a nested graph."""
    broken = [True]

    def work(state, ctx: Context):
        if broken and ctx.arg == 2:
            raise ValueError("no")
        return {"notes": [str(ctx.arg)]}

    g = builder("batch")
    g.add_node("work", work)
    g.set_conditional_entry(lambda state: [Send("work", n) for n in range(5)], ["work"])
    g.add_edge("work", END)
    batch = g.compile(limits=Limits(max_concurrency=1))
    runtime = world.runtime(line(("inner", batch)) if nested else batch)

    refused("node-failed", lambda: runtime.run({"notes": []}, thread="t"), "2 of 5 tasks done", error=NodeError)
    assert runtime.state("t").progress == (2, 5)
    refused("run-failed", lambda: runtime.wait("t"), "2 of 5 tasks done")
    broken.clear()
    runtime.retry("t")
    assert runtime.state("t").progress is None
