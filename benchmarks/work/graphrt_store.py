"""graphrt with a store: the growing list of `graphrt_.py` in memory, SQLite and PostgreSQL, and its stored size.

Durability is the default: every step is durable. `_plain` is without the hash chain.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from benchmarks.catalogue import TOGETHER_STEPS, fan_rounds
from benchmarks.work.common import Run, drive, letter, noise, postgres
from benchmarks.work.graphrt_ import Talk, fan_graph, limits, loop_graph, router, speak, work
from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append


class Notes(TypedDict):
    notes: Annotated[list[str], append]


def write(state: Talk) -> Any:
    return {"messages": [letter(state["count"])], "count": 1}


async def awrite(state: Talk) -> Any:
    return {"messages": [letter(state["count"])], "count": 1}


def alone(schema: Any, node: Any, more: Callable[[Any], bool], steps: int) -> Any:
    """One node in a loop with itself."""
    builder = GraphBuilder(schema, name="alone")
    builder.add_node("only", node)
    builder.add_edge(START, "only")
    builder.add_conditional_edges("only", more, {True: "only", False: END})
    return builder.compile(limits=limits(steps))


def empty() -> Any:
    return {"count": 0, "messages": []}


def run(graph: Any, store: str, *, state: Any = None, chain: bool | None = None, audit: Any = None) -> Any:
    with Runtime(graph, store=store, chain=chain, audit=audit) as runtime:
        return runtime.run(empty() if state is None else state, thread="t").state


def store_memory(n: int) -> Run:
    graph = loop_graph(Talk, n, speak, speak, router(n))
    return lambda: run(graph, "memory:")


# SQLite


def letters(n: int) -> Any:
    return loop_graph(Talk, n, write, write, router(n))


def in_sqlite(graph: Any, *, state: Any = None, chain: bool | None = None) -> Run:
    """Runs on new threads of one open file, so that steps are measured, not the creation of tables."""
    folder = tempfile.TemporaryDirectory()
    runtime = Runtime(graph, store=f"sqlite:///{folder.name}/runs.db", chain=chain)
    threads = (f"t{number}" for number in itertools.count())
    return lambda _folder=folder: runtime.run(empty() if state is None else state, thread=next(threads)).state


def store_sqlite(n: int) -> Run:
    return in_sqlite(letters(n))


def store_sqlite_plain(n: int) -> Run:
    return in_sqlite(letters(n), chain=False)


def left_by(graph: Any, **options: Any) -> Run:
    def once() -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            run(graph, f"sqlite:///{folder}/runs.db", **options)
            return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}

    return once


def store_bytes(n: int) -> Run:
    return left_by(letters(n))


def store_bytes_plain(n: int) -> Run:
    return left_by(letters(n), chain=False)


def noisy(n: int) -> Any:
    return alone(Notes, lambda state: {"notes": [noise(len(state["notes"]))]}, lambda state: len(state["notes"]) < n, n)


def payload(n: int) -> Run:
    return left_by(noisy(n), state={"notes": []})


def payload_plain(n: int) -> Run:
    return left_by(noisy(n), state={"notes": []}, chain=False)


def loaded(n: int, **options: Any) -> Run:
    graph, folder = letters(n), tempfile.TemporaryDirectory()
    run(graph, f"sqlite:///{folder.name}/runs.db", **options)

    def once(folder: Any = folder) -> Any:
        with Runtime(graph, store=f"sqlite:///{folder.name}/runs.db") as runtime:
            return runtime.state("t").values

    return once


def load(n: int) -> Run:
    return loaded(n)


def load_plain(n: int) -> Run:
    return loaded(n, chain=False)


def load_step(n: int) -> Run:
    graph, folder = alone(Talk, write, lambda state: state["count"] < n, n), tempfile.TemporaryDirectory()
    run(graph, f"sqlite:///{folder.name}/runs.db")

    def once(folder: Any = folder) -> Any:
        with Runtime(graph, store=f"sqlite:///{folder.name}/runs.db") as runtime:
            return runtime.run({}, thread="t").state

    return once


def store_async(n: int) -> Run:
    graph, folder = alone(Talk, awrite, lambda state: state["count"] < n, n), tempfile.TemporaryDirectory()
    runtime = Runtime(graph, store=f"sqlite:///{folder.name}/runs.db")
    threads = (f"t{number}" for number in itertools.count())
    return lambda _folder=folder: drive(runtime.arun(empty(), thread=next(threads))).state


def store_together(n: int) -> Run:
    graph = alone(Talk, awrite, lambda state: state["count"] < TOGETHER_STEPS, TOGETHER_STEPS)
    folder = tempfile.TemporaryDirectory()
    runtime = Runtime(graph, store=f"sqlite:///{folder.name}/runs.db")
    threads = (f"t{number}" for number in itertools.count())

    async def many() -> dict[str, int]:
        done = await asyncio.gather(*[runtime.arun(empty(), thread=next(threads)) for _ in range(n)])
        return {"runs": len(done), "count": sum(result.state["count"] for result in done)}

    return lambda _folder=folder: drive(many())


def store_fan(n: int) -> Run:
    return in_sqlite(fan_graph(n, fan_rounds(n), work), state={"rounds": 0, "results": []})


# PostgreSQL


def postgres_url(schema: str) -> str:
    return f"{postgres()}{'&' if '?' in postgres() else '?'}schema={schema}"


def in_postgres(n: int, *, chain: bool | None = None) -> Run:
    runtime = Runtime(letters(n), store=postgres_url("graphrt_steps"), chain=chain)
    return lambda: runtime.run(empty(), thread=f"t{uuid4()}").state


def store_postgres(n: int) -> Run:
    return in_postgres(n)


def store_postgres_plain(n: int) -> Run:
    return in_postgres(n, chain=False)


def left_in_postgres(n: int, **options: Any) -> Run:
    """The bytes of all tables with their indices, without those of an empty schema."""
    import psycopg

    def size(db: Any, schema: str) -> int:
        total = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relkind = 'r' AND"
        found = db.execute(f"{total} c.relnamespace = '{schema}'::regnamespace".encode()).fetchone()
        return int(found[0])

    def once() -> dict[str, int]:
        schema = f"graphrt_{uuid4().hex}"
        with psycopg.connect(postgres(), autocommit=True) as db:
            with Runtime(letters(n), store=postgres_url(schema)) as runtime:
                assert not runtime.threads()  # creates the tables
            empty_bytes = size(db, schema)
            run(letters(n), postgres_url(schema), **options)
            found = size(db, schema) - empty_bytes
            db.execute(f"DROP SCHEMA {schema} CASCADE".encode())
        return {"bytes": found}

    return once


def store_bytes_postgres(n: int) -> Run:
    return left_in_postgres(n)


def store_bytes_postgres_plain(n: int) -> Run:
    return left_in_postgres(n, chain=False)
