"""A runtime reuses its worker threads over its runs, and leaves none running."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Runtime


class State(BaseModel):
    n: int = 0


def both() -> Any:
    """A graph with sync and async nodes, two of them in one superstep."""

    async def later(state: State) -> None:
        await asyncio.sleep(0)

    g = GraphBuilder(State, name="both")
    g.add_node("sync", lambda state: {"n": 1})
    g.add_node("beside", lambda state: None)
    g.add_node("later", later)
    for node in ("sync", "beside", "later"):
        g.add_edge(START, node)
        g.add_edge(node, END)
    return g.compile()


@pytest.fixture(params=["memory:", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else request.param


def use(runtime: Any, runs: int = 1) -> None:
    for _ in range(runs):
        runtime.run({})

    async def go() -> None:
        for _ in range(runs):
            await runtime.arun({})

    asyncio.run(go())


def test_more_runs_need_no_more_worker_threads(url: str) -> None:
    with Runtime(both(), store=url) as runtime:
        use(runtime)
        few = threading.active_count()
        use(runtime, 20)
        assert threading.active_count() <= few


def test_closed_runtime_leaves_no_worker_thread(url: str) -> None:
    before = set(threading.enumerate())
    with Runtime(both(), store=url) as runtime:
        use(runtime)
    assert set(threading.enumerate()) <= before


def test_dropped_runtime_leaves_no_worker_thread(url: str) -> None:
    before = set(threading.enumerate())
    runtime = Runtime(both(), store=url, lease_s=600)
    use(runtime)
    del runtime
    gc.collect()
    until = time.monotonic() + 20
    while set(threading.enumerate()) - before and time.monotonic() < until:
        time.sleep(0.05)
    assert set(threading.enumerate()) <= before
