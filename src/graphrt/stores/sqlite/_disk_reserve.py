"""Deletion on a full disk: a reserve file that can be given up, and removal of rows in small parts.

SQLite writes the pages that it changes into its journal first, so on a full disk nothing can be deleted. A file
`<name>-reserve` next to the database therefore keeps some space occupied. It has no content and may be deleted.

A deletion that finds the disk full removes the reserve. It then deletes rows in parts, so that the journal stays
smaller than the reserve. The freed pages stay in the database and are used by later commits. The reserve is created
again, if there is enough free space, by a sweep (a deletion of old threads) and whenever the file is opened.

A thread has a number, here `no`, and one row in the table `thread`. It has `record` rows, with keys from `no * SPAN`,
and `part`, `question` and label rows. Its own row is removed first, in one small transaction: from then on the thread
does not exist, and the other rows are *strays*, which are harmless and may be removed at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from graphrt.errors import StoreError
from graphrt.stores.sqlite import _labels as labels
from graphrt.stores.sqlite._schema import SPAN

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

RESERVE_BYTES: Final = 256 * 1024
"""Bytes of a reserve, where there is enough free space."""
_LEAST_BYTES: Final = 32 * 1024
"""Bytes of the smallest reserve that is created."""
_PLENTY: Final = 8
"""A reserve takes at most one part in this many of the free space."""
_AT_ONCE: Final = 256
"""Rows that one transaction removes; fewer if the journal of so many does not fit on the disk."""

_RECORDS: Final = (
    "DELETE FROM record WHERE key IN (SELECT key FROM record WHERE key > ? AND key < ? ORDER BY key DESC LIMIT ?)"
)
_PARTS: Final = "DELETE FROM part WHERE no = ? AND (kind, name) IN (SELECT kind, name FROM part WHERE no = ? LIMIT ?)"
_QUESTIONS: Final = "DELETE FROM question WHERE rowid IN (SELECT rowid FROM question WHERE no = ? LIMIT ?)"
_NEXT_RECORD: Final = "SELECT key FROM record WHERE key >= ? ORDER BY key LIMIT 1"
_NEXT_PART: Final = "SELECT no FROM part WHERE no >= ? ORDER BY no LIMIT 1"
_THREAD: Final = "SELECT 1 FROM thread WHERE no = ?"


class Writer(Protocol):
    """Writes in a transaction, as `_database.Database` does, which imports this module."""

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        landed: Callable[[Connection, T], bool | None],
        kept: Callable[[], str],
        thread: str,
    ) -> T:
        """Do *work* in a transaction, and return its result.

        Args:
            work: Writes on the connection; it may be called again if the transaction was rolled back.
            landed: Called if the outcome of the COMMIT is unknown; returns whether the write is stored.
            kept: Returns for an error what is stored if the write failed, as the end of a sentence.
            thread: Id of the thread, for an error.
        """
        ...


def reserve(path: str) -> None:
    """Create the reserve of the file *path*, unless it exists or free space is short."""
    name = _name(path)
    if os.path.exists(name):  # noqa: PTH110 - called whenever a file is opened
        return
    # A store works without a reserve: creating the file may fail, and Windows has no statvfs.
    with suppress(OSError, AttributeError):
        size = min(RESERVE_BYTES, _free_bytes(path) // _PLENTY)
        if size < _LEAST_BYTES:  # free space is short, and threads need it more
            return
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            _fill(handle, size)
        except OSError:
            Path(name).unlink()
        finally:
            os.close(handle)


def _free_bytes(path: str) -> int:
    """Return the bytes that this user may still write to the file system of *path*."""
    found = os.statvfs(Path(path).parent)
    return found.f_bavail * found.f_frsize


def _fill(handle: int, size: int) -> None:
    """Give the new file *handle* its size in bytes. Blocks must really be allocated: a sparse file reserves nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    else:
        os.write(handle, bytes(size))


def give_up(path: str) -> bool:
    """Remove the reserve of the file *path*, because the disk is full. Returns False if there is none."""
    try:
        os.unlink(_name(path))  # noqa: PTH108 - as in `reserve`
    except OSError:
        return False
    return True


def _name(path: str) -> str:
    """Return the path of the reserve of the database *path*."""
    return f"{path}-reserve"


def remove_rows(file: Writer, no: int) -> None:
    """Remove, in several transactions, all other rows of the thread numbered *no*, whose own row is gone.

    Raises:
        StoreError: The disk is too full even for one row at a time, or the write failed for another reason. Rows that
            are left are harmless, and a later sweep removes them.
    """
    # `most` is the number of rows that one transaction may remove; see `_in_parts`.
    _in_parts(file, lambda db, most: db.execute(_QUESTIONS, (no, most)).rowcount)
    # At once, since there are few rows: one label and its tags. The questions, which may be many, are gone already.
    _in_parts(file, lambda db, _: labels.forget(db, no))
    _in_parts(file, lambda db, most: db.execute(_PARTS, (no, no, most)).rowcount)
    # Last, because every thread has records: `strays` finds by them whatever is left.
    _in_parts(file, lambda db, most: db.execute(_RECORDS, (no * SPAN, (no + 1) * SPAN, most)).rowcount)


def remove_records(file: Writer, no: int, first: int) -> None:
    """Remove, in several transactions, the records before entry *first* of the thread numbered *no*.

    A prune on a full disk has moved the thread's beginning to *first* before, so these records are no longer read.

    Raises:
        StoreError: As `remove_rows`; the next prune removes what is left.
    """
    _in_parts(file, lambda db, most: db.execute(_RECORDS, (no * SPAN, no * SPAN + first, most)).rowcount)


def _in_parts(file: Writer, remove: Callable[[Connection, int], int | None]) -> None:
    """Call *remove* in one transaction after another, until it finds nothing more.

    Args:
        file: The file.
        remove: Removes at most as many rows as its second argument says, and returns how many it removed. None: it has
            removed everything at once.

    Raises:
        StoreError: The disk is too full even for one row at a time, or the write failed for another reason.
    """
    most = _AT_ONCE
    while True:
        size = most
        try:
            removed = file.write(
                lambda db: remove(db, size),  # noqa: B023 - called before it changes
                landed=lambda _db, _removed: False,  # idempotent: if it was stored after all, a repetition finds less
                kept=lambda: "what was being removed is gone, and some of its rows may be left",
                thread="",  # the thread is gone already, so the error names none
            )
        except StoreError as error:
            if error.code != "store-full" or most == 1:
                raise
            most //= 4  # 256, 64, 16, 4, 1: fewer rows need a smaller journal
            continue
        if not removed:
            return


def strays(db: Connection) -> list[int]:
    """Return the numbers of up to 20 deleted threads that have left records or parts, in order.

    A sweep removes them, and `verify` reports them as waste. The limit bounds the time of one call.
    """
    found: set[int] = set()
    # One indexed lookup for each thread, instead of a scan of all rows: after a thread was found, the search goes on at
    # the first key of the next number. Keys of records are `no * SPAN + entry`, those of parts begin with `no` itself.
    for statement, span in ((_NEXT_RECORD, SPAN), (_NEXT_PART, 1)):
        at = 0
        while len(found) < 20:
            row = db.execute(statement, (at,)).fetchone()
            if row is None:
                break
            no = row[0] // span
            if db.execute(_THREAD, (no,)).fetchone() is None:
                found.add(no)
            at = (no + 1) * span
    return sorted(found)
