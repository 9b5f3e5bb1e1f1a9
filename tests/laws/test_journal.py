"""The journal, byte for byte as JSON lines: one graph with every feature, and random ones, for every way of running
them.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import random
import zlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt import END, START, Command, CompiledGraph, Context, GraphBuilder, RetryPolicy, Send, open_store
from graphrt.reducers import add, append, ephemeral
from graphrt.testing import run_scripted

from . import laws, observe
from .graphs import graphs
from .paces import hopping

Make = Callable[[Callable[..., Any]], Callable[..., Any]]


class State(TypedDict, total=False):
    log: Annotated[list[str], append]
    total: Annotated[int, add]
    flash: Annotated[list[int], append, ephemeral]
    verdict: str


def same_bytes(seen: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Assert that both journals have the same bytes, or show the differing lines."""
    new, old = ([json.dumps(entry) for entry in journal] for journal in (seen, expected))
    assert "\n".join(new).encode() == "\n".join(old).encode(), "\n".join(difflib.unified_diff(old, new, n=1))


# one graph with every feature
# --------------------------------------------------------------------------------------------


def plan(state: State) -> Mapping[str, Any]:
    return {"log": ["plan"], "flash": [1, 2]}


def fan_out(state: State) -> list[Send]:
    return [Send("work", n) for n in (3, 1, 2)] + [Send("ask", "sure?")]


def work(state: State, ctx: Context) -> Mapping[str, Any]:
    if ctx.attempt < ctx.arg:
        raise ConnectionError(f"attempt {ctx.attempt}")
    drawn = ctx.effect("draw", lambda: ctx.random.randrange(100))
    return {"log": [f"work {ctx.arg}: {drawn}, {len(state['flash'])}"], "total": ctx.arg}


def ask(state: State, ctx: Context) -> Mapping[str, Any]:
    return {"log": [f"answer {ctx.interrupt(ctx.arg)}"]}


def check(state: State, ctx: Context) -> Command:
    if ctx.step < 5:
        return Command(update={"total": 10}, goto=["check", "breaks"])
    return Command(update={"verdict": "good"}, goto="inner")


def breaks(state: State) -> None:
    raise ValueError("broken")


def rescue(state: State, ctx: Context) -> Mapping[str, Any]:
    return {"log": [f"rescued {ctx.error!r}"]}


def compiled(make: Make) -> CompiledGraph[Any, Any]:
    """Fan-out, retries, effects, an interrupt, a join, Commands, a failure with a handler, fatigue, a nested graph."""
    inner: GraphBuilder[Any, Any] = GraphBuilder(State, name="inner")
    inner.add_node("left", make(plan)).add_node("right", make(rescue))
    inner.add_edge(START, "left").add_edge(START, "right").add_edge("left", END).add_edge("right", END)
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="all")
    g.add_node("plan", make(plan))
    g.add_node("work", make(work), retry=RetryPolicy(3, wait_initial_s=0.0))
    g.add_node("ask", make(ask))
    g.add_node("check", make(check), goto=["check", "breaks", "inner"])
    g.add_node("breaks", make(breaks), on_error="rescue", max_visits=1, on_fatigue="rescue")
    g.add_node("rescue", make(rescue))
    g.add_node("inner", inner.compile())
    g.add_edge(START, "plan").add_conditional_edges("plan", fan_out, ["work", "ask"])
    g.add_join(["work", "ask"], "check").add_edge("breaks", END).add_edge("rescue", END).add_edge("inner", END)
    return g.compile(allow=["unreachable-node", "starving-join", "no-way-out", "endless-loop"])


def as_sync(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def as_async(salt: int, *, some: bool = False) -> Make:
    """Makes nodes (or *some*) async; each yields to others for a while that depends on its task and *salt*."""

    def make(fn: Callable[..., Any]) -> Callable[..., Any]:
        if some and len(fn.__name__) % 2:
            return fn

        async def pause(key: object) -> None:
            for _ in range(zlib.crc32(f"{salt}/{key}".encode()) % 5):
                await asyncio.sleep(0)

        async def with_context(state: Any, ctx: Context) -> Any:
            await pause(ctx.task_id)
            return fn(state, ctx)

        async def plain(state: Any) -> Any:
            await pause(fn.__name__)
            return fn(state)

        return with_context if fn.__code__.co_argcount == 2 else plain

    return make


def journal_of(make: Make, drive: str, chance: random.Random) -> list[dict[str, Any]]:
    """The journal of a run to its interrupt, and of its resume."""
    graph, journal, store = compiled(make), list[dict[str, Any]](), open_store("memory:")
    options = observe.options(journal)

    def choose(tasks: Any) -> int:
        return chance.randrange(len(tasks))

    async def both(runtime: Any) -> None:
        await runtime.arun({}, thread="t")
        await runtime.aresume("t", "yes")

    with observe.runtime(graph, journal, store=store, **options) as runtime:
        if drive == "async":
            asyncio.run(both(runtime))
            return journal
        if drive == "scripted":
            run_scripted(graph, {}, thread="t", store=store, choose=choose, check_state=False, **options)
        else:
            runtime.run({}, thread="t")
        runtime.resume("t", "yes")
    return journal


def expected_journal() -> list[dict[str, Any]]:
    return journal_of(as_sync, "sync", random.Random(0))


@pytest.mark.parametrize("salt", range(5))
@pytest.mark.parametrize("drive", ["sync", "async", "scripted"])
@pytest.mark.parametrize("nodes", ["sync", "async", "mixed"])
def test_graph_with_every_feature_writes_the_same_bytes(nodes: str, drive: str, salt: int) -> None:
    make = {"sync": as_sync, "async": as_async(salt), "mixed": as_async(salt, some=True)}[nodes]

    same_bytes(journal_of(make, drive, random.Random(salt)), expected_journal())


def test_graph_with_every_feature_has_every_event() -> None:
    journal = expected_journal()

    assert {entry["event"] for entry in journal} >= {
        "run-started",
        "run-resumed",
        "task-succeeded",
        "task-failed",
        "task-retried",
        "effect-recorded",
        "interrupt-raised",
        "interrupt-answered",
        "node-fatigued",
        "superstep-committed",
        "run-interrupted",
        "run-completed",
    }
    assert {entry["path"] for entry in journal} > {""}
    assert [entry["seq"] for entry in journal] == list(range(1, len(journal) + 1))


# random graphs --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(graph=graphs(fatal=False), salt=st.integers(0, 99))
def test_random_graphs_write_the_same_bytes(graph: Any, salt: int) -> None:
    expected = observe.observe(graph, nodes="sync").journal
    journals = [
        observe.aobserve(graph, nodes="async").journal,
        observe.aobserve(graph, nodes="mixed", pace=hopping(salt)).journal,
        laws.journal_of(graph, chance=random.Random(salt)),
    ]

    for journal in journals:
        same_bytes(laws.ruled(graph, journal), laws.ruled(graph, expected))
