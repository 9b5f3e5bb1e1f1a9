"""LangGraph with a checkpointer; SQLite only where its saver (langgraph-checkpoint-sqlite) is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.work.common import Run
from benchmarks.work.langgraph_ import Talk, config, loop_graph, router, speak

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
except ImportError:
    SqliteSaver = None


def run(n: int, saver: Any) -> Any:
    builder = loop_graph(Talk, speak, speak, router(n)).builder
    options = {**config(n), "configurable": {"thread_id": "t"}}
    return builder.compile(checkpointer=saver).invoke({"count": 0, "messages": []}, options, durability="sync")


def store_memory(n: int) -> Run:
    return lambda: run(n, InMemorySaver())


if SqliteSaver is not None:

    def fill(path: Path, n: int) -> Any:
        with SqliteSaver.from_conn_string(str(path)) as saver:
            saver.conn.execute("PRAGMA journal_mode=WAL")
            saver.conn.execute("PRAGMA synchronous=FULL")
            return run(n, saver)

    def store_sqlite(n: int) -> Run:
        def once() -> Any:
            with tempfile.TemporaryDirectory() as folder:
                return fill(Path(folder) / "runs.db", n)

        return once

    def store_bytes(n: int) -> Run:
        def once() -> dict[str, int]:
            with tempfile.TemporaryDirectory() as folder:
                fill(Path(folder) / "runs.db", n)
                return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}

        return once
