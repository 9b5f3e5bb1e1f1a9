"""One connection to a SQLite file and its transactions, which are all or nothing wherever they fail.

Locks, transactions and reconnection belong here. The store passes in the functions that a transaction calls. Worker
threads that write at the same time share a transaction, and with it one sync of the disk (`_group_commit`). A *thread*
in names such as `Write.thread` is a stored one, by its id; a *claim* is the right of one owner to write it.

The file has a write-ahead log (WAL) or a rollback journal. A *checkpoint* copies the log into the database, so that the
log can restart at its beginning; `Log` runs them in the background. Errors come from SQLite (`of_sqlite`), from
decoding rows that are damaged (`of_a_row`), or are graphrt's own. `explain` turns the former two into the latter, with
the sentence from `kept` about the stored data. This is the only place where a damaged row becomes an error for callers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from functools import partial
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import finalize

from graphrt._forks import Home, closed_for_forks
from graphrt.errors import StoreError
from graphrt.errors._codes.databases import SQLITE_CALLED_INSIDE_A_CALL
from graphrt.errors._codes.stores import STORE_CLOSED
from graphrt.stores._owners import Owner, this_owner
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite._errors import BUSY, breaks, explain, locked_while_opened, of_a_row, of_sqlite, primary
from graphrt.stores.sqlite._files import Folder, identity, with_polling
from graphrt.stores.sqlite._group_commit import DONE, CalledInsideError, Group, Write
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.sqlite._log import Log
from graphrt.stores.sqlite._unchanged import Stamp, stamp

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

_READY, _BEGIN, _WORK, _END = range(4)
"""Phases of a write: getting the connection, BEGIN, the callers' work, COMMIT. An error is handled by its phase."""
_SIZE = attrgetter("size")
_READS: Final = 20
"""Maximum number of times that a file is read without locks if it is being written meanwhile."""


class Database:
    """A file and at most one connection to it, used by one worker thread at a time. The first call opens the file.

    SQLite connections must not be carried across a fork, not even to be closed: SQLite keeps what it knows of locks by
    file. A child that inherits a connection would take its parent's locks for its own, on new connections too
    (https://sqlite.org/howtocorrupt.html, 2.6). So right before a fork the connection is closed. The parent then opens
    another one; the child opens files only by stores that the parent has not used.
    """

    def __init__(self, path: str, *, busy_timeout_s: float, pragmas: Pragmas | None, log_limit_bytes: int) -> None:
        self.path = path
        self.home: Final = Home("This SQLite store")
        self._owner: Owner | None = None
        self.token = ""
        """The token of `owner`, which all claims of this store object have; empty before the first claim."""
        self.closed = False
        self.closing = False
        """Set when `SqliteStore.close` begins; then only writes marked *last* are accepted. Guarded by the lock."""
        self.giving: dict[int, int] = {}
        """Epochs of claims made in the current transaction, by thread number. Later writes of the transaction must
        respect them although they are not committed yet."""
        self.lock = RLock()
        """Held while the connection is used. Do not call `write` while holding it: another thread may be writing on the
        caller's behalf, and needs it."""
        self._aside = RLock()
        """Held while a second connection is open. Take it before `lock`, never while holding `lock`."""
        self._busy_timeout_s = busy_timeout_s
        self._pragmas = pragmas
        self._db: Connection | None = None
        self._kept: list[Connection] = []
        """The connection in `_db`, where the finalizer of a store that was never closed finds it."""
        self._file: tuple[int, int] | None = None
        """Device and inode of the file, once it was opened."""
        self._folder = Folder(path)
        self._logged = False
        """Whether the file is in WAL mode; also False for one that this user may only read."""
        self._read_only: str | None = None
        """The file or folder that this user could not write when the connection was opened; None if neither."""
        self._state: files.State | None = None
        """State of the file when it was opened read-only; None if it is read with locks."""
        self._changes = 0
        """Number of times that this object opened or wrote the file."""
        self._group = Group()
        self._log = Log(path, log_limit_bytes)
        closed_for_forks(self)
        # For a store that is dropped without `close`. A process that ends closes its files anyway.
        finalize(self, _close_all, self._kept).atexit = False

    @property
    def owner(self) -> Owner:
        """The owner of this store object's claims, made at first use: it names the process that uses the store."""
        if self._owner is None:
            with self.lock:
                if self._owner is None:
                    self._owner = this_owner()
                    self.token = self._owner.token
        return self._owner

    def connection(self) -> Connection:
        """Return the connection, and open it if necessary. The caller holds the lock.

        Raises:
            StoreError: The store is closed, or the file cannot be opened, or was removed or replaced.
        """
        if self._db is None:
            if self.closed:
                raise STORE_CLOSED(store=f"The store of {self.path!r}")
            if self._file is not None and identity(self.path) != self._file:
                raise files.gone(self.path)
            opened = files.open_file(self.path, busy_timeout_s=self._busy_timeout_s, pragmas=self._pragmas)
            self._db, self._logged, self._read_only, self._state = opened
            self._changes += 1
            self._kept[:] = [self._db]
            self._file = identity(self.path)
            if self._logged:
                self._log.opened()
        return self._db

    @contextmanager
    def aside(self) -> Generator[Connection]:
        """Lend a second connection for a backup, in a transaction that reads the file in its present state.

        One at a time.

        The transaction begins while no thread of this process writes. With a rollback journal, threads that write
        continuously would otherwise keep the connection out (decision 0045). A read-only file lends the first one.
        """
        self.home.check()
        with self._aside:
            with self.lock:
                db = self.connection()  # checks that the store is open and the file is still the same
                if self._read_only is not None:  # no thread writes at the same time; reads wait for the lock
                    yield db
                    return
                db = files.connect(self.path, self._busy_timeout_s)
                try:
                    db.execute("BEGIN")
                    db.execute("SELECT count(*) FROM sqlite_master").fetchall()  # BEGIN alone takes no lock
                except BaseException:
                    db.close()
                    raise
            try:
                yield db
            finally:
                db.close()

    def read(self, work: Callable[[Connection], T], thread: str | None = None) -> T:
        """Return the result of *work*, which reads in one transaction. It may be called several times.

        Args:
            work: Reads rows and decodes them. An error caused by damaged rows becomes a `StoreError`.
            thread: Id of the thread that is read, for an error; None if there are several.

        Raises:
            StoreError: The file cannot be read, or a row in it was changed.
        """
        self.home.check()
        with self.lock:
            if self._db is not None and self._db.in_transaction and _held_twice(self.lock):  # see `write`
                raise SQLITE_CALLED_INSIDE_A_CALL(database=self.path)
            for _ in range(_READS):
                try:
                    result = with_polling(partial(self._read_once, work), self._busy_timeout_s)
                except BaseException as error:
                    moved = self._moved() and isinstance(error, Exception)
                    if moved:  # read without locks while another process wrote, so the error may come from torn pages
                        self.drop()
                        continue
                    if not (of_sqlite(error) or of_a_row(error)):
                        raise
                    raise explain(error, self.path, "nothing was changed", thread=thread) from error
                if self._state is None or not self._moved():
                    return result
                self.drop()
            raise files.in_use(self.path, "another process keeps writing it")

    def _read_once(self, work: Callable[[Connection], T]) -> T:
        """Return the result of *work* in one transaction. `read` calls it again if another process has a lock."""
        db = self.connection()
        try:
            db.execute("BEGIN")
            result = work(db)
            db.execute("COMMIT")
        except BaseException as error:
            self._undo(db, error)
            raise
        return result

    def stamp(self, db: Connection) -> Stamp:
        """Return values that change with the file, to a caller inside `read`."""
        return stamp(db, self._changes)

    def write(self, write: Write[T]) -> T:
        """Return the result of *write* once everything that it wrote is durable. The caller does not hold the lock.

        Raises:
            StoreError: Nothing was written, or it is not known whether it was.
        """
        self.home.check()
        try:
            self._group.do(write, self._write_all)
        except CalledInsideError:  # such a stream's claim is released later, as after any failure (R12)
            raise SQLITE_CALLED_INSIDE_A_CALL(database=self.path) from None
        if write.error is not None:
            try:
                raise write.error
            finally:
                del write  # breaks the reference cycle: write -> error -> traceback -> this frame -> write
        result: T = write.found
        return result

    def _write_all(self, writes: list[Write[Any]]) -> None:
        """Perform the writes of a group of callers: in one transaction, or each in its own if one of them fails."""
        with self.lock:
            if not self._write(writes):
                for write in writes:
                    self._write([write])

    def _write(self, writes: list[Write[Any]]) -> bool:
        """Perform *writes* in one transaction, and end them.

        Returns:
            False if there are several and one of them failed: nothing was written, and none of them has ended.
        """
        step, db = _READY, None
        self.giving.clear()
        try:  # covers all phases, so that not even Ctrl-C can leave a transaction open
            db = self._ready(writes)
            step = _BEGIN
            with_polling(partial(db.execute, "BEGIN IMMEDIATE"), self._busy_timeout_s)
            step = _WORK
            for write in writes:
                write.found = write.work(db)
            step = _END
            # With a rollback journal, COMMIT waits for readers. With a log it does not wait.
            with_polling(partial(db.execute, "COMMIT"), 0.0 if self._logged else self._busy_timeout_s)
            self._changes += 1
            for write in writes:
                write.end()
        except BaseException as error:
            # SQLITE_BUSY from COMMIT means that the transaction is still open, so its outcome is not in doubt.
            doubtful = step == _END and primary(error) != BUSY
            if db is not None:
                self._undo(db, error, drop=doubtful)
            # In these phases the error is that of the transaction, not of one write: all of them fail.
            if step in (_BEGIN, _END) or (step == _READY and locked_while_opened(error)):
                self._settle(writes, error, doubtful=doubtful)
                return True
            if not isinstance(error, Exception):  # Ctrl-C: the next leader of the group does the other writes
                raise
            return self._failed(writes, error)
        finally:
            self.giving.clear()
        if self._logged:
            self._log.wrote(len(writes), sum(map(_SIZE, writes)), self.lock)
        return True

    def _ready(self, writes: list[Write[Any]]) -> Connection:
        """Return the connection, after checking that writes through it will last.

        Raises:
            StoreError: The store is closed, the file or its log was removed or replaced, or this user may not write the
                file. Or the log does not match the database, or has reached its limit.
        """
        first = writes[0]  # for error texts; several writes later get individual ones
        if self.closing and not all(write.last for write in writes):
            raise STORE_CLOSED(store=f"The store of {self.path!r}")
        db = self._db or self.connection()
        if db.in_transaction and _held_twice(self.lock):  # inside a read of this thread, see `write`
            raise SQLITE_CALLED_INSIDE_A_CALL(database=self.path)
        if self._read_only is not None:
            db = self._writable(first.thread, first.kept)
        # With a log, one `stat` of the folder usually shows that its files are the same (decision 0063).
        if not (self._logged and self._folder.unchanged()):
            if identity(self.path) != self._file:
                self.drop()  # writes to a removed file would be lost when it is closed
                raise files.gone(self.path)
            if self._logged:
                self._log.check_files(first.kept, first.thread)
                self._folder.checked()
        if self._logged:
            self._log.check(first.kept, first.thread)
        return db

    def _failed(self, writes: list[Write[Any]], error: Exception) -> bool:
        """End a single write as failed. Return False if there are several, each of which is then written separately."""
        if len(writes) > 1:
            return False
        write = writes[0]  # below, `fail` gets the error for the caller, and its cause
        is_translated = of_sqlite(error) or of_a_row(error)
        write.fail(explain(error, self.path, write.kept, thread=write.thread) if is_translated else error, error)
        return True

    def _settle(self, writes: list[Write[Any]], error: BaseException, *, doubtful: bool) -> None:
        """End *writes* after their transaction failed with *error* in BEGIN or COMMIT, or while the file was opened.

        If *doubtful*, whether they are stored is unknown, and is read from the file. An interruption is raised again:
        the next leader of the group then does the writes that are not `DONE`.
        """
        for write in writes:
            if write.state == DONE:
                continue
            is_stored = self._ask(write.landed, write.found) if doubtful else False
            if is_stored:
                write.end()
            elif of_sqlite(error):
                stored_state = write.kept
                if is_stored is None:
                    stored_state = f"whether this write on thread {write.thread!r} was stored is not known"
                write.fail(explain(error, self.path, stored_state, thread=write.thread), error)
            elif isinstance(error, StoreError):  # the file could not be opened; each caller raises an error of its own
                write.fail(copy(error), error)
        if not (of_sqlite(error) or isinstance(error, StoreError)):
            raise error

    def _moved(self) -> bool:
        """Return whether the file changed since it was opened read-only. It must then be opened again."""
        return self._state is not None and files.look(self.path) != self._state

    def check_writable(self, thread: str) -> None:
        """Check that this user may write the file, before a thread is claimed. The caller holds the lock.

        Raises:
            StoreError: The user may not (`store-read-only`).
        """
        if self._read_only is not None:
            self._writable(thread, f"thread {thread!r} was not claimed")

    def _writable(self, thread: str, stored_state: str) -> Connection:
        """Return a connection that may write, if this user was granted that since the opening; otherwise raise."""
        if files.why_read_only(self.path) is None:
            self.drop()
        db = self.connection()
        if self._read_only is not None:
            raise files.read_only(self.path, self._read_only, stored_state, thread=thread)
        return db

    def close(self) -> None:
        """Close the file, at the end of `SqliteStore.close`. The caller must not hold the lock."""
        with self.lock:
            self.closed = True
        self._log.close()  # not under the lock, which the checkpoint that it waits for needs
        with self.lock:
            self.drop()

    def _ask(self, landed: Callable[[Connection, T], bool | None], result: T) -> bool | None:
        """Return the result of *landed* in its own transaction: whether a write is stored. None if unknown."""
        try:
            return self.read(lambda db: landed(db, result))
        except StoreError:
            return None

    def _undo(self, db: Connection, error: BaseException, *, drop: bool = False) -> None:
        """End the transaction, and drop the connection if it can no longer be trusted."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except Exception:  # noqa: BLE001  # *error* is the one to report; closing the connection ends the transaction
            drop = True
        if drop or breaks(error):
            self.drop()

    def drop(self) -> None:
        """Close the connection; the next call opens another one. The caller holds the lock."""
        self._db = self._state = None
        _close_all(self._kept)

    # Around a fork, called by `closed_for_forks`. The order of the locks is that of `aside`, and of a checkpoint, which
    # needs `lock` at its end.

    def before_fork(self) -> None:
        self._aside.acquire()
        self._log.copying.acquire()
        self.lock.acquire()
        self.drop()

    def after_fork(self) -> None:
        self.lock.release()
        self._log.copying.release()
        self._aside.release()


def _close_all(connections: list[Connection]) -> None:
    """Close and remove all *connections*. A function, because a finalizer must not refer to the `Database`."""
    while connections:
        try:
            connections.pop().close()
        except Exception as error:  # a connection that cannot be closed is ignored
            if not of_sqlite(error):
                raise


def _held_twice(lock: Any) -> bool:
    """Return whether this thread holds *lock*, a `threading.RLock`, twice, which means it was interrupted in a call.

    A transaction that is open although the lock is held once was left behind by Ctrl-C; the next BEGIN ends it.
    """
    lock.release()
    try:
        return bool(lock._is_owned())  # the same private method that `threading.Condition` uses
    finally:
        lock.acquire()
