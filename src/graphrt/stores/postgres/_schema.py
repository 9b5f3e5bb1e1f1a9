"""The tables of a PostgreSQL store, and their version.

    thread     one row for each thread: its head, and its newest claim; `rank` is minus its priority
    record     one row for each commit with entries
    staged     staged bodies; those of older generations than their thread's are no longer valid
    snapshot, blob, meta
    label      one row for each thread with a tenant, title or tags
    question   one row for each open question
    mail       one row for each message, and for each that was taken, without a body
    schedule   one row for each schedule
    memory     one row for each item of the memory; `path` is its namespace with a slash at the end
    live_follower, live_batch   live items on their way between processes (`_live`)

`named` puts the quoted name of the schema in place of `{s}` in a statement.

A *record* has the journal entries of one commit. *Staged* bodies are outcomes of tasks whose superstep is not committed
yet. A *snapshot* is the state after an entry, a *blob* a large value, *meta* facts about the thread as a whole, and a
*message* mail of a process that does not own the thread.

`thread.no` is never used again, so a claim on a deleted thread cannot affect a new thread with the same id. `token`
marks the last change of the row, and `fence` shuts out statements that are still under way (see `_commit`). Texts of
callers are stored as bytea where they may have characters that PostgreSQL's text does not accept, such as NUL.

The statements that use the tables are in `_statements`, and in `_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphrt.errors import StoreError
from graphrt.errors._codes.databases import FOREIGN_TABLE
from graphrt.errors._codes.stores import STORE_NEWER, STORE_OLDER
from graphrt.stores.postgres._driver import Connection

VERSION: Final = 10
"""Version of the tables, the only one that is read and written. Unreleased builds wrote 1 to 9 (decision 0168)."""

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
    holder text NOT NULL,
    rank integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX thread_running ON {s}.thread (rank, no) WHERE status = 'running';
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
CREATE TABLE {s}.label (
    no bigint PRIMARY KEY,
    tenant text COLLATE "C",
    title text COLLATE "C",
    folded text COLLATE "C",
    tags text[] NOT NULL
);
CREATE INDEX label_tenant ON {s}.label (tenant, no) WHERE tenant IS NOT NULL;
CREATE INDEX label_tags ON {s}.label USING gin (tags);
CREATE TABLE {s}.question (
    no bigint NOT NULL,
    asked_at float8 NOT NULL,
    expires_at float8,
    stale boolean NOT NULL,
    tenant text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    place bytea NOT NULL,
    graph bytea NOT NULL,
    node bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (no, place)
);
CREATE INDEX question_asked ON {s}.question (asked_at, no, place, kind, graph, node);
CREATE INDEX question_tenant ON {s}.question (tenant, asked_at, no, place, kind, graph, node) WHERE tenant IS NOT NULL;
CREATE INDEX question_kind ON {s}.question (kind, graph, asked_at, no, place);
CREATE INDEX question_expires ON {s}.question (expires_at, no) WHERE expires_at IS NOT NULL;
CREATE TABLE {s}.mail (
    no bigint NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    id bytea NOT NULL,
    body bytea,
    PRIMARY KEY (no, id)
);
CREATE INDEX mail_waiting ON {s}.mail (no, place) WHERE body IS NOT NULL;
CREATE TABLE {s}.schedule (
    name text COLLATE "C" PRIMARY KEY,
    graph bytea NOT NULL,
    version text NOT NULL,
    due_at float8 NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE {s}.memory (
    path text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    words text[] NOT NULL,
    created_at float8 NOT NULL,
    updated_at float8 NOT NULL,
    expires_at float8,
    vector real[],
    PRIMARY KEY (path, key)
);
ALTER TABLE {s}.memory ALTER vector SET STORAGE EXTERNAL;
CREATE INDEX memory_words ON {s}.memory USING gin (words);
CREATE INDEX memory_expires ON {s}.memory (expires_at) WHERE expires_at IS NOT NULL;
CREATE UNLOGGED TABLE {s}.live_follower (thread text COLLATE "C" PRIMARY KEY, until timestamptz NOT NULL);
CREATE UNLOGGED TABLE {s}.live_batch (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body bytea NOT NULL
);
CREATE INDEX live_batch_thread ON {s}.live_batch (thread, place);
CREATE INDEX live_batch_at ON {s}.live_batch (at);
CREATE TABLE {s}.schema_version (version integer NOT NULL, application text NOT NULL);
"""
# Every commit updates its thread's row. Half of each page is left free (fillfactor), so that the new version of the row
# fits into the same page and no index has to change. This is a HOT update; it needs that no column changed by commits
# is indexed. PostgreSQL compares the values of indexed columns and of those in conditions of indexes, so a commit that
# does not change the status is a HOT update, too.
#
# There are no foreign keys: checking the key of a record would cost more than writing the record. They are not needed,
# because rows of the other tables are written only by statements that hold the lock on the thread's row.
#
# Vectors are stored without compression, which would hardly shrink them and slow down reads.
#
# Labels and questions have separate tables instead of columns in `thread`, so a thread without labels and a plain
# commit cost nothing extra. The indexes with a condition are for threads that a worker may drive: a thread that is not
# due is in none of them. The tables of live items are unlogged: their content is lost in a crash of the server.


def prepare(connection: Connection, schema: str, named: Callable[[str], bytes]) -> None:
    """Create the tables in one transaction, if there are none. Several processes may call this at once.

    A role without the right to create tables can use a schema that has them.

    Args:
        connection: A connection in autocommit mode.
        schema: Name of the schema.
        named: `Link.named`.

    Raises:
        StoreError: Another version of graphrt created the tables (`store-older`, `store-newer`), or they are not a
            store's (`store-damaged`).
    """
    if _exists(connection, schema, named):
        return
    with connection.transaction():
        # A lock of the transaction, not of the session: behind a pooler, a session outlives the process that uses it.
        connection.execute(b"SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"graphrt {schema}"])
        if _exists(connection, schema, named):  # another process was faster
            return
        _refuse_foreign(connection, schema)
        if not connection.execute(b"SELECT FROM pg_namespace WHERE nspname = %s", [schema]).rowcount:
            connection.execute(named("CREATE SCHEMA {s}"))
        connection.execute(named(_TABLES))
        connection.execute(named("INSERT INTO {s}.schema_version VALUES (%s, 'graphrt')"), [VERSION])


def _exists(connection: Connection, schema: str, named: Callable[[str], bytes]) -> bool:
    """Return whether *schema* has the tables.

    Raises:
        StoreError: They are of another version, or the table `schema_version` is not graphrt's.
    """
    row = connection.execute(
        b"SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        b" WHERE n.nspname = %s AND c.relname = 'schema_version')",
        [schema],
    ).fetchone()
    if not row or not row[0]:
        return False
    # Another application may have a table of that name: its columns are checked before it is read.
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
    if version < VERSION:
        raise STORE_OLDER(part=f"The schema {schema!r}", version=version, form=VERSION)
    if version > VERSION:
        raise STORE_NEWER(part=f"The schema {schema!r}", version=version, form=VERSION)
    return True


def _refuse_foreign(connection: Connection, schema: str) -> None:
    """Check that the unversioned *schema* has no tables with our names, which would belong to another application.

    Raises:
        StoreError: It has one.
    """
    row = connection.execute(
        b"SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s"
        b" AND c.relname IN ('thread', 'record', 'staged', 'snapshot', 'blob', 'meta', 'label', 'question', 'mail',"
        b" 'schedule', 'memory', 'live_follower', 'live_batch')"
        b" ORDER BY 1",
        [schema],
    ).fetchone()
    if row:
        raise _foreign(schema, row[0])


def _foreign(schema: str, table: str) -> StoreError:
    """Return the error for a *table* that belongs to another application (`store-damaged`)."""
    return FOREIGN_TABLE(schema=schema, table=table)


def to_bytes(text: str) -> bytes:
    """Encode a caller's text for storage. Any str is accepted, even with NUL, which PostgreSQL's text type rejects."""
    # A lone surrogate, which strict UTF-8 refuses, is encoded too.
    return text.encode("utf-8", "surrogatepass")


def to_text(stored: bytes) -> str:
    """Decode the result of `to_bytes`."""
    return stored.decode("utf-8", "surrogatepass")
