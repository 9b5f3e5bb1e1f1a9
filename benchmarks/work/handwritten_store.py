"""The yardsticks of the workloads with a store: the loop of `handwritten.py`, storing each update before the next.

In memory an update is appended to a list. In SQLite and PostgreSQL it is one row of JSON in a table of thread, number
and body, without any key, which is inserted and committed before the next step, with graphrt's settings.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks.catalogue import TOGETHER_STEPS, fan_rounds
from benchmarks.work.common import Run, drive, letter, noise, postgres, pragmas
from benchmarks.work.handwritten import REDUCERS, TALK, State, Table, gather, merge, plan, talk_edges, work

Keep = Callable[[int, str, State], None]
TABLE = "CREATE TABLE entries (thread TEXT, seq INTEGER, body TEXT)"


def run(state: State, nodes: Table, edges: Table, name: str | None, keep: Keep) -> State:
    seq = 0
    while name is not None:
        update = nodes[name](state)
        seq += 1
        keep(seq, name, update)
        merge(state, update, REDUCERS)
        edge = edges[name]
        name = edge(state) if callable(edge) else edge
    return state


def empty() -> State:
    return {"count": 0, "messages": []}


def write(state: State) -> State:
    return {"messages": [letter(state["count"])], "count": 1}


LETTERS = {"ask": write, "reply": write}


def store_memory(n: int) -> Run:
    edges = talk_edges(n)

    def once() -> State:
        journal: list[Any] = []
        return run(empty(), TALK, edges, "ask", lambda *entry: journal.append(entry))

    return once


# SQLite


def connect(path: Path, *, new: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for name, value in pragmas().items():
        db.execute(f"PRAGMA {name} = {value}")
    if new:
        db.execute(TABLE)
    return db


def insert(db: sqlite3.Connection, rows: list[tuple[int, State]]) -> None:
    db.execute("BEGIN")
    for seq, update in rows:
        db.execute("INSERT INTO entries VALUES (?, ?, ?)", ("t", seq, json.dumps(update)))
    db.execute("COMMIT")


def fill(path: Path, n: int) -> State:
    db = connect(path, new=True)
    state = run(empty(), LETTERS, talk_edges(n), "ask", lambda seq, _, update: insert(db, [(seq, update)]))
    db.close()
    return state


def store_sqlite(n: int) -> Run:
    folder, edges = tempfile.TemporaryDirectory(), talk_edges(n)
    db = connect(Path(folder.name) / "runs.db", new=True)

    def once(_folder: Any = folder) -> State:
        return run(empty(), LETTERS, edges, "ask", lambda seq, _, update: insert(db, [(seq, update)]))

    return once


store_sqlite_plain = store_sqlite


def left_in(folder: str) -> dict[str, int]:
    return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}


def store_bytes(n: int) -> Run:
    def once() -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder) / "runs.db", n)
            return left_in(folder)

    return once


store_bytes_plain = store_bytes


def payload(n: int) -> Run:
    return lambda: {"bytes": sum(len(noise(i)) for i in range(n))}


payload_plain = payload


def read(db: sqlite3.Connection) -> State:
    state = empty()
    for (body,) in db.execute("SELECT body FROM entries ORDER BY rowid"):
        merge(state, json.loads(body), REDUCERS)
    return state


def load(n: int) -> Run:
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "runs.db"
    fill(path, n)

    def once(_folder: Any = folder) -> State:
        db = connect(path)
        state = read(db)
        db.close()
        return state

    return once


load_plain = load


def load_step(n: int) -> Run:
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "runs.db"
    fill(path, n)

    def once(_folder: Any = folder) -> State:
        db = connect(path)
        state = read(db)
        update = write(state)
        insert(db, [(state["count"] + 1, update)])
        merge(state, update, REDUCERS)
        db.close()
        return state

    return once


async def awrite(state: State) -> State:
    return write(state)


async def arun(state: State, steps: int, keep: Callable[[int, State], None]) -> State:
    loop = asyncio.get_running_loop()
    for seq in range(1, steps + 1):
        update = await awrite(state)
        await loop.run_in_executor(None, keep, seq, update)
        merge(state, update, REDUCERS)
    return state


def store_async(n: int) -> Run:
    folder = tempfile.TemporaryDirectory()
    db = connect(Path(folder.name) / "runs.db", new=True)
    return lambda _folder=folder: drive(arun(empty(), n, lambda seq, update: insert(db, [(seq, update)])))


def store_together(n: int) -> Run:
    folder, lock = tempfile.TemporaryDirectory(), Lock()
    db = connect(Path(folder.name) / "runs.db", new=True)

    def keep(seq: int, update: State) -> None:
        with lock:
            insert(db, [(seq, update)])

    async def many() -> dict[str, int]:
        done = await asyncio.gather(*[arun(empty(), TOGETHER_STEPS, keep) for _ in range(n)])
        return {"runs": len(done), "count": sum(state["count"] for state in done)}

    return lambda _folder=folder: drive(many())


def store_fan(n: int) -> Run:
    """Each superstep is one transaction, with a row for each task."""
    folder = tempfile.TemporaryDirectory()
    db = connect(Path(folder.name) / "runs.db", new=True)

    def once(_folder: Any = folder) -> State:
        state: State = {"rounds": 0, "results": []}
        seq = 0
        while state["rounds"] < fan_rounds(n):
            for updates in ([plan(state)], [work(state, item) for item in range(n)], [gather(state)]):
                insert(db, [(seq := seq + 1, update) for update in updates])
                for update in updates:
                    merge(state, update, REDUCERS)
        return state

    return once


# PostgreSQL


def fill_postgres(db: Any, n: int) -> State:
    def keep(seq: int, _name: str, update: State) -> None:
        db.execute("INSERT INTO bare VALUES (%s, %s, %s)", ("t", seq, json.dumps(update)))
        db.commit()

    return run(empty(), LETTERS, talk_edges(n), "ask", keep)


def empty_postgres() -> Any:
    import psycopg

    db = psycopg.connect(postgres())
    db.execute("DROP TABLE IF EXISTS bare")
    db.execute("CREATE TABLE bare (thread TEXT, seq INTEGER, body TEXT)")
    db.commit()
    return db


def store_postgres(n: int) -> Run:
    db = empty_postgres()
    return lambda: fill_postgres(db, n)


store_postgres_plain = store_postgres


def store_bytes_postgres(n: int) -> Run:
    def once() -> dict[str, int]:
        with empty_postgres() as db:
            fill_postgres(db, n)
            return {"bytes": db.execute("SELECT pg_total_relation_size('bare')").fetchone()[0]}

    return once


store_bytes_postgres_plain = store_bytes_postgres
