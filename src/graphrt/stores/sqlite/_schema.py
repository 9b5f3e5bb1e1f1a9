"""The tables of a SQLite store, their version, and the check that a file is a store's.

    thread   one row for each thread: its head, lease and owner; `rank` is minus its priority
    record   one row for each commit with entries; key = number of the thread * SPAN + number of the last entry
    part     meta, snapshots, staged bodies, blobs and messages (`_query`), by thread, kind and name; some are ordered by `place`
    label, tag, question the data by which threads are found (`_writing`)
    schedule one row for each schedule
    memory   one row for each item of the memory (`_memory`); memory_word has its words

An *entry* is one line of a thread's journal. *Staged* bodies are kept until a later commit deletes them; a *blob* is a
large value; the *meta* is one value that describes the thread. A *question* is an open one that the thread waits for.

Because of their keys, the records of a thread lie next to each other, in order, without a second index. A thread's
number is never used again, so a claim on a deleted thread cannot affect a new thread with the same id.

The statements that use the tables are in `_reading`, `_writing`, `_memory`, and the modules named above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphrt.errors._codes.databases import SQLITE_NOT_A_DATABASE
from graphrt.errors._codes.stores import STORE_NEWER, STORE_OLDER

if TYPE_CHECKING:
    from sqlite3 import Connection

SPAN: Final = 2**36
"""Upper bound for the number of an entry, exclusive; the step from the keys of one thread to those of the next."""
THREADS: Final = 2**27 - 1
"""Maximum number of a thread, for which the keys of its records still fit into 63 bits."""

VERSION: Final = 9
"""Version of the tables, the only one that is read and written. Unreleased builds wrote 1 to 8 (decision 0168)."""
APPLICATION: Final = 0x67727431
"""`PRAGMA application_id` of a store's file: "grt1"."""

PAGE_BYTES: Final = 4096
"""Page size of new files: that of most disks' sectors, so that a torn sector touches no page that the journal lacks.

It is also the only one of the sizes from 512 to 8,192 that keeps files small for small and for large bodies. File sizes
as multiples, measured for decision 0025:

    page size                                                512     1,024   2,048   4,096   8,192
    of the bare table, bodies of 546 bytes                           2.01            1.14
    of the messages, 1,024 bytes each with their seals       1.51    1.34    2.02    1.35    1.34
    of the bare table, mean over messages of 100 to 4,000    1.19    1.32    1.27    1.27    1.32

Only one body of 546 bytes fits a page of 1,024. Pages of 512 bytes are slow for large bodies. Commits take the same
time with all sizes."""

META, SNAPSHOT, STAGED, BLOB, MAIL, TAKEN = range(6)
"""Kinds of parts. Their names are: 0 for meta, the number of the entry for a snapshot, the key of a staged body, the
name of a blob, the id of a message, the id of a message that was taken."""

_TABLES: Final = (
    (
        "CREATE TABLE thread(no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL,"
        " first INTEGER NOT NULL, epoch INTEGER NOT NULL, turn INTEGER NOT NULL, status TEXT NOT NULL,"
        " graph TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL, lease REAL, owner TEXT,"
        " rank INTEGER NOT NULL DEFAULT 0)"
    ),
    # Partial indexes, by which threads are found that a worker should drive: those that run, have a message, or have a
    # question that expires. Other threads have no row there, and a commit that changes no status writes none.
    "CREATE INDEX thread_running ON thread(rank, no) WHERE status = 'running'",
    "CREATE TABLE record(key INTEGER PRIMARY KEY, count INTEGER NOT NULL, body BLOB NOT NULL, seal BLOB NOT NULL)",
    (
        "CREATE TABLE part(no INTEGER NOT NULL, kind INTEGER NOT NULL, name NOT NULL, place INTEGER NOT NULL,"
        " body BLOB NOT NULL, PRIMARY KEY(no, kind, name)) WITHOUT ROWID"
    ),
    f"CREATE INDEX part_mail ON part(no, place) WHERE kind = {MAIL}",
    # They have separate tables instead of columns of `thread`. So a thread without labels has no row there, and a
    # commit that changes neither labels nor questions writes none.
    "CREATE TABLE label(no INTEGER PRIMARY KEY, tenant TEXT, title TEXT, folded TEXT, tags TEXT)",
    "CREATE INDEX label_tenant ON label(tenant, no) WHERE tenant IS NOT NULL",
    "CREATE TABLE tag(name TEXT NOT NULL, no INTEGER NOT NULL, PRIMARY KEY(name, no)) WITHOUT ROWID",
    (
        "CREATE TABLE question(no INTEGER NOT NULL, tenant TEXT, place TEXT NOT NULL, kind TEXT NOT NULL,"
        " node TEXT NOT NULL, graph TEXT NOT NULL, asked_at REAL NOT NULL, expires_at REAL, stale INTEGER NOT NULL,"
        " body BLOB NOT NULL, PRIMARY KEY(no, place))"
    ),
    # Both contain all columns used in filters, so that a page with rare questions reads only the index.
    "CREATE INDEX question_asked ON question(asked_at, no, place, kind, graph, node)",
    (
        "CREATE INDEX question_tenant ON question(tenant, asked_at, no, place, kind, graph, node)"
        " WHERE tenant IS NOT NULL"
    ),
    # For rare kinds, and for hosts that repeatedly look for questions of one kind and graph.
    "CREATE INDEX question_kind ON question(kind, graph, asked_at, no, place, node)",
    "CREATE INDEX question_expires ON question(expires_at, no) WHERE expires_at IS NOT NULL",
    (
        "CREATE TABLE schedule(name TEXT PRIMARY KEY, graph TEXT NOT NULL, version TEXT NOT NULL, due_at REAL NOT NULL,"
        " body BLOB NOT NULL) WITHOUT ROWID"
    ),
    # A `path` is a namespace with a slash at its end, so that a namespace and those below it are one range.
    (
        "CREATE TABLE memory(no INTEGER PRIMARY KEY, path TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,"
        " created_at REAL NOT NULL, updated_at REAL NOT NULL, expires_at REAL, vector BLOB, UNIQUE(path, key))"
    ),
    "CREATE INDEX memory_expires ON memory(expires_at) WHERE expires_at IS NOT NULL",
    "CREATE TABLE memory_word(word TEXT NOT NULL, no INTEGER NOT NULL, PRIMARY KEY(word, no)) WITHOUT ROWID",
    "CREATE INDEX memory_word_no ON memory_word(no)",
)


def _strict(statement: str) -> str:
    """Return *statement*; a table becomes STRICT, so that SQLite refuses values of wrong types.

    SQLite before 3.37 has no such tables, and cannot open a file that has them.
    """
    import sqlite3

    if sqlite3.sqlite_version_info < (3, 37) or not statement.startswith("CREATE TABLE"):
        return statement
    # Only strict tables know the type ANY: in others, it would make numbers of digits.
    statement = statement.replace(", name NOT NULL", ", name ANY NOT NULL")
    return f"{statement}, STRICT" if statement.endswith("WITHOUT ROWID") else f"{statement} STRICT"


def state(db: Connection) -> tuple[int, int, int]:
    """Return the file's application id, its schema version, and the number of its tables and indices.

    `check` judges them. Inside a transaction of the caller, as in `create`, none is started.
    """
    if db.in_transaction:
        return _state(db)
    # One transaction, so that all three come from one snapshot: another process may create the tables meanwhile.
    db.execute("BEGIN")
    try:
        return _state(db)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _state(db: Connection) -> tuple[int, int, int]:
    """Read the result of `state`, in a transaction of the caller."""
    with_id = db.execute("PRAGMA application_id").fetchall()[0][0]
    version = db.execute("PRAGMA user_version").fetchall()[0][0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchall()[0][0]
    return int(with_id), int(version), int(tables)


def is_blank(file_state: tuple[int, int, int]) -> bool:
    """Return whether the file with the state *file_state* (from `state`) is empty: no id, no version, no tables."""
    return file_state == (0, 0, 0)


def check(file_state: tuple[int, int, int], path: str) -> bool:
    """Return whether the file has the tables; False if it is blank.

    Args:
        file_state: What `state` returned.
        path: The file, for an error.

    Raises:
        StoreError: The file belongs to another application (`store-damaged`), or another version of graphrt wrote it
            (`store-older`, `store-newer`).
    """
    application, version, tables = file_state
    if is_blank(file_state):
        return False
    if application != APPLICATION:
        raise SQLITE_NOT_A_DATABASE(
            database=path,
            name="another application",
            reason=f"application id {application:#x}, {tables} tables and indices",
            kept="nothing was changed",
            known=f"the application id of graphrt is {APPLICATION:#x}",
            thread=None,
        )
    if version < VERSION:
        raise STORE_OLDER(part=f"The database {path!r}", version=version, form=VERSION)
    if version > VERSION:
        raise STORE_NEWER(part=f"The database {path!r}", version=version, form=VERSION)
    return True


def create(db: Connection, path: str) -> None:
    """Create the tables in a blank file, in one transaction.

    Raises:
        StoreError: Another application, or another version of graphrt, has written the file meanwhile.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have created the tables meanwhile.
        if not check(state(db), path):
            for statement in _TABLES:
                db.execute(_strict(statement))
            # Pragmas take no bound parameters. Both values are constants of this module.
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
