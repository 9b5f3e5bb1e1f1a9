"""A store in a PostgreSQL database. `_store` says what a store's methods mean here; the other modules are private to it."""

from graphrt.stores.postgres._store import PostgresStore

__all__ = ["PostgresStore"]
