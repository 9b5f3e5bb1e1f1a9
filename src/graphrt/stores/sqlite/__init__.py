"""A store in one SQLite file. `_store` says what a store's methods mean here; the other modules are private to it."""

from graphrt.stores.sqlite._store import SqliteStore

__all__ = ["SqliteStore"]
