"""Room on a full disk: a reserve beside the file, which is given up where threads are forgotten, and forgetting in parts.

Whatever SQLite removes, it first writes into its journal: on a full disk nothing can be removed. So a little room is
kept in a file beside the database, `<name>-reserve`. It holds nothing and may be deleted. What frees room and finds the
disk full deletes it, and works in parts, so that its journal is never larger. Pages that are freed inside the database
are used by the next commits. The reserve is made again, where there is plenty of room, by a sweep and by whoever opens
the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphrt.errors import StoreError
from graphrt.stores.sqlite._schema import SPAN

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database

RESERVE_BYTES: Final = 256 * 1024
_LEAST_BYTES: Final = 32 * 1024
_PLENTY: Final = 8
"""A reserve takes no more than this part of what is free."""
_AT_ONCE: Final = 256
"""Rows that one part of a removal takes, where that fits."""

_RECORDS: Final = (
    "DELETE FROM record WHERE key IN (SELECT key FROM record WHERE key > ? AND key < ? ORDER BY key DESC LIMIT ?)"
)
_PARTS: Final = "DELETE FROM part WHERE no = ? AND (kind, name) IN (SELECT kind, name FROM part WHERE no = ? LIMIT ?)"
_NEXT_RECORD: Final = "SELECT key FROM record WHERE key >= ? ORDER BY key LIMIT 1"
_NEXT_PART: Final = "SELECT no FROM part WHERE no >= ? ORDER BY no LIMIT 1"
_THREAD: Final = "SELECT 1 FROM thread WHERE no = ?"


def reserve(path: str) -> None:
    """Keep some room for the file *path*, unless it has some, or there is not plenty."""
    name = _name(path)
    if os.path.exists(name):  # noqa: PTH110 - asked whenever a file is opened
        return
    with suppress(OSError, AttributeError):  # it cannot be kept, or nobody can tell how much there is
        size = min(RESERVE_BYTES, _free_bytes(path) // _PLENTY)
        if size < _LEAST_BYTES:
            return
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            _fill(handle, size)
        except OSError:
            Path(name).unlink()
        finally:
            os.close(handle)


def _free_bytes(path: str) -> int:
    """What is free for us where the file *path* lies."""
    found = os.statvfs(Path(path).parent)
    return found.f_bavail * found.f_frsize


def _fill(handle: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    else:
        os.write(handle, bytes(size))


def give_up(path: str) -> bool:
    """Give up what is kept for the file *path*; False if nothing is."""
    try:
        os.unlink(_name(path))  # noqa: PTH108 - as in `reserve`
    except OSError:
        return False
    return True


def _name(path: str) -> str:
    return f"{path}-reserve"


def remove_rows(file: Database, no: int) -> None:
    """Remove all records and parts of the thread numbered *no*, of which there is no row any more, in parts.

    Raises:
        StoreError: The disk is too full even for a row at a time. What is left harms nothing, and goes another time.
    """
    _in_parts(file, lambda db, most: db.execute(_RECORDS, (no * SPAN, (no + 1) * SPAN, most)).rowcount)
    _in_parts(file, lambda db, most: db.execute(_PARTS, (no, no, most)).rowcount)


def remove_records(file: Database, no: int, first: int) -> None:
    """Remove the records of entries before *first*, which the thread numbered *no* has given up, in parts."""
    _in_parts(file, lambda db, most: db.execute(_RECORDS, (no * SPAN, no * SPAN + first, most)).rowcount)


def _in_parts(file: Database, remove: Callable[[Connection, int], int]) -> None:
    most = _AT_ONCE
    while True:
        size = most  # as it is now
        try:
            removed = file.write(
                lambda db: remove(db, size),  # noqa: B023 - called before it changes
                landed=lambda _db, _removed: False,  # if it is, the next part finds less
                kept=lambda: "what is removed in parts is not there for anybody any more",
                thread="",
            )
        except StoreError as error:
            if error.code != "store-full" or most == 1:
                raise
            most //= 4
            continue
        if not removed:
            return


def strays(db: Connection) -> list[int]:
    """Numbers of threads that are not there, of which there are records or parts: 20 at most."""
    found: set[int] = set()
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
