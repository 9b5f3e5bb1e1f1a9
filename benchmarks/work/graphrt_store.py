"""graphrt with a store: the growing list of `graphrt_.py`, in memory and in SQLite with its default durability."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.work.common import Run
from benchmarks.work.graphrt_ import Talk, loop_graph, router, speak
from graphrt import Runtime


def talk(n: int) -> Any:
    return loop_graph(Talk, n, speak, speak, router(n))


def run(graph: Any, store: str) -> Any:
    with Runtime(graph, store=store) as runtime:
        return runtime.run({"count": 0, "messages": []}, thread="t").state


def store_memory(n: int) -> Run:
    graph = talk(n)
    return lambda: run(graph, "memory:")


def store_sqlite(n: int) -> Run:
    graph = talk(n)

    def once() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return run(graph, f"sqlite:///{folder}/runs.db")

    return once


def store_bytes(n: int) -> Run:
    graph = talk(n)

    def once() -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            run(graph, f"sqlite:///{folder}/runs.db")
            return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}

    return once


def load(n: int) -> Run:
    graph, folder = talk(n), tempfile.TemporaryDirectory()
    run(graph, f"sqlite:///{folder.name}/runs.db")

    def once(folder: Any = folder) -> Any:
        with Runtime(graph, store=f"sqlite:///{folder.name}/runs.db") as runtime:
            return runtime.state("t").values

    return once
