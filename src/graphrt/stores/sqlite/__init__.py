"""SqliteStore: threads in one SQLite file, for all processes of one machine."""

from graphrt.stores.sqlite._store import SqliteStore

__all__ = ["SqliteStore"]
