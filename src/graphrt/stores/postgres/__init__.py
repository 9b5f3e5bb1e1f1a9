"""PostgresStore: threads in a PostgreSQL database, for several machines."""

from graphrt.stores.postgres._store import PostgresStore

__all__ = ["PostgresStore"]
