"""Which node runs on which operating-system thread: the loop, the caller, a worker thread (rule R19)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from graphrt import END, START, DefinitionError, GraphBuilder, Limits, Runtime, Send

from .support import PATIENCE_S, State, call, note, parallel, sequence

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


def where(state: Any) -> dict[str, Any]:
    """A node that notes its thread."""
    return {"notes": [threading.current_thread()]}


def with_context(state: Any, ctx: Any) -> dict[str, Any]:
    return where(state)


SHAPES: dict[str, Callable[[Any], Any]] = {
    "alone": lambda node: sequence(("a", node)),
    "with a context": lambda node: sequence(("a", lambda s, ctx: node(s))),
    "beside": lambda node: parallel(("a", node), ("b", note("b"))),
    "timed": lambda node: sequence(("a", node), a={"timeout_s": 60}),
    "nested": lambda node: sequence(("child", sequence(("a", node)))),
    "cached": lambda node: sequence(("a", node), a={"cache": True}),
}


@pytest.mark.parametrize("verb", ["arun", "asteps", "astream", "live"])
@pytest.mark.parametrize("shape", SHAPES)
def test_loop_continues_while_a_sync_node_runs(shape: str, verb: str) -> None:
    """Code on the loop ends the node: on the loop itself it would wait forever."""
    running, go = threading.Event(), threading.Event()

    def block(state: Any) -> Any:
        running.set()
        assert go.wait(PATIENCE_S), "the loop stood still"
        return {"n": 1}

    async def let_go() -> None:
        while not running.is_set():  # noqa: ASYNC110 - set from a worker thread
            await asyncio.sleep(0.001)
        go.set()

    async def main() -> None:
        runtime: Any = Runtime(SHAPES[shape](block))
        helper = asyncio.create_task(let_go())
        if verb == "arun":
            await runtime.arun({})
        else:
            items = (
                runtime.asteps({})
                if verb == "asteps"
                else runtime.astream({}, modes="custom" if verb == "live" else "updates")
            )
            async for _ in items:
                pass
        await helper

    asyncio.run(main())
    assert go.is_set()


def test_inline_node_runs_on_the_loop() -> None:
    here = threading.current_thread()
    alone = sequence(("a", where), a={"inline": True})
    beside = parallel(("a", where), ("b", with_context), ("c", where), a={"inline": True}, b={"inline": True})

    assert asyncio.run(alone.arun({})).state["notes"] == [here]
    found = asyncio.run(beside.arun({})).state["notes"]
    assert [thread is here for thread in found] == [True, True, False]


def test_builder_makes_nodes_inline_by_default() -> None:
    g = GraphBuilder(State, inline=True)
    g.add_node("a", where).add_node("b", where, inline=False).add_sequence([START, "a", "b", END])

    first, second = asyncio.run(g.compile().arun({})).state["notes"]

    assert first is threading.current_thread()
    assert second is not first


def test_many_parallel_inline_tasks_need_no_deep_stack() -> None:
    g: Any = GraphBuilder(State, inline=True)
    g.add_node("begin", lambda s: None).add_edge(START, "begin")
    g.add_node("work", lambda s, ctx: {"notes": [ctx.arg]}).add_edge("work", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", number) for number in range(3_000)], ["work"])

    for limits in (Limits(), Limits(max_concurrency=2)):
        assert asyncio.run(g.compile(limits=limits).arun({})).state["notes"] == list(range(3_000))


def test_inline_node_that_took_too_long_has_timed_out() -> None:
    """It cannot be stopped on the loop: the timeout is noticed when it has ended."""
    ran: list[int] = []

    def node(state: Any) -> Any:
        ran.append(1)
        threading.Event().wait(0.02)

    graph = sequence(("a", node), a={"inline": True, "timeout_s": 0.001})

    with pytest.raises(Exception, match="no result within"):
        asyncio.run(graph.arun({}))
    assert ran == [1]


def test_inline_is_not_part_of_the_fingerprint() -> None:
    fingerprints = {
        sequence(("a", where)).fingerprint,
        sequence(("a", where), a={"inline": True}).fingerprint,
        sequence(("a", where), a={"inline": False}).fingerprint,
    }

    assert len(fingerprints) == 1


def test_inline_must_be_a_bool() -> None:
    with pytest.raises(DefinitionError, match="inline cannot be 1"):
        sequence(("a", where), a={"inline": 1})


def test_superstep_with_one_task_runs_in_the_caller_under_run() -> None:
    assert sequence(("a", where)).run({}).state["notes"] == [threading.current_thread()]


def test_timed_nodes_share_a_worker_thread_and_others_run_in_the_caller_under_run() -> None:
    """The routers between them run on that thread, too. With a deadline, all nodes are timed."""
    routed: list[threading.Thread] = []

    def router(state: Any) -> str:
        routed.append(threading.current_thread())
        return "d"

    g = GraphBuilder(State)
    g.add_node("a", where, timeout_s=60).add_node("b", with_context, timeout_s=60)
    g.add_node("c", where).add_node("d", where, timeout_s=60)
    g.add_sequence([START, "a", "b", "c"]).add_conditional_edges("c", lambda s: "d", ["d"])
    g.add_conditional_edges("d", router, {"d": END})
    a, b, c, d = g.compile().run({}).state["notes"]
    here = threading.current_thread()

    assert [a is b, a is here, c is here, d is routed[0], d is here] == [True, False, True, True, False]
    timed = sequence(*[(f"n{number}", where) for number in range(30)], limits=Limits(deadline_s=60))
    assert len(set(timed.run({}).state["notes"]) | {here}) == 2


def test_context_variables_are_copied_in_and_not_back(face: str) -> None:
    seen: list[str] = []

    def node(state: Any) -> None:
        seen.append(VAR.get())
        VAR.set("a node's")

    async def main() -> str:
        VAR.set("the caller's")
        await parallel(("a", node), ("b", node)).arun({})
        await sequence(("a", node), ("b", node)).arun({})
        sequence(("a", node), ("b", node), limits=Limits(timeout_s=60)).run({})
        return VAR.get()

    assert asyncio.run(main()) == "the caller's"
    assert seen == ["the caller's"] * 6


def test_chain_needs_one_worker_thread() -> None:
    graph = sequence(*[(f"n{number}", where) for number in range(30)])

    assert len(set(asyncio.run(graph.arun({})).state["notes"])) == 1


def test_default_executor_of_the_loop_is_not_used() -> None:
    """Stores use it: even with its only worker thread busy, nodes run."""
    go = threading.Event()

    async def main() -> Any:
        with ThreadPoolExecutor(1) as executor:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(executor)
            busy = loop.run_in_executor(None, go.wait, PATIENCE_S)
            result = await parallel(("a", where), ("b", where)).arun({})
            go.set()
            assert await busy
        return result

    assert len(asyncio.run(main()).state["notes"]) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_base_exception_is_raised_to_the_caller_and_journalled(face: str, error: Any) -> None:
    def node(state: Any) -> Any:
        raise error

    runtime = Runtime(sequence(("a", node)), store="memory:")

    with pytest.raises(error):
        call(face, runtime, "run", {}, thread="t")

    assert runtime.state("t").status == "cancelled"
