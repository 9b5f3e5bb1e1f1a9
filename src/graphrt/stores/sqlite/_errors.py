"""Translation of SQLite's result codes into the errors of a store.

Only the table and its texts. When to try again is decided in `_database` and `_lock_polling`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, TypeGuard

from graphrt.errors import GraphrtError, InputError, StoreError

BUSY: Final = 5
"""SQLITE_BUSY: another connection holds the lock that is needed."""
FULL: Final = 13
"""SQLITE_FULL: the disk or a quota is full."""

_FREE = "Close what holds the database open, or wait; a larger busy_timeout_s waits longer."
_ROOM = "Free some space, or forget threads (sweep, delete_thread); the next call goes on as if nothing had happened."
_REACH = "See that the file's folder is there, mounted and healthy, and that this user may read and write it."
_RIGHTS = "Give this user the right to write the file and its folder."
_RESTORE = "Restore the file from a backup, or give the path of another one."

# By primary result code (https://sqlite.org/rescode.html): our code, what happened, and what to do.
_MEANING: Final[dict[int, tuple[str, str, str]]] = {
    3: ("store-read-only", "may not be written by this user", _RIGHTS),
    5: ("store-busy", "was locked by another process for too long", _FREE),
    6: ("store-busy", "was locked by another connection for too long", _FREE),
    7: ("store-unavailable", "could not be used: there is no memory left", "Free some memory."),
    8: ("store-read-only", "cannot be written", _RIGHTS),
    10: ("store-unavailable", "could not be read or written: the disk or file system failed", _REACH),
    11: ("store-damaged", "is damaged", _RESTORE),
    13: ("store-full", "cannot grow: the disk or a quota is full", _ROOM),
    14: ("store-unavailable", "cannot be opened", _REACH),
    15: ("store-busy", "was locked by another process for too long", _FREE),
    22: ("store-full", "is larger than the file system, or a limit of this process, allows", _ROOM),
    26: ("store-damaged", "is not a SQLite database", "Give the path of another file; this one was not changed."),
}
_BROKEN: Final = frozenset({7, 10, 11, 14, 26})
"""Primary codes after which a connection is closed and opened anew: NOMEM, IOERR, CORRUPT, CANTOPEN, NOTADB."""

_TOO_BIG: Final = 18
"""SQLITE_TOOBIG: a value is longer than SQLite's limit."""
_WRITE: Final = 10 | 3 << 8
"""SQLITE_IOERR_WRITE: a write failed for another reason than a full disk."""


def of_sqlite(error: BaseException) -> TypeGuard[Exception]:
    """Return whether *error* comes from SQLite or from Python's driver for it."""
    # The driver raises OverflowError for values that are too large, and UnicodeDecodeError if one of SQLite's messages
    # is not valid UTF-8, as with a damaged schema.
    import sqlite3

    return isinstance(error, (sqlite3.Error, OverflowError, UnicodeDecodeError))


def primary(error: BaseException) -> int:
    """Return SQLite's primary result code of *error*; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _limited() -> bool:
    """Return whether this process has a limit on the size of the files that it writes (`ulimit -f`).

    Whether the limit was reached cannot be checked: the write was rolled back, and the file has its old size.
    """
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def breaks(error: BaseException) -> bool:
    """Return whether the connection that raised *error* must be opened anew."""
    return primary(error) in _BROKEN


def explain(error: Exception, path: str, kept: str, **data: Any) -> GraphrtError:
    """Return the graphrt error for *error*, which SQLite raised on the database *path*.

    Args:
        error: One for which `of_sqlite` is true.
        path: The database.
        kept: What is stored now, as the end of a sentence.
        data: Attributes of the error, such as `thread`.
    """
    code = primary(error)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == _TOO_BIG or isinstance(error, OverflowError):
        return InputError(
            f"A value is too large for a SQLite database: {kept}.",
            code="too-large",
            where=f"database {path!r}",
            fix="Store values of less than 1,000,000,000 bytes.",
            **data,
        )
    # Other codes (a missing table, a datatype mismatch) mean that the schema is not the one that we created.
    slug, what, fix = _MEANING.get(code, ("store-damaged", "is not as this version of graphrt made it", _RESTORE))
    # EFBIG, from a limit on the size of files, arrives as a plain I/O error.
    if getattr(error, "sqlite_errorcode", 0) == _WRITE and _limited():
        slug, what, fix = _MEANING[22]
    # CANTOPEN for a file that exists: its journal cannot be created, because the folder is read-only.
    if code == 14 and Path(path).exists() and not os.access(Path(path).parent, os.W_OK):
        slug, what, fix = _MEANING[8]
    return StoreError(
        f"The database {path!r} {what} ({name}: {error}): {kept}.",
        code=slug,
        where=f"database {path!r}",
        fix=fix,
        **data,
    )
