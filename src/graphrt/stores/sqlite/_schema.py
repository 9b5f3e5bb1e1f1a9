"""The tables of the SQLite store, their versions, and how a file is taken for one of ours.

Definitions of data and their migration only; the statements that use them stand with their callers.

A record's key is its thread's number times `SPAN` plus the number of its last entry, so the records of a thread lie
side by side in order and need no second index. What is looked up by name shares one table. A thread's number is never given twice: a claim on a thread
that was deleted can do nothing to one that has its id now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from graphrt.errors import StoreError

if TYPE_CHECKING:
    from sqlite3 import Connection

SPAN: Final = 2**36
"""More entries than a thread can have."""
THREADS: Final = 2**27 - 1
"""The largest number of a thread: its records' keys still fit into 63 bits."""

APPLICATION: Final = 0x67727431
"""`PRAGMA application_id` of our files: "grt1"."""

PAGE_BYTES: Final = 4096
"""That of most disks' sectors: where a loss of power tears one, no neighbour is lost that the journal does not have. Of the
sizes from 512 to 8,192 only this one keeps both promises on bytes: bodies of 550 (a message of 420) take 1.14 times the bare
table, which 1,024 doubles because two do not fit a page, and messages of 1 KB with their seals 1.34 times themselves, where
512 takes 1.51 and 2,048 2.02. Over messages of 100 to 4,000 bytes it is as good as any but 512, which is slow for large bodies.
Commits take the same time."""

META, SNAPSHOT, STAGED, BLOB = range(4)
"""Kinds of parts. Named by: nothing (0), the number of their entry, their key, the name of their content."""

_FIRST: Final = (
    (
        "CREATE TABLE thread(no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL,"
        " first INTEGER NOT NULL, epoch INTEGER NOT NULL, turn INTEGER NOT NULL, status TEXT NOT NULL,"
        " graph TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL, lease REAL, owner TEXT)"
    ),
    "CREATE TABLE record(key INTEGER PRIMARY KEY, count INTEGER NOT NULL, body BLOB NOT NULL, seal BLOB NOT NULL)",
    (
        "CREATE TABLE part(no INTEGER NOT NULL, kind INTEGER NOT NULL, name NOT NULL, place INTEGER NOT NULL,"
        " body BLOB NOT NULL, PRIMARY KEY(no, kind, name)) WITHOUT ROWID"
    ),
)


def _create(db: Connection) -> None:
    for statement in _FIRST:
        db.execute(statement)


MIGRATIONS: Sequence[Callable[[Connection], None]] = (_create,)
"""The n-th one makes version n out of version n - 1, within the one transaction that opens the file."""


def state(db: Connection) -> tuple[int, int, int]:
    """The file's application id, its schema version, and how many tables and indices it has."""
    with_id = db.execute("PRAGMA application_id").fetchall()[0][0]
    version = db.execute("PRAGMA user_version").fetchall()[0][0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchall()[0][0]
    return int(with_id), int(version), int(tables)


def is_blank(found: tuple[int, int, int]) -> bool:
    return found == (0, 0, 0)


def check(found: tuple[int, int, int], path: str) -> bool:
    """Whether the file is ours and up to date; False if it is blank or of an older version.

    Raises:
        StoreError: It is another application's (`store-damaged`), or a newer graphrt made it (`store-newer`).
    """
    application, version, tables = found
    if is_blank(found):
        return False
    if application != APPLICATION:
        raise StoreError(
            f"The database {path!r} belongs to another application.",
            code="store-damaged",
            where=f"database {path!r}",
            known=f"application id {application:#x}, {tables} tables and indices; graphrt's is {APPLICATION:#x}",
            fix="Give the path of another file; this one was not changed.",
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"The database {path!r} was written by a newer graphrt.",
            code="store-newer",
            where=f"database {path!r}",
            known=f"schema version {version}; this graphrt reads up to {len(MIGRATIONS)}",
            fix="Update graphrt; the file was not changed.",
        )
    return version == len(MIGRATIONS)


def migrate(db: Connection, path: str) -> None:
    """Bring the file to the newest version in one transaction; another process may have done so meanwhile."""
    db.execute("BEGIN IMMEDIATE")
    try:
        found = state(db)
        if not check(found, path):
            for step in MIGRATIONS[found[1] :]:
                step(db)
            # A pragma takes no parameters; both are numbers of this file.
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
