"""The yardsticks of the workloads with a store: the loop of `handwritten.py` that keeps each update before going on.

In memory an update is appended to a list; in SQLite it is one row, inserted and committed under the pragmas that
make every step safe against a power cut.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.work.common import Run
from benchmarks.work.handwritten import REDUCERS, TALK, State, Table, merge, talk_edges

Keep = Callable[[int, str, State], None]


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


def connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS entries (seq INTEGER PRIMARY KEY, node TEXT, body TEXT) STRICT")
    return db


def fill(path: Path, n: int) -> State:
    db, edges = connect(path), talk_edges(n)

    def keep(seq: int, name: str, update: State) -> None:
        db.execute("BEGIN")
        db.execute("INSERT INTO entries VALUES (?, ?, ?)", (seq, name, json.dumps(update)))
        db.execute("COMMIT")

    state = run(empty(), TALK, edges, "ask", keep)
    db.close()
    return state


def store_memory(n: int) -> Run:
    edges = talk_edges(n)

    def once() -> State:
        journal: list[Any] = []
        return run(empty(), TALK, edges, "ask", lambda *entry: journal.append(entry))

    return once


def store_sqlite(n: int) -> Run:
    def once() -> State:
        with tempfile.TemporaryDirectory() as folder:
            return fill(Path(folder) / "runs.db", n)

    return once


def store_bytes(n: int) -> Run:
    def once() -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder) / "runs.db", n)
            return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}

    return once


def load(n: int) -> Run:
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "runs.db"
    fill(path, n)

    def once(_folder: Any = folder) -> State:
        db, state = connect(path), empty()
        for (body,) in db.execute("SELECT body FROM entries ORDER BY seq"):
            merge(state, json.loads(body), REDUCERS)
        db.close()
        return state

    return once
