"""Opening the file of a SQLite store, or saying why it cannot be opened.

Paths, rights and connections; how a file is written is `_journal_modes`'s, tables and what is in them are elsewhere.

A file that this user may not write is opened for looking, and nothing is made beside it: a log of the looker's would be
in the way of whoever may write. One with a write-ahead log that nobody has open is read as a file that does not change,
without locks; so whoever reads it has to see afterwards that it did not (`Looked`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphrt._forks import FreshLock
from graphrt.errors import InputError, StoreError
from graphrt.stores.sqlite import _file_system as place
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite import _schema as schema
from graphrt.stores.sqlite._errors import explain, of_sqlite
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.sqlite._lock_polling import patiently

if TYPE_CHECKING:
    from sqlite3 import Connection

OLDEST: Final = (3, 24, 0)
"""First version with the statements that we use."""

_SMALLEST: Final = 512
"""Bytes of the smallest database that is not empty."""


def resolve(path: Any) -> str:
    """The absolute path of a file, with symbolic links followed.

    Raises:
        InputError: It is no path of a file (`bad-path`).
    """
    text: Any = path if isinstance(path, str) else getattr(path, "__fspath__", lambda: path)()
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(
            f"A SQLite store needs the path of a file, not {text!r}.",
            code="bad-path",
            fix="Give a path such as 'runs.db'.",
        )
    if text == ":memory:":
        raise InputError(
            "A SQLite store keeps threads in a file; ':memory:' is not one.",
            code="bad-path",
            fix='Use the store "memory:" to keep threads in this process.',
        )
    return os.path.realpath(text)


def connect(path: str, timeout_s: float, how: str | None = None) -> Connection:
    """A bare connection: transactions begin and end where we say so.

    Args:
        how: Options of a SQLite URI, if the file is not simply opened.
    """
    import sqlite3

    name = path if how is None else f"{Path(path).as_uri()}?{how}"
    return sqlite3.connect(name, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=how is not None)


class Opened(NamedTuple):
    """A connection to a store's file."""

    db: Connection
    logged: bool
    """Whether the file is in WAL mode."""
    read_only: str | None = None
    """What keeps this user from writing: the file or its folder; None if nothing does."""
    looked: Looked | None = None
    """If it is read without locks: how the file stood, which it must still after each reading."""


class Looked(NamedTuple):
    """How a file stood that is read without locks."""

    file: tuple[int, int]
    size: int
    changed_ns: int
    logged: bool
    """Whether somebody has opened its write-ahead log."""


def open_file(path: str, *, busy_timeout_s: float, pragmas: Pragmas | None) -> Opened:
    """Connect to the store's file, which is made if it is missing and brought to the newest version if it is ours.

    One that may not be written is opened for looking.

    Raises:
        StoreError: It cannot be opened, is not ours, or cannot be made safe; it was not changed then. Or it would have
            to be made or changed first, and may not be written.
    """
    import sqlite3

    if sqlite3.sqlite_version_info < OLDEST:
        raise _unavailable(path, f"needs SQLite 3.24 or newer, not {sqlite3.sqlite_version}", "Update SQLite.")
    _make(path)
    read_only = why_read_only(path)
    looked = look(path) if read_only is not None and _is_left(path) else None
    how = "mode=ro&immutable=1" if looked is not None else "mode=ro&readonly_shm=1"
    try:
        with _opening:
            alone = read_only is None and _is_alone(path)
            db = connect(path, 0.0) if read_only is None else connect(path, 0.0, how)
    except sqlite3.Error as error:
        raise explain(error, path, "nothing was changed") from error
    logged = False
    try:
        if read_only is None:
            logged = patiently(lambda: modes.set_up(db, path, pragmas, alone=alone), busy_timeout_s)
            file = place.identity(path)
            if file is not None:
                _logging[file] = logged
        else:
            patiently(lambda: _set_up_looking(db, path, read_only), busy_timeout_s)
    except BaseException as error:
        db.close()
        if of_sqlite(error):
            raise explain(error, path, "nothing was changed") from error
        raise
    return Opened(db, logged, read_only, looked)


def why_read_only(path: str) -> str | None:
    """What keeps this user from writing the file; None if nothing does."""
    if not os.access(path, os.W_OK):
        return "the file"
    if not os.access(Path(path).parent, os.W_OK):
        return "the folder, where a journal has to be written,"
    return None


def look(path: str) -> Looked | None:
    """How the file stands; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as in `identity`
    except OSError:
        return None
    return Looked((found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns, Path(f"{path}-shm").exists())


def _is_left(path: str) -> bool:
    """Whether the file has a write-ahead log, and nobody has it open or left something in it."""
    log = Path(f"{path}-wal")
    return _logs(path) and not Path(f"{path}-shm").exists() and (not log.exists() or log.stat().st_size == 0)


_logging: Final[dict[tuple[int, int], bool]] = {}
"""Files that this process has opened, by identity, and whether they are in WAL mode."""


def _logs(path: str) -> bool:
    """Whether the file has a write-ahead log.

    Its header tells. It is read only if this process never had the file open: to close it again ends the locks that
    SQLite holds on it in this process.
    """
    file = place.identity(path)
    if file is None:
        return False
    if file not in _logging:
        with Path(path).open("rb") as opened:
            _logging[file] = opened.read(20)[18:] == b"\2\2"
    return _logging[file]


def _is_alone(path: str) -> bool:
    """Whether the file has a rollback journal and no process has it open; the caller opens it next, under `_opening`.

    To find out, the file is opened and closed, which drops the locks that SQLite holds on it in this process. So it is
    noted in `_logging` first, and answered with False for a file that this process has opened before.
    """
    file = place.identity(path)
    if file is None or file in _logging:
        return False
    return not _logs(path) and place.nobody_has(path)


_opening: Final = FreshLock()


def gone(path: str) -> StoreError:
    return _unavailable(path, "was removed or replaced while it was open", "Put it back, or open the store again.")


def _make(path: str) -> None:
    """Make the file, readable by its owner only, unless there is one.

    One that exists is not opened here: to close it again would end the locks that SQLite holds on it in this process.
    """
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unavailable(path, f"cannot be opened ({error.strerror})", "Give another path.") from error
    else:
        _check(path, found)
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise _unavailable(path, "cannot be made: its folder is missing", f"Make the folder {str(folder)!r} first.")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:  # another process was faster
        pass
    except PermissionError as error:
        raise read_only(path, "the folder") from error
    except OSError as error:
        raise _unavailable(path, f"cannot be made ({error.strerror})", "Give another path.") from error


def _check(path: str, found: os.stat_result) -> None:
    """See that what lies there can be a database of this user's."""
    if stat.S_ISDIR(found.st_mode):
        raise _unavailable(path, "is a directory", "Give the path of a file in it.")
    if not stat.S_ISREG(found.st_mode):
        raise _unavailable(path, "is not a regular file", "Give the path of a file.")
    if 0 < found.st_size < _SMALLEST:  # SQLite takes a file of one byte for an empty one
        raise StoreError(
            f"The database {path!r} is not a SQLite database, but {found.st_size} bytes of something else.",
            code="store-damaged",
            where=f"database {path!r}",
            fix="Give the path of another file; this one was not changed.",
        )
    if not os.access(path, os.R_OK):
        raise _unavailable(path, "may not be read by this user", "Give this user the right to read and write it.")


def _set_up_looking(db: Connection, path: str, what: str) -> None:
    modes.distrust(db)
    db.execute("PRAGMA query_only = ON")
    if not schema.check(schema.state(db), path):  # blank, or older: it would have to be written first
        raise read_only(path, what)


def _unavailable(path: str, why: str, fix: str) -> StoreError:
    return StoreError(
        f"The database {path!r} {why}: nothing was changed.",
        code="store-unavailable",
        where=f"database {path!r}",
        fix=fix,
    )


def read_only(path: str, what: str, kept: str = "", **data: Any) -> StoreError:
    return StoreError(
        f"The database {path!r} cannot be written: {what} is read-only for this user{kept and f'; {kept}'}.",
        code="store-read-only",
        where=f"database {path!r}",
        fix="Give this user the right to write the file and its folder.",
        **data,
    )
