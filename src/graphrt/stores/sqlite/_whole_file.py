"""Operations on a whole SQLite file: a backup while it is in use, a survey for `verify`, and scrubbing.

A *backup* is from one point in time and has no owners: an *owner* is the process that may write a thread, with a
    *lease* for a
certain time. Where the new file may appear, and how, is decided in `_archive`: its `write_new` makes a temporary file,
which gets its name when it is complete, and is removed if the copy fails.

A *survey* lists the ids of the threads, *stray* rows, which belong to no thread, and what SQLite finds wrong with the
file. Each query is a separate transaction, and returns at most a page of rows.

*Scrubbing* removes freed bytes after values were erased. SQLite leaves deleted and replaced data in free pages, in gaps
of used pages, and in the write-ahead log. `VACUUM` writes the whole file again from its content. SQLite removes the log
when the last connection closes; a truncating checkpoint would not be safe while other processes write (decision 0063).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Final

from graphrt.errors import StoreError
from graphrt.stores._archive import write_new
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite._errors import explain, of_sqlite
from graphrt.stores.sqlite._files import with_polling
from graphrt.stores.sqlite._schema import SPAN
from graphrt.stores.values import StoreFinding

if TYPE_CHECKING:
    from os import PathLike
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database

_PAGE: Final = 500
"""Maximum number of threads that one query returns."""
# A thread with a damaged `seq` is also listed, so that its damage is reported.
_IDS: Final = "SELECT no, id FROM thread WHERE no > ? AND (seq > 0 OR typeof(seq) <> 'integer') ORDER BY no LIMIT ?"
_MOST: Final = 20
"""Maximum number of problems that SQLite lists, and of thread numbers with stray rows."""
_STRAYS: Final = (
    f"SELECT key / {SPAN} AS number FROM record WHERE number NOT IN (SELECT no FROM thread)"  # noqa: S608 - own names
    " UNION SELECT no FROM part WHERE no NOT IN (SELECT no FROM thread) ORDER BY 1 LIMIT ?"
)
_TRIES: Final = 40
"""Maximum number of times that the connection is closed: a checkpoint in the background may have another one open."""
_PAUSE_S: Final = 0.05
"""Seconds between two of these."""
_BUSY_S: Final = 30.0
"""Seconds to wait for other processes that have the file locked, before VACUUM."""


def backup(file: Database, path: str | PathLike[str]) -> str:
    """Copy *file* to the new file *path*, and return the absolute path of the copy.

    Raises:
        InputError: There is something at *path* already, or it cannot be the path of a file.
        StoreError: The file cannot be read, or the copy cannot be written.
    """
    return write_new(path, lambda temp_path: _copy(file, temp_path))


def _copy(file: Database, temp_path: str) -> None:
    """Copy *file* to *temp_path*, the path of an empty temporary file.

    Raises:
        StoreError: The file cannot be read, or the copy cannot be written.
    """
    try:
        target = files.connect(temp_path, 0.0)  # waits for no lock: no other process uses the temporary file
        try:
            # A second connection, so that other threads of this process can use the store meanwhile.
            with file.aside() as source:
                source.backup(target)  # in one step, not by pages: a write between two steps would restart it
            # The copy is in the mode of the original. It gets the mode that suits its own place, as a new file does.
            modes.leave_log(target)
            target.execute("BEGIN IMMEDIATE")
            # Owners are removed, so that all threads are free. A thread without entries (`seq`, the number of the last
            # one, is 0) exists only for an owner that is about to write the first.
            target.execute("UPDATE thread SET lease = NULL, owner = NULL")
            target.execute("DELETE FROM thread WHERE seq = 0")
            target.execute("COMMIT")
            modes.use_log(target, temp_path)
        finally:
            target.close()
    except Exception as error:
        if not of_sqlite(error):  # a `StoreError`, for instance because the store is closed
            raise
        raise explain(error, file.path, "there is no copy of it") from error  # the clause ends the text


def survey(file: Database) -> Iterator[str | StoreFinding]:
    """Yield findings about the file, the ids of its threads in order of creation, and findings about stray rows.

    `verify` reads each thread when it gets its id. A finding is (thread or None, "damage" or "waste", code, sentence).
    """
    broken = file.read(lambda db: [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({_MOST})").fetchall()])
    if broken != ["ok"]:  # SQLite's answer for a sound file
        yield from (
            StoreFinding(None, "damage", "file", f"SQLite finds the file damaged: {message}") for message in broken
        )
    after = 0
    while True:
        rows = file.read(partial(_rows, statement=_IDS, values=(after, _PAGE)))
        for after, id_ in rows:  # *after* ends as the number of the last row, after which the next page begins
            if id_.__class__ is str:  # SQLite accepts any type in any column
                yield id_
            else:
                yield StoreFinding(
                    None, "damage", "head", f"Row {after} of the threads has the id {id_!r}, which is not text."
                )
        if len(rows) < _PAGE:
            break
    for (no,) in file.read(partial(_rows, statement=_STRAYS, values=(_MOST,))):
        yield StoreFinding(None, "waste", "orphan", f"There are rows of thread number {no}, which is not there.")


def _rows(db: Connection, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return all rows of *statement* with the parameters *values*: one transaction, as `Database.read` calls it."""
    return db.execute(statement, values).fetchall()


def scrub(file: Database) -> list[str]:
    """Rewrite the file and its log without freed bytes, and return sentences about what may be left.

    Called after values were erased. A failure does not raise but becomes one of these sentences: the values are erased
    in any case, and only unreferenced bytes may be left.
    """
    log = Path(f"{file.path}-wal")
    try:
        with file.lock:
            db = file.connection()
            with_polling(lambda: db.execute("VACUUM"), _BUSY_S)
    except Exception as error:
        if not (of_sqlite(error) or isinstance(error, StoreError)):
            raise
        failure = error if isinstance(error, StoreError) else explain(error, file.path, "the values are erased")
        return [f"Freed pages of {file.path!r} were not overwritten, erase again to try it again: {failure.what}"]
    for _ in range(_TRIES):
        with file.lock:
            file.drop()  # the last connection copies the log into the file, and removes it
            if not log.exists():
                return []
            file.connection()  # other calls of the store continue between two attempts
        sleep(_PAUSE_S)
    return [
        (
            f"Other connections have {file.path!r} open, so its write-ahead log is still there and may hold erased values. "
            "Erase again when they are closed."
        )
    ]
