"""graphrt with a store: the growing list of `graphrt_.py` in memory, in SQLite and in PostgreSQL, and what is left of it.

The durability is the default one, every step safe. `_plain` is without the hash chain.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.catalogue import TOGETHER_STEPS, fan_rounds
from benchmarks.work.common import Run, drive, letter, noise, postgres
from benchmarks.work.graphrt_ import Talk, fan_graph, limits, loop_graph, router, speak, work
from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append

_numbers = itertools.count(1)


class Notes(TypedDict):
    notes: Annotated[list[str], append]


def write(state: Talk) -> Any:
    return {"messages": [letter(state["count"])], "count": 1}


async def awrite(state: Talk) -> Any:
    return {"messages": [letter(state["count"])], "count": 1}


def alone(schema: Any, node: Any, more: Callable[[Any], bool], steps: int) -> Any:
    """One node that goes back to itself."""
    builder = GraphBuilder(schema, name="alone")
    builder.add_node("only", node)
    builder.add_edge(START, "only")
    builder.add_conditional_edges("only", more, {True: "only", False: END})
    return builder.compile(limits=limits(steps))


def empty() -> Any:
    return {"count": 0, "messages": []}


def run(graph: Any, store: str, *, state: Any = None, chain: bool | None = None) -> Any:
    with Runtime(graph, store=store, chain=chain) as runtime:
        return runtime.run(empty() if state is None else state, thread="t").state


def store_memory(n: int) -> Run:
    graph = loop_graph(Talk, n, speak, speak, router(n))
    return lambda: run(graph, "memory:")


# SQLite


def letters(n: int) -> Any:
    return loop_graph(Talk, n, write, write, router(n))


def in_sqlite(graph: Any, **options: Any) -> Run:
    def once() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return run(graph, f"sqlite:///{folder}/runs.db", **options)

    return once


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
    graph = alone(Talk, awrite, lambda state: state["count"] < n, n)

    async def steps(url: str) -> Any:
        async with Runtime(graph, store=url) as runtime:
            return (await runtime.arun(empty(), thread="t")).state

    def once() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return drive(steps(f"sqlite:///{folder}/runs.db"))

    return once


def store_together(n: int) -> Run:
    graph = alone(Talk, awrite, lambda state: state["count"] < TOGETHER_STEPS, TOGETHER_STEPS)

    async def many(url: str) -> dict[str, int]:
        async with Runtime(graph, store=url) as runtime:
            done = await asyncio.gather(*[runtime.arun(empty(), thread=f"t{i}") for i in range(n)])
        return {"runs": len(done), "count": sum(result.state["count"] for result in done)}

    def once() -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            return drive(many(f"sqlite:///{folder}/runs.db"))

    return once


def store_fan(n: int) -> Run:
    return in_sqlite(fan_graph(n, fan_rounds(n), work), state={"rounds": 0, "results": []})


# PostgreSQL


def postgres_run(graph: Any, *, count: bool = False, **options: Any) -> tuple[Any, int]:
    """The state, and the bytes of all tables with their indices if they were to be counted."""
    import psycopg

    schema = f"graphrt_{next(_numbers)}"
    url = postgres()
    state = run(graph, f"{url}{'&' if '?' in url else '?'}schema={schema}", **options)
    with psycopg.connect(url, autocommit=True) as db:
        size = 0
        if count:
            total = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relkind = 'r' AND"
            found = db.execute(f"{total} c.relnamespace = '{schema}'::regnamespace".encode()).fetchone()
            size = int(found[0]) if found else 0
        db.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    return state, size


def store_postgres(n: int) -> Run:
    graph = letters(n)
    return lambda: postgres_run(graph)[0]


def store_postgres_plain(n: int) -> Run:
    graph = letters(n)
    return lambda: postgres_run(graph, chain=False)[0]


def store_bytes_postgres(n: int) -> Run:
    graph = letters(n)
    return lambda: {"bytes": postgres_run(graph, count=True)[1]}


def store_bytes_postgres_plain(n: int) -> Run:
    graph = letters(n)
    return lambda: {"bytes": postgres_run(graph, count=True, chain=False)[1]}
