"""The stores that the conformance suite is run over: each opens one new storage below a folder, as often as it is called."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from graphrt.stores._sqlite_files import WAL_SAFE, Pragmas
from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Store
from graphrt.stores.sqlite import SqliteStore

Make = Callable[[], Store]


def memory(folder: Path) -> Make:
    return MemoryStore


def sqlite(folder: Path) -> Make:
    return lambda: SqliteStore(folder / "runs.db")


def sqlite_other(folder: Path) -> Make:
    """In the journal mode that this SQLite would not get by itself."""
    other = Pragmas("delete", "EXTRA") if sqlite3.sqlite_version_info >= WAL_SAFE else Pragmas("wal", "FULL")
    return lambda: SqliteStore(folder / "runs.db", _pragmas=other)


DURABLE: dict[str, Callable[[Path], Make]] = {
    "sqlite": sqlite,
    "sqlite-other-mode": sqlite_other,
}
