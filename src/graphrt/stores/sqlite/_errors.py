"""Translation of SQLite's result codes into the errors of a store.

This module has only the table and its texts. `_database` and `_files` decide on retries.

SQLite reports a *primary* code in the lowest 8 bits (such as 10, an I/O error), and the detail in the bits above. The
names in capitals are declared errors: a call of one with its data makes the exception.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, TypeGuard

from graphrt.errors import GraphrtError, StoreError
from graphrt.errors._codes.databases import (
    SQLITE_FULL,
    SQLITE_IO_ERROR,
    SQLITE_LOCKED,
    SQLITE_NOT_A_DATABASE,
    SQLITE_OUT_OF_MEMORY,
    SQLITE_READ_ONLY,
    TOO_LARGE,
)
from graphrt.errors._codes.stores import STORE_DAMAGED

BUSY: Final = 5
"""SQLITE_BUSY: another connection holds the lock that is needed."""
FULL: Final = 13
"""SQLITE_FULL: the disk or a quota is full."""

# By primary result code (https://sqlite.org/rescode.html).
_MEANING: Final = {
    3: SQLITE_READ_ONLY,
    5: SQLITE_LOCKED,
    6: SQLITE_LOCKED,
    7: SQLITE_OUT_OF_MEMORY,
    8: SQLITE_READ_ONLY,
    10: SQLITE_IO_ERROR,
    13: SQLITE_FULL,
    14: SQLITE_IO_ERROR,
    15: SQLITE_LOCKED,
    22: SQLITE_FULL,
    26: SQLITE_NOT_A_DATABASE,
}
_BROKEN: Final = frozenset({7, 10, 11, 14, 26})
"""Primary codes after which a connection is closed and opened again: NOMEM, IOERR, CORRUPT, CANTOPEN, NOTADB."""

_DECODING: Final = (TypeError, ValueError, LookupError, AttributeError, RecursionError)

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


def of_a_row(error: BaseException) -> TypeGuard[Exception]:
    """Return whether decoding a changed row can raise *error*."""
    return isinstance(error, _DECODING) and not isinstance(error, GraphrtError)


def primary(error: BaseException) -> int:
    """Return SQLite's primary result code of *error*; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _limited() -> bool:
    """Return whether this process has a limit on the size of files (`ulimit -f`).

    If so, the limit explains a failed write. Whether it was reached cannot be checked, because the write was rolled
    back and the file has its old size.
    """
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def breaks(error: BaseException) -> bool:
    """Return whether the connection that raised *error* must be opened again: it may have lost its file or memory."""
    return primary(error) in _BROKEN


def explain(error: Exception, path: str, stored_state: str, **data: Any) -> GraphrtError:
    """Return the graphrt error for *error*, which SQLite raised on the database *path*.

    Args:
        error: An error for which `of_sqlite` or `of_a_row` is true.
        path: The database.
        stored_state: The state of the stored data, as the end of a sentence, for instance "nothing was changed".
        data: Attributes of the error, such as `thread`.
    """
    from sqlite3 import OperationalError

    code = primary(error)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == _TOO_BIG or isinstance(error, OverflowError):
        return TOO_LARGE(kept=stored_state, database=path, **data)
    # Without a code: a row could not be decoded, including by the driver, as a text that is not valid UTF-8.
    if (of_a_row(error) or (not code and isinstance(error, OperationalError))) and data.get("thread"):
        return STORE_DAMAGED(
            problem=f"Thread {data['thread']!r} is damaged: a stored value is not what was written: {stored_state}",
            known=f"found {error}",
            seq=None,
            **data,
        )
    declared = _MEANING.get(code)
    # EFBIG, from a limit on the size of files, arrives as a plain I/O error.
    if getattr(error, "sqlite_errorcode", 0) == _WRITE and _limited():
        declared = SQLITE_FULL
    # CANTOPEN (14) for a file that exists: its journal cannot be created, because the folder is read-only.
    if code == 14 and Path(path).exists() and not os.access(Path(path).parent, os.W_OK):
        declared = SQLITE_READ_ONLY
    if declared is None:
        # Pages that are damaged (CORRUPT), or a schema that is not the one that we created: a missing table, a datatype
        # mismatch; 0 for a row of no known thread.
        damage = f"is damaged, or not as this version of graphrt made it ({name}: {error})"
        return STORE_DAMAGED(problem=f"The database {path!r} {damage}: {stored_state}", **data)
    return declared(database=path, name=name, reason=error, kept=stored_state, **data)


def locked_while_opened(error: BaseException) -> bool:
    """Return whether *error* means that the file was locked while it was opened, which fails all writes of a group.

    A log at its limit is also `store-busy`, but that error names a thread, and each write is then tried separately.
    """
    return isinstance(error, StoreError) and error.code == "store-busy" and not error.thread
