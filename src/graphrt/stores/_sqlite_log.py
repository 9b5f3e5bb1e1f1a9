"""The write-ahead log of a SQLite file: when it is copied into the database, and how, so that nothing is ever lost.

Before 3.51.3 SQLite may copy frames of two generations of the log if a writer begins it anew at the same moment. That
cannot happen while another connection of this process holds a transaction: one that reads keeps writers from beginning
the log anew, one that writes keeps them out. Decision 0063 has the proof and what it stands on. No other module copies
a log, and no connection does so by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt.errors import StoreError
from graphrt.stores import _sqlite_files as files
from graphrt.stores import _sqlite_modes as modes
from graphrt.stores import _sqlite_place as place
from graphrt.stores._sqlite_errors import of_sqlite
from graphrt.stores._sqlite_patience import patiently
from graphrt.stores._sqlite_schema import PAGE_BYTES

if TYPE_CHECKING:
    from sqlite3 import Connection

PAGES: int = 1_000
"""Pages written to the log after which it is copied: some ms of work."""
_WRITTEN: Final = 4
"""Pages that one write takes at least, about: its thread, its record, and what leads to them."""
_PATIENCE_S: Final = 1.0
"""How long a copy waits for the right to write; if it does not get it, a later one will."""


class Copied(NamedTuple):
    """What SQLite answers after a copy."""

    frames: int
    """Pages in the log."""
    done: int
    """Those of them that are in the database."""


@final
class Log:
    """The log of one file that is open in this process.

    Args:
        limit_bytes: A longer log, which somebody who reads keeps from beginning anew, takes no more.
    """

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._path = path
        self._name = f"{path}-wal"
        self._limit_bytes = limit_bytes
        self._copying = Lock()
        """Held while it is copied."""
        self._main: tuple[int, int] | None = None
        """The database that was opened, the log, and the shared memory."""
        self._file: tuple[int, int] | None = None
        self._memory: tuple[int, int] | None = None
        self._size = 0
        """Bytes that the file had when it was looked at last. It is used again and does not shrink."""
        self._before = 0
        """The same, when it was copied last."""
        self._pages = 0
        """Written since the last copy, about."""
        self._left = 0
        """Bytes of the log, if somebody who reads kept the last copy from being whole."""
        self._torn: Copied | None = None
        """What SQLite answered that cannot be: whoever began the log anew was killed between two stores to its shared
        memory, and what was written since is seen by nobody (decision 0063)."""

    def opened(self) -> None:
        """The first connection was opened."""
        self._main, self._file, self._memory = place.identity(self._path), None, place.identity(f"{self._path}-shm")
        self._look()

    def check(self, kept: Callable[[], str], thread: str) -> None:
        """See that what is written now stays.

        Raises:
            StoreError: The log was removed or replaced, holds what nobody can read, or is as long as it may be.
        """
        if self._torn is not None:
            raise StoreError(
                f"The write-ahead log of {self._path!r} is not in step with the database, commits of the last moments "
                f"may be lost: {kept()}.",
                code="store-damaged",
                where=f"database {self._path!r}",
                known=f"{self._torn.frames} pages in the log, {self._torn.done} of them copied",
                fix="Close all that have it open, open it again, and run store.verify().",
                thread=thread,
            )
        if not self._look() or place.identity(f"{self._path}-shm") != self._memory:
            raise StoreError(
                f"The write-ahead log {self._name!r}, or its shared memory, was removed or replaced while the database was open: {kept()}.",
                code="store-unavailable",
                where=f"database {self._path!r}",
                known="commits since the last checkpoint were in it",
                fix="Never remove or copy the -wal and -shm files of a database alone. Close all that have it open, "
                "and run store.verify().",
                thread=thread,
            )
        if self._left > self._limit_bytes and self._emptied(_PATIENCE_S) is False:
            raise StoreError(
                f"The write-ahead log of {self._path!r} has {self._left:,} bytes, since somebody has been reading the "
                f"database for long: {kept()}.",
                code="store-busy",
                where=f"database {self._path!r}",
                known=f"log_limit_bytes={self._limit_bytes}",
                fix="End the transaction that reads it, such as an open sqlite3 shell or a backup, or raise "
                "SqliteStore(log_limit_bytes=...).",
                thread=thread,
            )

    def wrote(self, writes: int, size: int, hold: AbstractContextManager[Any]) -> None:
        """As many writes are in the log now: it is copied if that is enough, while others go on.

        Args:
            size: Bytes that they have together, about.
            hold: Keeps the writers of this process out while it is entered.
        """
        self._pages += writes * _WRITTEN + size // PAGE_BYTES
        if self._pages < PAGES:
            return
        thread = Thread(target=self._copy_soon, args=(hold,), name="graphrt-checkpoint", daemon=True)
        if not self._copying.acquire(blocking=False):
            return  # one copies it already
        try:
            thread.start()
        except RuntimeError:  # the system gives no thread, or the interpreter ends
            self._copy_soon(hold)
        except BaseException:
            if thread.ident is None:
                self._copying.release()
            raise

    def full(self) -> bool:
        """The disk is full. Make room in the log by copying it; whether it begins anew now."""
        return self._emptied(0.0) is True

    def close(self) -> None:
        """Wait until nobody copies it any more. The caller does not hold the writers out."""
        with self._copying:
            pass

    # Around a fork.

    def before_fork(self) -> None:
        self._copying.acquire()

    def after_fork_in_parent(self) -> None:
        self._copying.release()

    def after_fork_in_child(self) -> None:
        self._copying = Lock()

    # Copying.

    def _look(self) -> bool:
        """Note how much the file has grown, which `wrote` may not have known; whether it is the one that was opened."""
        try:
            found = os.stat(self._name)  # noqa: PTH116 - asked around every commit
        except OSError:
            return self._file is None
        file = found.st_dev, found.st_ino
        if self._file is None:
            self._file = file
        self._size = found.st_size
        if self._size - self._before > self._pages * PAGE_BYTES:
            self._pages = (self._size - self._before) // PAGE_BYTES
        return file == self._file

    def _copy_soon(self, hold: AbstractContextManager[Any]) -> None:
        try:
            self._pages, self._before = 0, self._size
            self._note(copy(self._path, self._main, hold))
        except Exception as error:  # what was committed stays in the log, and is copied later
            if not (of_sqlite(error) or isinstance(error, StoreError)):
                raise
        finally:
            self._copying.release()

    def _emptied(self, patience_s: float) -> bool | None:
        """Copy the log now, by a caller that keeps the writers of this process out.

        Returns:
            Whether all of it was copied; None if others write or copy it for so long.
        """
        try:
            copied = copy(self._path, self._main, None, patience_s)
        except Exception as error:
            if not (of_sqlite(error) or isinstance(error, StoreError)):
                raise
            return None
        self._note(copied)
        return None if copied is None else copied.done >= copied.frames

    def _note(self, copied: Copied | None) -> None:
        if copied is None:
            return
        self._left = 0 if copied.done >= copied.frames else copied.frames * PAGE_BYTES
        if copied.done > copied.frames:
            self._torn = copied


def copy(
    path: str, file: tuple[int, int] | None, hold: AbstractContextManager[Any] | None, patience_s: float = _PATIENCE_S
) -> Copied | None:
    """Copy the log of *path* into the database: most of it while others write, the rest while nobody does.

    None if somebody else is copying it.

    Args:
        file: What *path* has to be, still.
        hold: Keeps the writers of this process out; None if they are out already.
        patience_s: Seconds to wait for others who write.

    Raises:
        sqlite3.Error: It cannot be copied now.
    """
    guard = _connect(path, file)
    try:
        other = _connect(path, file)
        try:
            for _ in range(0 if hold is None else 2):  # the second takes what was written during the first
                guard.execute("BEGIN")
                try:
                    _read(guard)
                    _copy(other)
                finally:
                    guard.execute("ROLLBACK")
            with hold or nullcontext():
                patiently(lambda: guard.execute("BEGIN IMMEDIATE"), patience_s)
                try:
                    return _copy(other)
                finally:
                    guard.execute("ROLLBACK")
        finally:
            other.close()
    finally:
        guard.close()


def _connect(path: str, file: tuple[int, int] | None) -> Connection:
    """A connection that has the log of *file* open, which is still there."""
    db = files.connect(path, 0.0, "mode=rw")  # nothing is made
    try:
        if place.identity(path) != file:
            raise files.gone(path)
        modes.careful(db, path)
        patiently(lambda: _read(db), _PATIENCE_S)
        if place.identity(path) != file:
            raise files.gone(path)
    except BaseException:
        db.close()
        raise
    return db


def _read(db: Connection) -> None:
    """Read something. A transaction that reads begins with that, and not with its first word."""
    db.execute("SELECT count(*) FROM sqlite_master").fetchall()


def _copy(other: Connection) -> Copied | None:
    """Copy what can be copied, and wait for nobody. Only while *another* connection holds a transaction."""
    _, frames, done = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()[0]
    return None if frames < 0 else Copied(frames, done)
