"""Timeouts of attempts, for async and sync nodes: the attempt fails, a late outcome is dropped, the run continues."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.patience import with_more_time

from graphrt import END, START, DefinitionError, GraphBuilder, Limits, NodeError, RetryPolicy, Runtime, _waits

from .support import SOON_S, call, note, parallel, sequence

SHORT_S = 0.02


def endless(kind: str, stop: threading.Event) -> Any:
    """A node that does not end until *stop* is set."""
    if kind == "async":

        async def wait(state: Any) -> Any:
            await asyncio.sleep(60)

        return wait

    def block(state: Any) -> Any:
        stop.wait(60)
        return {"notes": ["late"]}

    return block


@pytest.fixture
def stop() -> Any:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("beside", ["alone", "beside-sync", "beside-async"])
def test_node_that_times_out_fails(face: str, kind: str, beside: str, stop: threading.Event) -> None:
    async def other(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"notes": ["other"]}

    others: list[Any] = {
        "alone": [],
        "beside-sync": [("other", note("other"))],
        "beside-async": [("other", other)],
    }[beside]
    graph = parallel(("slow", endless(kind, stop)), *others, slow={"timeout_s": SHORT_S})
    runtime = Runtime(graph, store="memory:", limits=Limits(grace_s=0.1))
    started = time.monotonic()

    with pytest.raises(NodeError) as caught:
        call(face, runtime, "run", {}, thread="t")

    error = caught.value
    assert (error.node, error.code) == ("slow", "node-timeout")
    assert isinstance(error.__cause__, TimeoutError)
    assert "0.02 s" in str(error)
    assert time.monotonic() - started < Limits().grace_s  # and not after the grace of all other runs
    assert runtime.state("t").status == "failed"
    assert "slow" in runtime.state("t").next
    stop.set()


def test_timeout_of_the_limits_applies_to_every_node(face: str, kind: str, stop: threading.Event) -> None:
    graph = sequence(("a", note("a")), ("slow", endless(kind, stop)), limits=Limits(timeout_s=SHORT_S, grace_s=0.1))

    with pytest.raises(NodeError) as caught:
        call(face, graph, "run", {})

    assert (caught.value.node, caught.value.code) == ("slow", "node-timeout")
    stop.set()


def test_timeout_of_a_node_overrides_that_of_the_limits(face: str, kind: str) -> None:
    async def anode(state: Any) -> Any:
        await asyncio.sleep(SHORT_S)
        return {"notes": ["done"]}

    def node(state: Any) -> Any:
        time.sleep(SHORT_S)
        return {"notes": ["done"]}

    graph = sequence(
        ("node", anode if kind == "async" else node), limits=Limits(timeout_s=0.001), node={"timeout_s": 30}
    )

    assert call(face, graph, "run", {}).state["notes"] == ["done"]


def test_node_within_its_timeout_is_not_affected(face: str, kind: str) -> None:
    async def anode(state: Any, ctx: Any) -> Any:
        return {"notes": [ctx.cancelled]}

    graph = sequence(
        ("node", anode if kind == "async" else lambda s, ctx: {"notes": [ctx.cancelled]}), node={"timeout_s": 30}
    )

    assert call(face, graph, "run", {}).state["notes"] == [False]


def test_late_outcome_of_a_sync_node_is_dropped_with_an_event(face: str, stop: threading.Event) -> None:
    entries: list[Any] = []
    left = threading.Event()
    turns: list[bool] = []

    def slow(state: Any, ctx: Any) -> Any:
        turns.append(True)
        if len(turns) > 1:
            return {"notes": ["second"]}
        stop.wait(60)
        assert ctx.cancelled
        left.set()
        return {"notes": ["late"]}

    def after(state: Any) -> Any:
        stop.set()
        assert left.wait(20)
        return {"notes": ["after"]}

    def end(state: Any) -> None:
        until = time.monotonic() + 20
        while dropped() == 0 and time.monotonic() < until:
            time.sleep(0.005)

    def dropped() -> int:
        return [type(entry.event).__name__ for entry in entries].count("OutcomeDropped")

    policy = {"timeout_s": 1.0, "retry": RetryPolicy(2, wait_initial_s=0)}
    graph = sequence(("slow", slow), ("after", after), ("end", end), slow=policy)
    runtime = Runtime(graph, store="memory:", sinks=[entries.append])

    result = call(face, runtime, "run", {}, thread="t")

    assert result.state["notes"] == ["second", "after"]
    assert dropped() == 1


@pytest.mark.parametrize("verb", ["arun", "asteps", "astream"])
def test_late_outcome_in_the_last_superstep_is_reported_by_every_verb(verb: str, stop: threading.Event) -> None:
    """Its thread has ended, and the loop sees it before the last commit is written."""
    left = threading.Event()
    turns: list[bool] = []

    def slow(state: Any) -> Any:
        turns.append(True)
        if len(turns) > 1:
            return {"notes": ["second"]}
        stop.wait(60)
        threading.Timer(0.5, left.set).start()  # after this node has ended
        return {"notes": ["late"]}

    async def after(state: Any) -> Any:
        stop.set()
        assert left.wait(20)  # the loop does not run during this sleep
        return {"notes": ["after"]}

    policy = {"timeout_s": 1.0, "retry": RetryPolicy(2, wait_initial_s=0)}
    runtime = Runtime(sequence(("slow", slow), ("after", after), slow=policy), store="memory:")

    async def read() -> None:
        if verb == "arun":
            await runtime.arun({}, thread="t")
        elif verb == "asteps":
            async for _ in runtime.asteps({}, thread="t"):
                pass
        else:
            async for _ in runtime.astream({}, thread="t", modes="events"):
                pass

    asyncio.run(read())

    kinds = [type(entry.event).__name__ for entry in runtime.entries("t")]
    assert kinds[-4:] == ["OutcomeDropped", "TaskSucceeded", "SuperstepCommitted", "RunCompleted"]


def test_a_timed_out_attempt_is_retried_and_handled(face: str, kind: str, stop: threading.Event) -> None:
    seen: list[int] = []

    async def aslow(state: Any, ctx: Any) -> Any:
        seen.append(ctx.attempt)
        await asyncio.sleep(60)

    def slow(state: Any, ctx: Any) -> Any:
        seen.append(ctx.attempt)
        stop.wait(60)

    policy = {"timeout_s": SHORT_S, "retry": RetryPolicy(2, wait_initial_s=0), "on_error": END}
    graph = sequence(("slow", aslow if kind == "async" else slow), ("next", note("next")), slow=policy)

    result = call(face, graph, "run", {})

    assert seen == [1, 2]
    assert (result.status, result.state["notes"]) == ("completed", [])
    stop.set()


def test_ctx_cancelled_informs_an_abandoned_sync_node(face: str) -> None:
    saw = threading.Event()

    def slow(state: Any, ctx: Any) -> Any:
        until = time.monotonic() + 20
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.001)
        if ctx.cancelled:
            saw.set()

    with pytest.raises(NodeError):
        call(face, sequence(("slow", slow), slow={"timeout_s": SHORT_S}), "run", {})

    assert saw.wait(20)


def test_timeout_error_of_the_node_itself_is_not_a_timeout(face: str, kind: str) -> None:
    async def aown(state: Any) -> Any:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    def own(state: Any) -> Any:
        raise TimeoutError("mine")

    graph = sequence(("own", aown if kind == "async" else own), own={"timeout_s": 30})

    with pytest.raises(NodeError) as caught:
        call(face, graph, "run", {})

    assert caught.value.code == "node-failed"


def test_cleanup_of_a_timed_out_async_node_is_awaited(face: str) -> None:
    ended: list[str] = []

    async def slow(state: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            ended.append("clean")

    with pytest.raises(NodeError):
        call(face, sequence(("slow", slow), slow={"timeout_s": SHORT_S}), "run", {})

    assert ended == ["clean"]


def test_loop_continues_while_a_sync_node_with_a_timeout_blocks(stop: threading.Event) -> None:
    """Under arun a sync node that may time out must not block the caller's loop."""
    ticks: list[int] = []

    def slow(state: Any) -> Any:
        stop.wait(20)
        return {"notes": ["slow"]}

    async def main() -> Any:
        async def tick() -> None:
            for n in range(3):
                await asyncio.sleep(0.001)
                ticks.append(n)
            stop.set()

        ticking = asyncio.ensure_future(tick())
        result = await sequence(("slow", slow), slow={"timeout_s": 30}).arun({})
        await ticking
        return result

    assert asyncio.run(main()).state["notes"] == ["slow"]
    assert ticks == [0, 1, 2]


def test_later_node_with_a_shorter_timeout_is_abandoned_in_time(
    face: str, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under `run` the caller was watching the first one then, which may take a minute."""
    monkeypatch.setattr(_waits, "SLICE_S", 60)  # otherwise a caller polls once a second
    graph = sequence(
        ("first", note("first")), ("slow", endless("sync", stop)), first={"timeout_s": 60}, slow={"timeout_s": SHORT_S}
    )
    started = time.monotonic()

    with pytest.raises(NodeError, match="within 0") as caught:
        call(face, graph, "run", {})

    assert (caught.value.node, caught.value.code) == ("slow", "node-timeout")
    assert time.monotonic() - started < SOON_S


def test_nested_graph_that_times_out_fails(face: str, kind: str, stop: threading.Event) -> None:
    child = sequence(("slow", endless(kind, stop)))
    graph = sequence(("child", child), child={"timeout_s": SHORT_S}, limits=Limits(grace_s=0.1))

    with pytest.raises(NodeError) as caught:
        call(face, graph, "run", {})

    assert (caught.value.node, caught.value.code) == ("child", "node-timeout")
    stop.set()


@pytest.mark.parametrize("beside", [False, True])
def test_node_without_a_heartbeat_fails(face: str, kind: str, beside: bool, stop: threading.Event) -> None:
    others = [("other", note("other"))] if beside else []
    graph = parallel(("slow", endless(kind, stop)), *others, slow={"idle_timeout_s": SHORT_S, "timeout_s": 60})

    with pytest.raises(NodeError, match="of the last sign of life") as caught:
        call(face, Runtime(graph, limits=Limits(grace_s=0.1, deadline_s=50)), "run", {})

    assert caught.value.code == "node-timeout"


@pytest.mark.parametrize("sign", ["heartbeat", "emit", "effect"])
def test_node_with_heartbeats_may_take_longer(face: str, kind: str, sign: str) -> None:
    """The node takes longer than that, and gives a sign of life five times as often."""

    def alive(ctx: Any, n: int) -> None:
        if sign == "effect":
            ctx.effect(f"e{n}", int)
        else:
            getattr(ctx, sign)(*[n] * (sign == "emit"))

    def trial(idle_s: float) -> None:
        def works(state: Any, ctx: Any) -> Any:
            for n in range(6):
                time.sleep(idle_s / 5)
                alive(ctx, n)
            return {"notes": ["done"]}

        async def aworks(state: Any, ctx: Any) -> Any:
            for n in range(6):
                await asyncio.sleep(idle_s / 5)
                alive(ctx, n)
            return {"notes": ["done"]}

        policy = {"idle_timeout_s": idle_s, "on_error": "late"}
        graph = sequence(("slow", works if kind == "sync" else aworks), ("late", note("late")), slow=policy)
        notes = call(face, Runtime(graph, store="memory:"), "run", {}, thread="t").state["notes"]

        assert notes == ["done", "late"]

    with_more_time(trial, 0.5, 10.0)


def test_heartbeats_do_not_extend_the_timeout(face: str) -> None:
    """And those of an abandoned attempt do not count for the next one."""
    beating = threading.Event()

    def beats(state: Any, ctx: Any) -> Any:
        while not beating.wait(0.01):
            ctx.heartbeat()

    graph = parallel(("slow", beats), slow={"idle_timeout_s": 60, "timeout_s": SHORT_S, "retry": 2})
    try:
        with pytest.raises(NodeError, match="no result within"):
            call(face, Runtime(graph, limits=Limits(grace_s=0.1)), "run", {})
    finally:
        beating.set()


def test_nested_graph_has_no_idle_timeout() -> None:
    inner = parallel(("a", note("a")))

    with pytest.raises(DefinitionError, match="idle_timeout_s= is for functions"):
        parallel(("inner", inner), inner={"idle_timeout_s": 1})


@pytest.mark.parametrize("handled", [False, True])
def test_unfinished_tasks_fail_when_the_time_of_their_superstep_is_over(
    face: str, kind: str, handled: bool, stop: threading.Event
) -> None:
    """Their retry policy allows no further attempt, finished tasks keep their outcomes, and the next superstep has its
    own time.
    """
    policy: dict[str, Any] = {"retry": 3, "timeout_s": 60} | ({"on_error": "after"} if handled else {})
    after = GraphBuilder(parallel(("quick", note("quick"))).state_type)
    after.add_node("slow", endless(kind, stop), **policy).add_node("quick", note("quick"))
    after.add_node("after", lambda state, ctx: {"notes": [str(ctx.error)]})
    after.add_edge(START, "slow").add_edge(START, "quick")
    graph = after.compile(allow=["unreachable-node"])

    def trial(step_s: float) -> None:
        runtime = Runtime(graph, store="memory:", limits=Limits(step_timeout_s=step_s, grace_s=0.1))
        if handled:
            notes = call(face, runtime, "run", {}, thread="t").state["notes"]
            assert notes == ["quick", f"no result within {step_s:g} s of the superstep's begin"]
            return
        with pytest.raises(NodeError, match="of the superstep's begin") as caught:
            call(face, runtime, "run", {}, thread="t")
        assert caught.value.code == "node-timeout"
        assert runtime.state("t").next == ("slow",)

    with_more_time(trial, 0.1, 5)
