"""The workloads, their sizes, the expected final state of every library, and the targets.

Plain data, without an import of a library under test; `child.py` measures and `report.py` evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["run", "import", "memory", "bytes"]
Clock = Literal["cpu", "wall"]

FAN_TASKS = 1_000
"""Tasks of one fan-out run: a run fans out FAN_TASKS / n times, so that n = 10 measures tasks instead of the start."""

TOGETHER_STEPS = 20
"""Steps of each of the concurrent runs in one file."""

IMPORTS: Mapping[str, str] = {
    "handwritten": "from pydantic import BaseModel, TypeAdapter",
    "graphrt": "from graphrt import END, START, GraphBuilder",
    "converted": "from graphrt.compat.langgraph import convert",
    "langgraph": "from langgraph.graph import END, START, StateGraph",
    "pydantic_graph": "from pydantic_graph import GraphBuilder",
    "burr": "from burr.core import ApplicationBuilder, State, action",
    "lar": "from lar import GraphExecutor, RouterNode",
}
"""The imports of a typical user of each library. The yardstick of `import` is pydantic, which graphrt needs anyway."""

LIBRARIES: Mapping[str, tuple[str, str]] = {
    "handwritten": ("", "hand-written"),
    "graphrt": ("graphrt", "graphrt"),
    "converted": ("langgraph", "LangGraph converted by graphrt,"),
    "langgraph": ("langgraph", "LangGraph"),
    "pydantic_graph": ("pydantic-graph", "pydantic-graph"),
    "burr": ("burr", "Burr"),
    "lar": ("lar-engine", "Lár"),
}
"""Maps a library to the distribution whose version is reported, and its name in tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The targets of graphrt for a workload, or None.

    Attributes:
        ratio: Upper bound of the ratio to the hand-written loop in the same round.
        growth: Upper bound of the cost of one unit at the largest size, relative to the smallest.
        most: Upper bound, in the workload's unit, at the largest size.
        over: Upper bound of the excess over the hand-written yardstick, in the workload's unit.
    """

    ratio: float | None = None
    growth: float | None = None
    most: float | None = None
    over: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One workload.

    Attributes:
        name: The name of the function that prepares it in every library's file.
        sizes: Increasing; every size is a row.
        units: The divisor of a run of size n.
        scale: Units per second shown: 1e6 for microseconds.
        expected: The final state (or the observations) after a run of size n, the same for every library.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    unit: str
    expected: Callable[[int], dict[str, Any]] = field(repr=False)
    units: Callable[[int], int] = field(default=lambda n: n, repr=False)
    scale: float = 1e6
    clock: Clock = "cpu"
    kind: Kind = "run"
    apart: bool = False
    """Runs each size in a separate process, with alternating libraries: the speed of a disk changes within minutes."""
    target: Target | None = None


def fan_rounds(n: int) -> int:
    """The number of fan-outs in a fan-out run of width *n*."""
    return max(1, FAN_TASKS // n)


def _chain(n: int) -> dict[str, Any]:
    return {"goal": "chain", "count": n, "last": f"n{n - 1}"}


def _loop(n: int) -> dict[str, Any]:
    return {"goal": "loop", "count": n, "last": "pong"}


def _grow(n: int) -> dict[str, Any]:
    return {"count": n, "messages": n, "ordered": True}


def _fan(n: int) -> dict[str, Any]:
    rounds = fan_rounds(n)
    return {"rounds": rounds, "results": rounds * n, "total": rounds * sum(i * i for i in range(n))}


def _sleeps(n: int) -> dict[str, Any]:
    return {"rounds": 1, "results": n, "total": sum(range(n))}


def _stream(n: int) -> dict[str, Any]:
    return {"steps": n, "changes": 2 * n}


def _nodes(n: int) -> dict[str, Any]:
    return {"nodes": n}


def _nothing(n: int) -> dict[str, Any]:
    return {}


def _one_more(n: int) -> dict[str, Any]:
    return _grow(n + 1)


def _together(n: int) -> dict[str, Any]:
    return {"runs": n, "count": n * TOGETHER_STEPS}


def _concurrent(n: int) -> dict[str, Any]:
    return {"runs": n, "count": 5 * n}


_GROW, _QUICK_GROW = (100, 1_000, 5_000, 100_000), (100, 5_000)
_FAN, _QUICK_FAN = (10, 100, 1_000), (10, 1_000)
_STORED = (100, 1_000, 5_000)
_CHAINED = 1.3 + (117 + 3 * 16) / 446
"""Without the header of a chained commit and the salts of its three lines; a bare body has 446 bytes."""
_BUILD, _QUICK_BUILD = (10, 100, 1_000, 5_000), (10, 1_000)

WORKS: tuple[Work, ...] = (
    Work(name="chain_sync", title="chain, sync", sizes=(100, 1_000), quick=(1_000,), unit="µs/step",
         expected=_chain, target=Target(ratio=12)),
    Work(name="chain_async", title="chain, async", sizes=(100, 1_000), quick=(1_000,), unit="µs/step",
         expected=_chain, target=Target(ratio=12)),
    Work(name="chain_threads", title="chain, sync nodes under asyncio", sizes=(100, 1_000), quick=(1_000,),
         unit="µs/step", expected=_chain, target=Target(ratio=1.2)),
    Work(name="loop_dict_sync", title="loop, dict state, sync", sizes=(10_000,), quick=(2_000,), unit="µs/step",
         expected=_loop, target=Target(ratio=12)),
    Work(name="loop_dict_async", title="loop, dict state, async", sizes=(10_000,), quick=(2_000,), unit="µs/step",
         expected=_loop, target=Target(ratio=12)),
    Work(name="loop_model_sync", title="loop, pydantic state, sync", sizes=(10_000,), quick=(2_000,), unit="µs/step",
         expected=_loop, target=Target(ratio=12)),
    Work(name="loop_model_async", title="loop, pydantic state, async", sizes=(10_000,), quick=(2_000,),
         unit="µs/step", expected=_loop, target=Target(ratio=12)),
    Work(name="grow", title="one message appended a step", sizes=_GROW, quick=_QUICK_GROW, unit="µs/step",
         expected=_grow, target=Target(ratio=12, growth=1.2)),
    Work(name="fan_sync", title="fan-out, sync", sizes=_FAN, quick=_QUICK_FAN, unit="µs/task",
         expected=_fan, units=lambda n: fan_rounds(n) * n, target=Target(ratio=20)),
    Work(name="fan_async", title="fan-out, async", sizes=_FAN, quick=_QUICK_FAN, unit="µs/task",
         expected=_fan, units=lambda n: fan_rounds(n) * n, target=Target(ratio=4)),
    Work(name="sleeps_async", title="parallel sleeps of 10 ms, async (wall)", sizes=(100,), quick=(100,), unit="ms",
         expected=_sleeps, units=lambda _: 1, scale=1e3, clock="wall", target=Target(ratio=1.1)),
    Work(name="sleeps_sync", title="parallel sleeps of 10 ms, worker threads (wall)", sizes=(32,), quick=(32,),
         unit="ms", expected=_sleeps, units=lambda _: 1, scale=1e3, clock="wall"),
    Work(name="build", title="build and compile a chain", sizes=_BUILD, quick=_QUICK_BUILD, unit="µs/node",
         expected=_nodes, target=Target(most=30)),
    Work(name="stream_flat", title="step stream, changed fields read, flat state", sizes=(1_000,), quick=(1_000,),
         unit="µs/step", expected=_stream, target=Target(ratio=25)),
    Work(name="stream_grow", title="step stream, changed fields read, growing state", sizes=(100, 1_000, 5_000),
         quick=(100, 1_000), unit="µs/step", expected=_stream, target=Target(ratio=25, growth=1.2)),
    Work(name="concurrent", title="concurrent runs of 5 async nodes", sizes=(1_000,), quick=(1_000,), unit="µs/run",
         expected=_concurrent, target=Target(ratio=8)),
    Work(name="store_memory", title="one message appended a step, store in memory", sizes=(100, 1_000, 5_000),
         quick=(100, 1_000), unit="µs/step", expected=_grow, target=Target(ratio=30, growth=1.2)),
    Work(name="store_sqlite", title="one message of 420 bytes a step, SQLite, each step power-safe (wall)",
         sizes=_STORED, quick=(100, 1_000), unit="µs/step", expected=_grow, clock="wall", apart=True,
         target=Target(ratio=1.5)),
    Work(name="store_sqlite_plain", title="the same without the hash chain (wall)", sizes=_STORED, quick=(100, 1_000),
         unit="µs/step", expected=_grow, clock="wall", apart=True, target=Target(ratio=1.5)),
    Work(name="store_postgres", title="the same, PostgreSQL (wall)", sizes=_STORED, quick=(100,), unit="µs/step",
         expected=_grow, clock="wall", apart=True, target=Target(ratio=1.5)),
    Work(name="store_postgres_plain", title="the same without the hash chain (wall)", sizes=_STORED, quick=(100,),
         unit="µs/step", expected=_grow, clock="wall", apart=True, target=Target(ratio=1.5)),
    Work(name="store_async", title="async durable step, SQLite (wall)", sizes=(1_000,), quick=(200,), unit="µs/step",
         expected=_grow, clock="wall", apart=True),
    Work(name="store_fan", title="durable fan-out, SQLite (wall)", sizes=(10,), quick=(10,), unit="µs/task",
         expected=_fan, units=lambda n: fan_rounds(n) * n, clock="wall", apart=True),
    Work(name="store_together", title=f"durable runs of {TOGETHER_STEPS} steps at once, one SQLite file (wall)",
         sizes=(20,), quick=(20,), unit="µs/step", expected=_together, units=lambda n: n * TOGETHER_STEPS,
         clock="wall", apart=True),
    Work(name="store_bytes", title="bytes on disk, SQLite", sizes=(1_000, 5_000), quick=(1_000,), unit="bytes/step",
         expected=_nothing, scale=1.0, kind="bytes", target=Target(ratio=_CHAINED)),
    Work(name="store_bytes_plain", title="bytes on disk, SQLite, without the chain", sizes=(1_000, 5_000),
         quick=(1_000,), unit="bytes/step", expected=_nothing, scale=1.0, kind="bytes", target=Target(ratio=1.3)),
    Work(name="store_bytes_postgres", title="bytes on disk, PostgreSQL", sizes=(1_000, 5_000), quick=(1_000,),
         unit="bytes/step", expected=_nothing, scale=1.0, kind="bytes", target=Target(ratio=_CHAINED)),
    Work(name="store_bytes_postgres_plain", title="bytes on disk, PostgreSQL, without the chain", sizes=(1_000, 5_000),
         quick=(1_000,), unit="bytes/step", expected=_nothing, scale=1.0, kind="bytes", target=Target(ratio=1.3)),
    Work(name="payload", title="bytes on disk, n appends of 1 KB of noise, SQLite", sizes=(2_000,), quick=(2_000,),
         unit="bytes/step", expected=_nothing, scale=1.0, kind="bytes", target=Target(ratio=1.35)),
    Work(name="payload_plain", title="the same without the chain", sizes=(2_000,), quick=(2_000,), unit="bytes/step",
         expected=_nothing, scale=1.0, kind="bytes", target=Target(ratio=1.35)),
    Work(name="load", title="load a thread of n steps from SQLite", sizes=(1_000,), quick=(1_000,), unit="ms",
         expected=_grow, units=lambda _: 1, scale=1e3, target=Target(ratio=5)),
    Work(name="load_plain", title="the same without the chain", sizes=(1_000,), quick=(1_000,), unit="ms",
         expected=_grow, units=lambda _: 1, scale=1e3, target=Target(ratio=5)),
    Work(name="load_step", title="load it and make one step more", sizes=(1_000,), quick=(1_000,), unit="ms",
         expected=_one_more, units=lambda _: 1, scale=1e3, target=Target(ratio=6)),
    Work(name="import", title="import, over a bare interpreter", sizes=(1,), quick=(1,), unit="ms", expected=_nodes,
         scale=1e3, kind="import", target=Target(over=40)),
    Work(name="memory", title="memory of a long run, loop, dict state", sizes=(100_000,), quick=(20_000,),
         unit="bytes/step", expected=_loop, units=lambda _: 1, scale=1.0, kind="memory", target=Target(most=16)),
)  # fmt: skip

BY_NAME: Mapping[str, Work] = {work.name: work for work in WORKS}


def select(prefixes: str | None) -> list[Work]:
    """The workloads whose name starts with one of the comma-separated *prefixes*, in table order; all for None."""
    if not prefixes:
        return list(WORKS)
    wanted = [prefix.strip() for prefix in prefixes.split(",") if prefix.strip()]
    for prefix in wanted:
        if not any(work.name.startswith(prefix) for work in WORKS):
            raise SystemExit(f"No workload starts with {prefix!r}. Known: {', '.join(BY_NAME)}")
    return [work for work in WORKS if work.name.startswith(tuple(wanted))]
