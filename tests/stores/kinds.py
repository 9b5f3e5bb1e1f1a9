"""The stores that the conformance suite tests: each opens a new storage below a folder, as often as it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Store
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite._journal_modes import Pragmas

Make = Callable[[], Store]


def memory(folder: Path) -> Make:
    return MemoryStore


def sqlite(folder: Path) -> Make:
    return lambda: SqliteStore(folder / "runs.db")


def sqlite_other(folder: Path) -> Make:
    """The file mode for file systems that do not support a write-ahead log."""
    return lambda: SqliteStore(folder / "runs.db", _pragmas=Pragmas("delete", "EXTRA"))


DURABLE: dict[str, Callable[[Path], Make]] = {
    "sqlite": sqlite,
    "sqlite-other-mode": sqlite_other,
}
