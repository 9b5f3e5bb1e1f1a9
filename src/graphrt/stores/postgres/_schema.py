"""The tables of a PostgreSQL store: how they are made, and how those of an older version are brought up to date.

Only definitions and migrations; the statements that use the tables are in `_statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from graphrt.errors import StoreError
from graphrt.stores.postgres._driver import Connection

Migration: TypeAlias = Callable[[Connection, Callable[[str], bytes]], None]
"""Takes a connection inside the transaction, and what names the schema in a statement."""

_TABLES: Final = """
CREATE TABLE {s}.thread (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq bigint NOT NULL,
    first bigint NOT NULL,
    epoch bigint NOT NULL,
    token bigint NOT NULL,
    generation bigint NOT NULL,
    created_at float8 NOT NULL,
    updated_at float8 NOT NULL,
    lease_until timestamptz NOT NULL,
    held_since timestamptz NOT NULL,
    backend_start bigint,
    backend_pid integer,
    fence integer NOT NULL,
    id text COLLATE "C" NOT NULL UNIQUE,
    status text COLLATE "C" NOT NULL,
    graph bytea NOT NULL,
    holder text NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE {s}.record (
    no bigint NOT NULL,
    seq bigint NOT NULL,
    count bigint NOT NULL,
    body bytea NOT NULL,
    seal bytea NOT NULL,
    PRIMARY KEY (no, seq)
);
CREATE TABLE {s}.staged (
    no bigint NOT NULL,
    generation bigint NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    key bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (no, generation, key)
);
CREATE TABLE {s}.snapshot (no bigint NOT NULL, seq bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (no, seq));
CREATE TABLE {s}.blob (no bigint NOT NULL, name bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (no, name));
CREATE TABLE {s}.meta (no bigint PRIMARY KEY, body bytea NOT NULL);
"""
# A thread's row is written again by every commit: half of each page is left free, so that the new row finds its place
# beside the old one and no index is touched (a HOT update: none of the columns that commits change is indexed).
# There are no foreign keys: rows of the other tables are only written by a statement that holds the thread's row, and
# a check for each record would cost more than the record.


def _first(connection: Connection, named: Callable[[str], bytes]) -> None:
    connection.execute(named(_TABLES))


MIGRATIONS: Final[Sequence[Migration]] = (_first,)
"""The n-th brings version n to n + 1; 0 is an empty schema."""


def prepare(
    connection: Connection,
    schema: str,
    named: Callable[[str], bytes],
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> None:
    """Make the tables, or bring them up to date, in one transaction; two processes may do so at once.

    A role that may not create anything can use a schema that is up to date already.

    Raises:
        StoreError: The tables are a newer version's (`store-newer`), or not ours (`store-damaged`).
    """
    if _version(connection, schema, named, len(migrations)) == len(migrations):
        return
    with connection.transaction():
        # freed with the transaction, whatever happens: a session's lock would outlive its owner behind a pooler
        connection.execute(b"SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"graphrt {schema}"])
        version = _version(connection, schema, named, len(migrations))
        if version is None:
            _refuse_foreign(connection, schema)
            if not connection.execute(b"SELECT FROM pg_namespace WHERE nspname = %s", [schema]).rowcount:
                connection.execute(named("CREATE SCHEMA {s}"))
            connection.execute(
                named("CREATE TABLE {s}.schema_version (version integer NOT NULL, application text NOT NULL)")
            )
            connection.execute(named("INSERT INTO {s}.schema_version VALUES (0, 'graphrt')"))
        for migrate in migrations[version or 0 :]:
            migrate(connection, named)
        connection.execute(named("UPDATE {s}.schema_version SET version = %s"), [len(migrations)])


def _version(connection: Connection, schema: str, named: Callable[[str], bytes], newest: int) -> int | None:
    """Version of the tables, None if there are none."""
    found = connection.execute(
        b"SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        b" WHERE n.nspname = %s AND c.relname = 'schema_version')",
        [schema],
    ).fetchone()
    if not found or not found[0]:
        return None
    shape = {
        name
        for (name,) in connection.execute(
            b"SELECT column_name::text FROM information_schema.columns"
            b" WHERE table_schema = %s AND table_name = 'schema_version'",
            [schema],
        )
    }
    rows = (
        connection.execute(named("SELECT version, application FROM {s}.schema_version")).fetchall()
        if {"version", "application"} <= shape
        else []
    )
    if len(rows) != 1 or rows[0][1] != "graphrt":
        raise _foreign(schema, "schema_version")
    version: int = rows[0][0]
    if version > newest:
        raise StoreError(
            f"The tables in schema {schema!r} are of version {version}, and this graphrt knows version {newest}.",
            code="store-newer",
            fix="Upgrade graphrt, or name another schema with ?schema=.",
            value=version,
        )
    return version


def _refuse_foreign(connection: Connection, schema: str) -> None:
    taken = connection.execute(
        b"SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s"
        b" AND c.relname IN ('thread', 'record', 'staged', 'snapshot', 'blob', 'meta') ORDER BY 1",
        [schema],
    ).fetchone()
    if taken:
        raise _foreign(schema, taken[0])


def _foreign(schema: str, table: str) -> StoreError:
    return StoreError(
        f"Schema {schema!r} has a table {table!r} that is not graphrt's; nothing was changed.",
        code="store-damaged",
        fix="Name a schema that nothing else uses, with ?schema=.",
    )
