"""LangGraph with a checkpointer, durability "sync"; SQLite and PostgreSQL only where their savers are installed."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from benchmarks.catalogue import TOGETHER_STEPS, fan_rounds
from benchmarks.work.common import Run, drive, letter, noise, postgres, pragmas
from benchmarks.work.langgraph_ import Talk, config, fan_graph, loop_graph, router, speak, work

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
except ImportError:
    SqliteSaver = None
try:
    from langgraph.checkpoint.postgres import PostgresSaver
except ImportError:
    PostgresSaver = None


class Notes(TypedDict):
    notes: Annotated[list[str], add]


def write(state: Talk) -> Any:
    return {"messages": [letter(state["count"])], "count": 1}


async def awrite(state: Talk) -> Any:
    return {"messages": [letter(state["count"])], "count": 1}


def options(steps: int, thread: str = "t") -> Any:
    return {**config(steps), "configurable": {"thread_id": thread}}


def empty() -> Any:
    return {"count": 0, "messages": []}


def run(graph: Any, n: int, saver: Any, state: Any = None, *, thread: str = "t") -> Any:
    compiled = graph.builder.compile(checkpointer=saver)
    return compiled.invoke(empty() if state is None else state, options(n, thread), durability="sync")


def alone(schema: type, node: Any, more: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("only", node)
    builder.add_edge(START, "only")
    builder.add_conditional_edges("only", more, {True: "only", False: END})
    return builder.compile()


def letters(n: int) -> Any:
    return loop_graph(Talk, write, write, router(n))


def store_memory(n: int) -> Run:
    graph = loop_graph(Talk, speak, speak, router(n))
    return lambda: run(graph, n, InMemorySaver())


if SqliteSaver is not None:

    @contextmanager
    def opened(path: Path) -> Iterator[Any]:
        """A saver on a connection with the common settings, which its own setup would override."""
        db = sqlite3.connect(path, check_same_thread=False)
        chosen = pragmas()
        db.execute(f"PRAGMA page_size = {chosen['page_size']}")
        saver = SqliteSaver(db)
        saver.setup()
        for name, value in chosen.items():
            db.execute(f"PRAGMA {name} = {value}")
        yield saver
        db.close()

    def in_sqlite(graph: Any, n: int, state: Any = None) -> Run:
        """Runs on new threads of one open file."""
        folder = tempfile.TemporaryDirectory()
        context = opened(Path(folder.name) / "runs.db")
        saver = context.__enter__()
        return lambda _kept=(folder, context): run(graph, n, saver, state, thread=str(uuid4()))

    def store_sqlite(n: int) -> Run:
        return in_sqlite(letters(n), n)

    def left_by(graph: Any, n: int, state: Any = None) -> Run:
        def once() -> dict[str, int]:
            with tempfile.TemporaryDirectory() as folder:
                with opened(Path(folder) / "runs.db") as saver:
                    run(graph, n, saver, state)
                return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}

        return once

    def store_bytes(n: int) -> Run:
        return left_by(letters(n), n)

    def payload(n: int) -> Run:
        def more(state: Notes) -> bool:
            return len(state["notes"]) < n

        return left_by(alone(Notes, lambda state: {"notes": [noise(len(state["notes"]))]}, more), n, {"notes": []})

    def load(n: int) -> Run:
        graph, folder = letters(n), tempfile.TemporaryDirectory()
        path = Path(folder.name) / "runs.db"
        with opened(path) as saver:
            run(graph, n, saver)

        def once(_folder: Any = folder) -> Any:
            with opened(path) as saver:
                return graph.builder.compile(checkpointer=saver).get_state(options(n)).values

        return once

    def load_step(n: int) -> Run:
        graph, folder = alone(Talk, write, lambda state: state["count"] < n), tempfile.TemporaryDirectory()
        path = Path(folder.name) / "runs.db"
        with opened(path) as saver:
            run(graph, n, saver)

        def once(_folder: Any = folder) -> Any:
            with opened(path) as saver:
                return run(graph, n, saver)

        return once

    def store_fan(n: int) -> Run:
        rounds = fan_rounds(n)
        return in_sqlite(fan_graph(n, rounds, work), 3 * rounds, {"rounds": 0, "results": []})

    def at_once(threads: int, n: int) -> Any:
        """Concurrent runs on new threads of one open file; returns their final states."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        folder, kept = tempfile.TemporaryDirectory(), []
        graph = alone(Talk, awrite, lambda state: state["count"] < n)

        async def opened_saver() -> Any:
            kept.append(AsyncSqliteSaver.from_conn_string(f"{folder.name}/runs.db"))
            saver = await kept[0].__aenter__()
            await saver.conn.execute(f"PRAGMA page_size = {pragmas()['page_size']}")
            await saver.setup()
            for name, value in pragmas().items():
                await saver.conn.execute(f"PRAGMA {name} = {value}")
            return saver

        compiled = graph.builder.compile(checkpointer=drive(opened_saver()))

        async def runs() -> Any:
            wanted = [compiled.ainvoke(empty(), options(n, str(uuid4())), durability="sync") for _ in range(threads)]
            return await asyncio.gather(*wanted)

        return lambda _kept=(folder, kept): drive(runs())

    def store_async(n: int) -> Run:
        runs = at_once(1, n)
        return lambda: runs()[0]

    def store_together(n: int) -> Run:
        runs = at_once(n, TOGETHER_STEPS)

        def once() -> dict[str, int]:
            done = runs()
            return {"runs": len(done), "count": sum(state["count"] for state in done)}

        return once


if PostgresSaver is not None:
    TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")

    def empty_postgres() -> Any:
        import psycopg

        with psycopg.connect(postgres(), autocommit=True) as db:
            db.execute(f"DROP TABLE IF EXISTS {', '.join(TABLES)}".encode())
        context = PostgresSaver.from_conn_string(postgres())
        saver = context.__enter__()
        saver.setup()
        return saver, context

    def store_postgres(n: int) -> Run:
        kept, graph = empty_postgres(), letters(n)
        return lambda: run(graph, n, kept[0], thread=str(uuid4()))

    def store_bytes_postgres(n: int) -> Run:
        import psycopg

        def once() -> dict[str, int]:
            saver, _context = empty_postgres()
            run(letters(n), n, saver)
            with psycopg.connect(postgres()) as db:
                sizes = [db.execute(f"SELECT pg_total_relation_size('{name}')".encode()).fetchone() for name in TABLES]
            return {"bytes": sum(size[0] for size in sizes if size)}

        return once
