"""Without a store a run keeps no history: memory is flat over any number of steps."""

from __future__ import annotations

import gc
import os
import tracemalloc
import weakref
from time import monotonic, sleep
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, Limits, Send

from .support import Face, general

STEPS = 50_000 if os.environ.get("GRAPHRT_FULL") == "1" else 10_000
"""Enough to detect a single leaked pointer of 8 bytes per step."""


@pytest.mark.parametrize(
    ("face", "how"),
    [
        ("sync", "sync"),
        ("async", "async"),
        pytest.param("sync", "async", marks=pytest.mark.full),
        pytest.param("async", "sync", marks=pytest.mark.full),
    ],
    indirect=["face"],
)
def test_memory_is_flat_over_thousands_of_steps(face: Face, how: str) -> None:
    steps = STEPS
    marks: list[int] = []

    def count(state: Any) -> Any:
        if state["n"] in (steps // 5, steps - 1_000):
            gc.collect()
            marks.append(tracemalloc.get_traced_memory()[0])
        return {"n": 1, "x": [state["n"]]}

    async def acount(state: Any) -> Any:
        return count(state)

    g: Any = GraphBuilder(general())
    g.add_node("count", acount if how == "async" else count, max_visits=None).add_edge(START, "count")
    g.add_conditional_edges("count", lambda s: s["n"] < steps, {True: "count", False: END})
    graph = g.compile(limits=Limits(max_steps=100_000))
    tracemalloc.start()
    try:
        result = face.run(graph, {})
    finally:
        tracemalloc.stop()

    assert result.steps == steps
    assert marks[1] - marks[0] < 50_000  # bytes, over most of the steps


def test_memory_of_read_steps_is_also_flat() -> None:
    g: Any = GraphBuilder(general())
    g.add_node("count", lambda s: {"n": 1, "x": [s["n"]]}, max_visits=None).add_edge(START, "count")
    g.add_conditional_edges("count", lambda s: s["n"] < 10_000, {True: "count", False: END})
    graph = g.compile(limits=Limits(max_steps=100_000))
    marks = []
    tracemalloc.start()
    try:
        for step in graph.steps({}):
            if step.index in (2_000, 9_000):
                gc.collect()
                marks.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    assert marks[1] - marks[0] < 50_000


class Marker:
    """An argument of a run whose deallocation can be observed."""


@pytest.mark.parametrize("shape", ["chain", "timed-chain", "fan-out", "timed", "async"])
def test_run_is_freed_with_its_result_without_garbage_collection(face: Face, shape: str) -> None:
    def node(state: Any, ctx: Any) -> Any:
        assert isinstance(ctx.deps, Marker)
        return {"n": 1}

    async def anode(state: Any, ctx: Any) -> Any:
        return node(state, ctx)

    g: Any = GraphBuilder(general())
    g.add_node("work", anode if shape == "async" else node, timeout_s=60 if "timed" in shape else None)
    g.add_edge("work", END)
    if "chain" in shape:
        g.add_edge(START, "work")
    else:
        g.add_conditional_edges(START, lambda s: [Send("work", i) for i in range(5)], ["work"])
    graph = g.compile()
    marker = Marker()
    seen = weakref.ref(marker)
    gc.collect()
    gc.disable()
    try:
        n = face.run(graph, {}, deps=marker).state["n"]
        del marker
        until = monotonic() + 10
        while seen() is not None and monotonic() < until:  # the thread that recruits helpers polls the pool once more
            sleep(0.001)
        left = seen()
    finally:
        gc.enable()

    assert n == (1 if "chain" in shape else 5)
    assert left is None
