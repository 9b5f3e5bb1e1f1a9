"""Checkpoints of a SQLite file's write-ahead log: when they run, and how they run without losing commits.

Before 3.51.3, a checkpoint can mix pages of two generations of the log if a writer restarts the log at the same moment.
That cannot happen while another connection of this process holds a transaction: a reader prevents writers from
restarting the log, a writer keeps other writers out. The proof is in decision 0063. Only this module runs checkpoints,
and SQLite's automatic ones are off.

Commits are appended to the log, the file `-wal`. A checkpoint copies its pages (SQLite's *frames*) into the database.
If it copied all of them, the next writer *restarts* the log, that is, overwrites it from the beginning. The log's index
is shared memory, mapped from the file `-shm`. SQLite removes both files when the last connection closes.

`Database` owns one `Log`. It calls `opened` after opening the file, `check` and `check_files` before a transaction, and
`wrote` after it. In their arguments, `stored_state` describes the stored data, as the end of an error text.
"""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager, nullcontext
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt.errors import StoreError
from graphrt.errors._codes.databases import LOG_MISFIT, LOG_TOO_LONG, SQLITE_REPLACED
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite._errors import BUSY, explain, of_sqlite, primary
from graphrt.stores.sqlite._files import with_polling
from graphrt.stores.sqlite._schema import PAGE_BYTES

if TYPE_CHECKING:
    from sqlite3 import Connection

_LOOKS: Final = 16
"""Transactions after which the size of the log file is read."""
PAGES: int = 1_000
"""Pages written to the log after which a checkpoint runs. Such a checkpoint takes a few milliseconds. Tests set it."""
_WRITTEN: Final = 4
"""Estimated pages of a small commit: those of the thread's row and of the record, and their parents."""
_WAIT_S: Final = 1.0
"""Seconds that a checkpoint waits for SQLite's write lock; if it gets none, a later checkpoint will."""
_logger: Final = logging.getLogger("graphrt.stores")


class Copied(NamedTuple):
    """The result of a checkpoint, as SQLite reports it."""

    frames: int
    """Pages in the log."""
    done: int
    """Number of these pages that were copied into the database."""


@final
class Log:
    """The write-ahead log of one file that this process has open.

    Args:
        path: The database file.
        limit_bytes: Commits are refused while the log is longer. Only a reader that never ends, or checkpoints that
            fail, can make it so long.
    """

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._path = path
        self._name = f"{path}-wal"
        self._limit_bytes = limit_bytes
        self.copying: Final = Lock()
        """Held during a checkpoint, and during a fork, since SQLite's connections do not survive one."""
        self._main: tuple[int, int] | None = None
        """Device and inode of the database file when it was opened."""
        self._file: tuple[int, int] | None = None
        """The same for the log; None until there is one."""
        self._memory: tuple[int, int] | None = None
        """The same for the shared memory (`-shm`)."""
        self._size = 0
        """Size of the log file in bytes. A log that restarts overwrites the file, so the log itself may be shorter."""
        self._before = 0
        """`_size` at the last checkpoint."""
        self._pages = 0
        """Estimated pages written since the last checkpoint."""
        self._written = 0
        """Transactions since `_size` was read."""
        self._left = 0
        """Length of the log in bytes if the last checkpoint was incomplete or failed; else 0."""
        self._failing = False
        """Whether the last checkpoint failed."""
        self._torn: Copied | None = None
        """A checkpoint's result with more pages copied than there are. It means that a process was killed between two
        stores to shared memory while it restarted the log. Commits since then may be invisible to others (decision
        0063)."""

    def opened(self) -> None:
        """Record which files were opened. Called whenever the store opens its connection. The log may not exist yet."""
        self._main, self._file, self._memory = files.identity(self._path), None, files.identity(f"{self._path}-shm")
        self._look()

    def check(self, stored_state: str, thread: str) -> None:
        """Check that a commit written now will be durable, provided that the files are still those that were opened.

        Called before each transaction; `check_files`, which costs more, only if a name in the folder has changed.

        Args:
            stored_state: What is stored now, for an error.
            thread: Id of the thread that is written.

        Raises:
            StoreError: The log does not match the database, or has reached its limit.
        """
        if self._torn is not None:
            raise LOG_MISFIT(
                database=self._path, kept=stored_state, frames=self._torn.frames, done=self._torn.done, thread=thread
            )
        if self._left > self._limit_bytes:
            self._relieve(stored_state, thread)

    def check_files(self, stored_state: str, thread: str) -> None:
        """Check that the log and its shared memory are the files that were opened.

        Raises:
            StoreError: One was removed or replaced.
        """
        if not self._look() or files.identity(f"{self._path}-shm") != self._memory:
            file = f"The write-ahead log {self._name!r}, or its -shm file,"
            raise SQLITE_REPLACED(file=file, database=self._path, kept=stored_state, thread=thread)

    def _relieve(self, stored_state: str, thread: str) -> None:
        """Run a checkpoint because the log has reached its limit.

        If other processes are writing or running a checkpoint, the commit is accepted, and the next one tries again.

        Raises:
            StoreError: It failed, or a reader still prevents it from completing.
        """
        try:
            # The caller holds the lock of the database. `copying` is not acquired: a checkpoint in the background may
            # hold it while it waits for that lock.
            copied = copy(self._path, self._main, None)
        except Exception as error:
            if primary(error) == BUSY:
                return
            if not of_sqlite(error):
                raise
            raise explain(error, self._path, stored_state, thread=thread) from error
        self._note(copied)
        if copied is not None and copied.done < copied.frames:
            raise LOG_TOO_LONG(
                database=self._path, size=self._left, kept=stored_state, limit_bytes=self._limit_bytes, thread=thread
            )

    def wrote(self, writes: int, size: int, writer_lock: AbstractContextManager[Any]) -> None:
        """Count the writes of a transaction, and start a checkpoint in the background when one is due.

        Args:
            writes: Number of commits in the transaction.
            size: Estimated bytes of all of them together.
            writer_lock: A context manager that keeps the writers of this process out: the lock of `Database`.
        """
        self._pages += writes * _WRITTEN + size // PAGE_BYTES
        self._written += 1
        if self._written >= _LOOKS:
            self._look()
        if self._pages < PAGES or self.copying.locked():  # it is not time yet, or a checkpoint is running
            return
        # The lock is taken here and released by the new thread, so that no second checkpoint is started.
        thread = Thread(target=self._copy_soon, args=(writer_lock,), name="graphrt-checkpoint", daemon=True)
        if not self.copying.acquire(blocking=False):
            return  # a checkpoint has begun meanwhile
        try:
            thread.start()
        except RuntimeError:  # no further thread can be started, or the interpreter is shutting down
            self._copy_soon(writer_lock)
        except BaseException:  # Ctrl-C
            if thread.ident is None:  # the thread was not started, so it will not release the lock
                self.copying.release()
            raise

    def close(self) -> None:
        """Wait for the checkpoint that is running, if any. The caller must not hold the database's lock."""
        with self.copying:
            pass

    # Checkpoints.

    def _look(self) -> bool:
        """Read the size of the log, and return whether the log is the file that was opened.

        If the file grew by more than `wrote` estimated, the estimate is raised: other processes write to the log too.
        """
        self._written = 0
        try:
            status = os.stat(self._name)  # noqa: PTH116 - called for commits, where a Path would cost more
        except OSError:  # there is no log, which is right only as long as none was seen
            return self._file is None
        file = status.st_dev, status.st_ino
        if self._file is None:
            self._file = file
        self._size = status.st_size
        if self._size - self._before > self._pages * PAGE_BYTES:
            self._pages = (self._size - self._before) // PAGE_BYTES
        return file == self._file

    def _copy_soon(self, writer_lock: AbstractContextManager[Any]) -> None:
        """Run a checkpoint in the background, log its failure, and release `copying`, which the caller acquired."""
        try:
            # Reset first: writes made meanwhile count for the next checkpoint.
            self._pages, self._before = 0, self._size
            self._note(copy(self._path, self._main, writer_lock))
        except Exception as error:  # the commits are safe in the log, and a later checkpoint copies them
            if not (of_sqlite(error) or isinstance(error, StoreError)):
                raise
            if primary(error) != BUSY:  # BUSY only means that other processes were writing
                self._left = self._size  # so that `check` refuses commits if that continues up to the limit
                if not self._failing:  # warn once until a checkpoint succeeds again
                    self._failing = True
                    _logger.warning(
                        "A checkpoint of %r failed, and is tried again with later commits. Commits are safe in its "
                        "write-ahead log, which grows meanwhile: %s",
                        self._path,
                        error,
                    )
        finally:
            self.copying.release()

    def _note(self, copied: Copied | None) -> None:
        """Record the result of a checkpoint; None if another process was running one, so that the state is unknown."""
        if copied is None:
            return
        self._failing = False
        self._left = 0 if copied.done >= copied.frames else copied.frames * PAGE_BYTES
        if copied.done > copied.frames:
            self._torn = copied


def copy(path: str, file: tuple[int, int] | None, writer_lock: AbstractContextManager[Any] | None) -> Copied | None:
    """Run a checkpoint of *path*: most of it while commits continue, and the remainder while commits wait.

    A read guard is a second connection with an open read transaction, a write guard one that holds the write lock.
    While either is held, no writer can restart the log, so SQLite's bug cannot occur (decision 0063).

    Args:
        path: The database file.
        file: Device and inode that *path* must still have.
        writer_lock: Keeps the writers of this process out; None if the caller does so already.

    Returns:
        None if another process is running a checkpoint.

    Raises:
        sqlite3.Error: The checkpoint failed, or other processes did not stop writing within `_WAIT_S`.
        StoreError: *path* is another file now.
    """
    guard = _connect(path, file)
    try:
        checkpointer = _connect(path, file)
        try:
            # Under a read guard, commits continue. The second round copies the pages written during the first one. So
            # little is left for the write guard, under which commits wait. With *writer_lock* None, they wait already.
            for _ in range(0 if writer_lock is None else 2):
                guard.execute("BEGIN")
                try:
                    _read(guard)
                    _copy(checkpointer)
                finally:
                    guard.execute("ROLLBACK")
            with writer_lock or nullcontext():
                with_polling(lambda: guard.execute("BEGIN IMMEDIATE"), _WAIT_S)
                try:
                    return _copy(checkpointer)
                finally:
                    guard.execute("ROLLBACK")
        finally:
            checkpointer.close()
    finally:
        guard.close()


def _connect(path: str, file: tuple[int, int] | None) -> Connection:
    """Return a connection to *path* that has opened its log. *file* is the device and inode that it must have.

    Raises:
        StoreError: *path* is not the file with the identity *file*.
    """
    db = files.connect(path, 0.0, "mode=rw")  # never creates a file
    try:
        # Checked before and after: SQLite opens the file by name, and it may be replaced in between.
        if files.identity(path) != file:
            raise files.gone(path)
        modes.careful(db, path)
        with_polling(lambda: _read(db), _WAIT_S)
        if files.identity(path) != file:
            raise files.gone(path)
    except BaseException:
        db.close()
        raise
    return db


def _read(db: Connection) -> None:
    """Read something, so that SQLite opens the log, and takes a lock in a transaction: BEGIN alone takes none."""
    db.execute("SELECT count(*) FROM sqlite_master").fetchall()


def _copy(checkpointer: Connection) -> Copied | None:
    """Run a PASSIVE checkpoint, which waits for no reader and no writer. Returns None if another one is running.

    It runs on *checkpointer*, while another connection of this process, the guard, holds a transaction. SQLite's other
    modes become an unguarded PASSIVE checkpoint if they wait for too long (decision 0063).
    """
    # The row: whether the checkpoint was blocked, pages in the log, pages copied. If it was, the other two are -1.
    _, frames, done = checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()[0]
    return None if frames < 0 else Copied(frames, done)
