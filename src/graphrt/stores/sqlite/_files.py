"""The file of a SQLite store: opening it, its identity, and waiting for its locks.

Journal modes are in `_journal_modes`, tables in `_schema`.

A file that this user may not write is opened as immutable: SQLite then takes no locks, and creates no file beside it,
which would be this user's and could not be used by those who may write. That is safe only while no process writes the
file. So it is refused if a log, shared memory or a journal lies beside it, and after each read `Database` checks that
nothing has changed (`look`).

*WAL mode*: the file has a write-ahead log beside it (`-wal`), with an index of the log in shared memory (`-shm`). The
other mode is a rollback journal (`-journal`). `logged` means WAL mode, not log messages.

`explain(error, path, stored_state)` turns SQLite's error into graphrt's; `stored_state` ends its text.

If a process closes any descriptor of a file, POSIX ends all its locks on that file, also those that SQLite holds
through another descriptor. So the file is never opened outside SQLite.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, final

from graphrt.errors import StoreError, brief
from graphrt.errors._codes.databases import (
    DATABASE_TOO_OLD,
    SQLITE_BAD_FILE,
    SQLITE_IN_MEMORY,
    SQLITE_IN_USE,
    SQLITE_NOT_A_DATABASE,
    SQLITE_READ_ONLY,
    SQLITE_REPLACED,
)
from graphrt.errors._codes.stores import BAD_PATH
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite import _schema as schema
from graphrt.stores.sqlite._errors import BUSY, explain, of_sqlite, primary
from graphrt.stores.sqlite._journal_modes import Pragmas

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

OLDEST: Final = (3, 24, 0)
"""Oldest version of SQLite that supports all statements used (upserts)."""

_SMALLEST: Final = 512
"""Minimum size of a non-empty SQLite database: one page of the smallest page size."""
_SETTLED_NS: Final = 50_000_000
"""Nanoseconds after which a second change is certain to get another timestamp. Timestamps follow the kernel's tick of
at most 10 ms."""
_SETTLED_COARSE_NS: Final = 3_000_000_000
"""The same for file systems with timestamps in whole seconds. FAT's have a resolution of 2 s."""
_SECOND_NS: Final = 1_000_000_000
_FIRST_S: Final = 0.0002
"""Seconds of the first pause, before jitter."""
_MOST_S: Final = 0.002
"""Seconds of the longest pause, before jitter."""


def resolve(path: Any) -> str:
    """Return the absolute path of a file, with symbolic links resolved.

    Raises:
        InputError: *path* is not the path of a file (`bad-path`).
    """
    # A path whose `__fspath__` returns bytes is refused, like any other value that is not text.
    text: Any = path if isinstance(path, str) else getattr(path, "__fspath__", lambda: path)()
    if not isinstance(text, str) or not text or "\0" in text:
        raise BAD_PATH(given=brief(text))
    if text == ":memory:":  # SQLite's name for a database in memory, which each connection has for itself
        raise SQLITE_IN_MEMORY()
    return os.path.realpath(text)


def with_polling(step: Callable[[], T], timeout_s: float) -> T:
    """Call *step* until it no longer raises SQLITE_BUSY, with short pauses, and return its result.

    SQLite's busy handler sleeps up to 100 ms between two attempts. When several processes write continuously, the one
    that has just committed gets the lock again, and others wait for seconds (decision 0063; measured by
    `benchmarks.crowd`). So connections are opened with a timeout of 0, and callers repeat by this what SQLite refuses
    with BUSY.

    Args:
        step: A call that takes a lock, such as BEGIN IMMEDIATE. It has no effect if it raises SQLITE_BUSY.
        timeout_s: Seconds after the first SQLITE_BUSY after which *step* is not called again.

    Raises:
        sqlite3.Error: The error of the last call.
    """
    deadline = pause_s = 0.0  # set after the first SQLITE_BUSY, so that the usual call reads no clock
    while True:
        try:
            return step()
        except Exception as error:
            if primary(error) != BUSY:
                raise
            now = monotonic()
            if not deadline:
                deadline, pause_s = now + timeout_s, _FIRST_S
            if now >= deadline:
                raise
        sleep(pause_s * (0.5 + random.random()))  # noqa: S311 - jitter, so that two processes do not poll in step
        pause_s = min(_MOST_S, pause_s * 1.5)


def connect(path: str, timeout_s: float, query: str | None = None) -> Connection:
    """Return a connection without implicit transactions, which any worker thread may use.

    The only call of `sqlite3.connect` in the package.

    Args:
        path: The file.
        timeout_s: Seconds that SQLite itself waits for a lock. Usually 0: callers poll by `with_polling`, which is
            fairer between processes.
        query: Query parameters of a SQLite URI, such as `mode=ro`; None: open by path.
    """
    import sqlite3

    name = path if query is None else f"{Path(path).as_uri()}?{query}"
    return sqlite3.connect(
        name, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=query is not None
    )


class State(NamedTuple):
    """Values that reveal a write to a file that is read without locks, so that the read is repeated."""

    file: tuple[int, int]
    """Device and inode."""
    size: int
    """Bytes."""
    changed_ns: int
    """Time of the last modification, in nanoseconds since the epoch."""
    beside: str | None
    """Path of a log, shared memory or journal, because of which the file must not be read without locks; or None."""


class Opened(NamedTuple):
    """A connection to a store's file, and how the file was opened."""

    db: Connection
    logged: bool
    """Whether the file is in WAL mode. False for one that is opened read-only: only writers need to know."""
    read_only: str | None = None
    """The part that this user may not write, the file or its folder, for an error text; None if neither."""
    state: State | None = None
    """State of the file before it was opened read-only."""


def open_file(path: str, *, busy_timeout_s: float, pragmas: Pragmas | None) -> Opened:
    """Open the store's file, which is created if it is missing. A file that may not be written is opened read-only.

    Args:
        path: The file, as `resolve` returns it.
        busy_timeout_s: Seconds to wait for other processes that have the file locked.
        pragmas: Journal mode and durability for tests and measurements; None: the safe ones.

    Raises:
        StoreError: The file cannot be opened, is not a store's, or cannot be written safely; it was not changed. Or it
            may not be written, and has to be created or is in use.
    """
    import sqlite3

    if sqlite3.sqlite_version_info < OLDEST:
        raise DATABASE_TOO_OLD(
            database="SQLite",
            version=sqlite3.sqlite_version,
            oldest=".".join(map(str, OLDEST)),
            where=f"database {path!r}",
        )
    _make(path)
    part = why_read_only(path)
    state = None if part is None else look(path)
    if state is not None and state.beside is not None:
        raise in_use(path, f"{state.beside!r} shows that another process has it open, or ended without closing it")
    try:
        db = connect(path, 0.0) if part is None else connect(path, 0.0, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise explain(error, path, "nothing was changed") from error
    try:
        if part is None:
            return Opened(db, with_polling(lambda: modes.set_up(db, path, pragmas), busy_timeout_s))
        _set_up_reading(db, path, part)
    except BaseException as error:
        db.close()
        if of_sqlite(error):
            raise explain(error, path, "nothing was changed") from error
        raise
    return Opened(db, logged=False, read_only=part, state=state)


def why_read_only(path: str) -> str | None:
    """Return "the file" or its folder, if this user may not write it, as the subject of a sentence; None if neither.

    `open_file` asks this. A store that is read-only asks again before each write, since permissions may change.
    """
    if not os.access(path, os.W_OK):
        return "the file"
    if not os.access(Path(path).parent, os.W_OK):
        return "the folder, where a journal has to be written,"
    return None


def look(path: str) -> State | None:
    """Return the state of the file; None if there is no file.

    `Database` compares it after each read with the state at the opening, and opens the file again if they differ.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - called for each read without locks, and a Path costs more than the call
    except OSError:
        return None
    return State((status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns, _beside(path))


def _beside(path: str) -> str | None:
    """Return the path of a file that shows that another process has the database open, or was killed; or None."""
    for ending in ("-shm", "-wal", "-journal"):
        with suppress(OSError):  # there is none
            # Only the shared memory is removed by the last process to close the database: the others may stay, empty.
            if os.stat(path + ending).st_size or ending == "-shm":  # noqa: PTH116 - as in `look`
                return path + ending
    return None


def in_use(path: str, reason: str) -> StoreError:
    """Return the error for a file that this user may not write and that is unsafe to read without locks."""
    return SQLITE_IN_USE(database=path, reason=reason)


def gone(path: str) -> StoreError:
    """Return the error for a file that was removed or replaced while it was open."""
    return SQLITE_REPLACED(file="The file", database=path, kept="nothing was changed")


def _make(path: str) -> None:
    """Create the file with mode 0600, unless it exists.

    A file that exists is not opened here: closing it would drop the locks that SQLite holds on it in this process.

    Raises:
        StoreError: What is there cannot be a database (see `_check`), or the file cannot be created.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SQLITE_BAD_FILE(
            database=path, problem=f"cannot be opened ({error.strerror})", wanted="another path"
        ) from error
    else:
        _check(path, status)
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise SQLITE_BAD_FILE(
            database=path,
            problem="cannot be made: its folder is missing",
            wanted=f"the path of a folder that exists, or make {str(folder)!r} first",
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # SQLite would use the umask's permissions
    except FileExistsError:  # another process was faster
        pass
    except PermissionError as error:
        raise read_only(path, "the folder") from error
    except OSError as error:
        raise SQLITE_BAD_FILE(
            database=path, problem=f"cannot be made ({error.strerror})", wanted="another path"
        ) from error


def _check(path: str, status: os.stat_result) -> None:
    """Check that *path* can hold a database, and that this user may read it. *status* is its `stat`.

    Raises:
        StoreError: It is a folder or another special file, is too short, or may not be read.
    """
    if stat.S_ISDIR(status.st_mode):
        raise SQLITE_BAD_FILE(database=path, problem="is a directory", wanted="the path of a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise SQLITE_BAD_FILE(database=path, problem="is not a regular file", wanted="the path of a file")
    if 0 < status.st_size < _SMALLEST:  # SQLite would treat a file of one byte as empty, and overwrite it
        raise SQLITE_NOT_A_DATABASE(
            database=path, name="size", reason=f"{status.st_size} bytes", kept="nothing was changed", thread=None
        )
    if not os.access(path, os.R_OK):
        raise SQLITE_BAD_FILE(
            database=path, problem="may not be read by this user", wanted="this user the right to read and write it"
        )


def _set_up_reading(db: Connection, path: str, part: str) -> None:
    """Set up a connection that only reads. *part* is from `why_read_only`, for the error.

    Raises:
        StoreError: The file is not a store's, or has to be created.
    """
    modes.distrust(db)  # settings for a file that may be damaged or hostile
    db.execute("PRAGMA query_only = ON")
    if not schema.check(schema.state(db), path):  # blank or of an older version, so it would have to be written first
        raise read_only(path, part)


def read_only(path: str, part: str, stored_state: str = "", **data: Any) -> StoreError:
    """Return the error for a write to a file that this user may not write.

    Args:
        path: The file.
        part: From `why_read_only`.
        stored_state: What is stored now, as the end of a sentence; empty if that goes without saying.
        data: Attributes of the error, such as `thread`.
    """
    return SQLITE_READ_ONLY(
        database=path,
        name="permissions",
        reason=f"{part} is read-only for this user",
        kept=stored_state or "nothing was changed",
        **data,
    )


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode, by which a replaced file is recognised; None if there is no file.

    Stores call it when they open a file, and before commits: a commit to a file that was removed would be lost.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - called before every commit; creating a Path costs more than the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


@final
class Folder:
    """The folder of a database, watched for files that are created, removed or renamed in it.

    Each of these changes the folder's timestamps. As long as they stay the same, so do the database, its `-wal` and its
    `-shm`. Before a commit, `Database` asks `unchanged`. If the answer is False, it checks the three files, and then
    calls `checked`.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.dirname(path)  # noqa: PTH120 - `os.stat` takes it as it is
        self._found: tuple[int, int, int, int] | None = None
        """Device, inode, mtime and ctime in ns at the last call of `unchanged`; None if they cannot be trusted yet."""
        self._checked: tuple[int, int, int, int] | None = None
        """`_found` as it was before the files were last checked: they are the same as long as the folder is."""

    def unchanged(self) -> bool:
        """Return whether no name in the folder has changed since `checked`; also False if that cannot be determined.

        One `stat` before every commit replaces one for each of three files, which took a tenth of a commit's time
        (decision 0063).
        """
        try:
            status = os.stat(self._path)  # noqa: PTH116 - as in `identity`
        except OSError:
            self._found = None
            return False
        # Both times: programs that restore a backup set mtime back, but not ctime (on Windows, the creation time).
        folder_state = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        if folder_state == self._checked:
            return True
        # A folder that has just changed is not trusted, because a second change could have the same timestamps.
        settled_ns = _SETTLED_NS if status.st_mtime_ns % _SECOND_NS else _SETTLED_COARSE_NS
        self._found = folder_state if time_ns() - max(folder_state[2:]) > settled_ns else None
        return False

    def checked(self) -> None:
        """Record that the files were checked and found valid after the last call of `unchanged`."""
        self._checked = self._found
