"""Survey of a whole SQLite file for `verify`: the ids of its threads, stray rows, and the file's own structure.

Only reads. Each query is a transaction of its own, and returns at most a page of rows. A *stray* row belongs to no
thread. A *blob* is a large value of a thread, under a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores.sqlite._schema import BLOB, SPAN
from graphrt.stores.values import Finding

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database

_PAGE: Final = 500
"""Threads that one query returns."""
# A thread with a damaged `seq` is listed too, so that its damage is reported.
_IDS: Final = "SELECT no, id FROM thread WHERE no > ? AND (seq > 0 OR typeof(seq) <> 'integer') ORDER BY no LIMIT ?"
_MOST: Final = 20
"""Damages that SQLite lists at most, and numbers of threads with stray rows."""
_STRAYS: Final = (
    f"SELECT key / {SPAN} AS number FROM record WHERE number NOT IN (SELECT no FROM thread)"  # noqa: S608 - own names
    " UNION SELECT no FROM part WHERE no NOT IN (SELECT no FROM thread) ORDER BY 1 LIMIT ?"
)


def survey(file: Database) -> Iterator[str | Finding]:
    """Yield findings about the file, the ids of its threads in order of creation, and findings about stray rows.

    `verify` reads each thread when it gets its id. A finding is (thread or None, "damage" or "waste", code, sentence).
    """
    broken = file.read(lambda db: [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({_MOST})").fetchall()])
    if broken != ["ok"]:  # SQLite's answer for a sound file
        yield from (Finding(None, "damage", "file", f"SQLite finds the file damaged: {one}") for one in broken)
    after = 0
    while True:
        rows = file.read(partial(_rows, statement=_IDS, values=(after, _PAGE)))
        for after, id_ in rows:  # *after* ends as the number of the last row, after which the next page begins
            if id_.__class__ is str:  # SQLite accepts any type in any column
                yield id_
            else:
                yield Finding(
                    None, "damage", "head", f"Row {after} of the threads has the id {id_!r}, which is not text."
                )
        if len(rows) < _PAGE:
            break
    for (no,) in file.read(partial(_rows, statement=_STRAYS, values=(_MOST,))):
        yield Finding(None, "waste", "orphan", f"There are rows of thread number {no}, which is not there.")


def _rows(db: Connection, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return all rows of *statement* with the parameters *values*: one transaction, as `Database.read` calls it."""
    return db.execute(statement, values).fetchall()


def blob_names(db: Connection, no: int) -> list[str]:
    """Return the names of the blobs of the thread numbered *no*: `verify` reports those that no entry refers to."""
    found = db.execute("SELECT name FROM part WHERE no = ? AND kind = ?", (no, BLOB)).fetchall()
    return [name for (name,) in found if name.__class__ is str]
