"""One connection to a SQLite file and its transactions: all or nothing, whatever fails and wherever.

Locks, transactions, reconnection and forks; what is read and written in a transaction is the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, TypeVar
from weakref import finalize

from graphrt._forks import watch_forks
from graphrt.errors import StoreError
from graphrt.stores import _refusals
from graphrt.stores import _sqlite_files as files
from graphrt.stores import _sqlite_room as room
from graphrt.stores._owners import Owner, this_owner
from graphrt.stores._sqlite_errors import BUSY, breaks, explain, of_sqlite, primary

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")


class Database:
    """A file and at most one connection to it, used by one worker thread at a time.

    A fork would carry the connection's state into the child, where it does harm: the connection is closed right before
    a fork, and opened again by whichever of the two processes needs it next.
    """

    def __init__(self, path: str, *, busy_timeout_s: float, pragmas: files.Pragmas | None) -> None:
        self.path = path
        self.owner: Owner = this_owner()
        """Whom claims belong to; another one in the child of a fork."""
        self.closed = False
        self.lock = RLock()
        self._aside = RLock()
        """Held while a second connection is open. Whoever waits for it does not have the other lock."""
        self._busy_timeout_s = busy_timeout_s
        self._pragmas = pragmas
        self._db: Connection | None = None
        self._kept: list[Connection] = []
        """The same connection, for the end of a store that nobody closes."""
        self._file: tuple[int, int] | None = None
        self._read_only: str | None = None
        """What keeps this user from writing, as it was when the connection was opened."""
        self._looked: files.Looked | None = None
        """How the file stood, if it is read without locks."""
        watch_forks(self)
        finalize(self, _close_all, self._kept).atexit = False
        self.connection()

    def connection(self) -> Connection:
        """The connection, opened if need be. The caller has the lock."""
        if self._db is None:
            if self.closed:
                raise _refusals.closed(f"The store of {self.path!r}")
            if self._file is not None and files.identity(self.path) != self._file:
                raise files.gone(self.path)
            opened = files.open_file(self.path, busy_timeout_s=self._busy_timeout_s, pragmas=self._pragmas)
            self._db, self._read_only, self._looked = opened
            self._kept[:] = [self._db]
            self._file = files.identity(self.path)
            if self._read_only is None and self._pragmas is None:
                room.reserve(self.path)
        return self._db

    @contextmanager
    def aside(self) -> Generator[Connection]:
        """A second connection, in a transaction that reads the file as it is now. One at a time.

        It begins while nobody of this process writes: with a rollback journal, threads that write all the time would
        let no other connection in.
        """
        with self._aside:
            with self.lock:
                db = self.connection()  # the file is what it was, and the store is open
                if self._read_only is not None:
                    yield db
                    return
                db = files.connect(self.path, self._busy_timeout_s)
                try:
                    db.execute("BEGIN")
                    db.execute("SELECT count(*) FROM sqlite_master").fetchall()
                except BaseException:
                    db.close()
                    raise
            try:
                yield db
            finally:
                db.close()

    def read(self, work: Callable[[Connection], T]) -> T:
        """What *work* reads, all of it at one moment."""
        with self.lock:
            while True:
                db = self.connection()
                try:
                    db.execute("BEGIN")
                    found = work(db)
                    db.execute("COMMIT")
                except BaseException as error:
                    moved = self._moved() and isinstance(error, Exception)
                    self._undo(db, error, drop=moved)
                    if moved:
                        continue  # it was read while somebody wrote it
                    if not of_sqlite(error):
                        raise
                    raise explain(error, self.path, "nothing was changed") from error
                if not self._moved():
                    return found
                self._drop()

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        landed: Callable[[Connection, T], bool],
        kept: Callable[[], str],
        thread: str,
    ) -> T:
        """What *work* returns, once all that it wrote is durable.

        Args:
            landed: Whether what was written is there, asked on a new connection if the end of the transaction failed
                so that nobody knows.
            kept: What to tell of the stored state when nothing was written.
        """
        with self.lock:
            db = self._db or self.connection()
            if self._read_only is not None:
                db = self._writable(thread, kept)
            if files.identity(self.path) != self._file:
                self._drop()  # what is written to a file that was removed is lost when it is closed
                raise files.gone(self.path)
            try:
                db.execute("BEGIN IMMEDIATE")
                found = work(db)
            except BaseException as error:
                self._undo(db, error)
                if not of_sqlite(error):
                    raise
                raise explain(error, self.path, kept(), thread=thread) from error
            try:
                db.execute("COMMIT")
            except BaseException as error:
                doubtful = primary(error) != BUSY
                self._undo(db, error, drop=doubtful)
                if not of_sqlite(error):
                    raise
                # SQLite cannot say whether the transaction is durable: the file can.
                there = self._ask(landed, found) if doubtful else False
                if there:
                    return found
                told = kept() if there is False else f"whether this write on thread {thread!r} was stored is not known"
                raise explain(error, self.path, told, thread=thread) from error
            return found

    def _moved(self) -> bool:
        """Whether the file was written since it was opened without locks; then it is to be opened anew."""
        return self._looked is not None and files.look(self.path) != self._looked

    def _writable(self, thread: str, kept: Callable[[], str]) -> Connection:
        """A connection that may write, where it may meanwhile.

        Raises:
            StoreError: It still may not (`store-read-only`).
        """
        if files.why_read_only(self.path) is None:
            self._drop()
        db = self.connection()
        if self._read_only is not None:
            raise files.read_only(self.path, self._read_only, kept(), thread=thread)
        return db

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._drop()

    def _ask(self, landed: Callable[[Connection, T], bool], found: T) -> bool | None:
        try:
            return self.read(lambda db: landed(db, found))
        except StoreError:
            return None

    def _undo(self, db: Connection, error: BaseException, *, drop: bool = False) -> None:
        """Leave nothing behind: no transaction, and no connection that is not to be trusted."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except Exception:  # noqa: BLE001  # the first error is the one to tell; without a connection there is no transaction
            drop = True
        if drop or breaks(error):
            self._drop()

    def _drop(self) -> None:
        self._db = self._looked = None
        _close_all(self._kept)

    # Around a fork.

    def before_fork(self) -> None:
        self._aside.acquire()
        self.lock.acquire()
        self._drop()

    def after_fork_in_parent(self) -> None:
        self.lock.release()
        self._aside.release()

    def after_fork_in_child(self) -> None:
        self.lock, self._aside = RLock(), RLock()
        self.owner = this_owner()


def _close_all(connections: list[Connection]) -> None:
    while connections:
        try:
            connections.pop().close()
        except Exception as error:  # a connection that cannot be closed is left alone
            if not of_sqlite(error):
                raise
