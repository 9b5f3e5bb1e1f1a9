"""One connection to a SQLite file and its transactions: all or nothing, whatever fails and wherever.

Locks, transactions, reconnection and forks; what is read and written in a transaction is the store's. Threads that
write at the same time share a transaction, and so a sync of the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from functools import partial
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, TypeVar
from weakref import finalize

from graphrt._forks import watch_forks
from graphrt.errors import StoreError
from graphrt.stores import _refusals
from graphrt.stores._owners import Owner, this_owner
from graphrt.stores.sqlite import _disk_reserve as room
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite._errors import BUSY, FULL, breaks, explain, of_sqlite, primary
from graphrt.stores.sqlite._file_system import Folder, identity
from graphrt.stores.sqlite._group_commit import DONE, Group
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.sqlite._lock_polling import patiently
from graphrt.stores.sqlite._log import Log
from graphrt.stores.sqlite._write import Write

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")


_READY, _BEGIN, _WORK, _END = range(4)
"""The phases of a transaction: an error is handled by the phase in which it occurred."""
_SIZE = attrgetter("size")


class Database:
    """A file and at most one connection to it, used by one worker thread at a time.

    A fork would carry the connection's state into the child, where it does harm: the connection is closed right before
    a fork, and opened again by whichever of the two processes needs it next.
    """

    def __init__(self, path: str, *, busy_timeout_s: float, pragmas: Pragmas | None, log_limit_bytes: int) -> None:
        self.path = path
        self.owner: Owner = this_owner()
        """Whom claims belong to; another one in the child of a fork."""
        self.closed = False
        self.closing = False
        """Set when `close` begins: only writes marked as *last* are accepted from then on. Guarded by the lock."""
        self.giving: dict[int, int] = {}
        """Claims made in the current transaction, by thread number: their epoch. Later writes of the same transaction
        must respect them although they are not committed yet."""
        self.lock = RLock()
        """Held while the connection is used. Do not call `write` while holding it: another thread may be writing on the
        caller's behalf, and needs it."""
        self._aside = RLock()
        """Held while a second connection is open. Whoever waits for it does not have the other lock."""
        self._busy_timeout_s = busy_timeout_s
        self._pragmas = pragmas
        self._db: Connection | None = None
        self._kept: list[Connection] = []
        """The same connection, for the end of a store that nobody closes."""
        self._file: tuple[int, int] | None = None
        self._folder = Folder(path)
        self._logged = False
        """Whether the file is in WAL mode."""
        self._read_only: str | None = None
        """What keeps this user from writing, as it was when the connection was opened."""
        self._looked: files.Looked | None = None
        """How the file stood, if it is read without locks."""
        self._group: Group[Write] = Group()
        self._log = Log(path, log_limit_bytes)
        watch_forks(self)
        finalize(self, _close_all, self._kept).atexit = False
        self.connection()

    def connection(self) -> Connection:
        """The connection, opened if need be. The caller has the lock."""
        if self._db is None:
            if self.closed:
                raise _refusals.closed(f"The store of {self.path!r}")
            if self._file is not None and identity(self.path) != self._file:
                raise files.gone(self.path)
            opened = files.open_file(self.path, busy_timeout_s=self._busy_timeout_s, pragmas=self._pragmas)
            self._db, self._logged, self._read_only, self._looked = opened
            self._kept[:] = [self._db]
            self._file = identity(self.path)
            if self._logged:
                self._log.opened()
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
        """What *work* reads, all of it at one moment. It is called again if somebody is in its way at first."""
        with self.lock:
            while True:
                try:
                    found = patiently(lambda: self._read_once(work), self._busy_timeout_s)
                except BaseException as error:
                    moved = self._moved() and isinstance(error, Exception)
                    if moved:
                        self._drop()
                        continue  # it was read while somebody wrote it
                    if not of_sqlite(error):
                        raise
                    raise explain(error, self.path, "nothing was changed") from error
                if not self._moved():
                    return found
                self._drop()

    def _read_once(self, work: Callable[[Connection], T]) -> T:
        db = self.connection()
        try:
            db.execute("BEGIN")
            found = work(db)
            db.execute("COMMIT")
        except BaseException as error:
            self._undo(db, error)
            raise
        return found

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        landed: Callable[[Connection, T], bool],
        kept: Callable[[], str],
        thread: str,
        then: Callable[[T], None] | None = None,
        size: int = 0,
        last: bool = False,
    ) -> T:
        """What *work* returns, once all that it wrote is durable. The caller does not hold the lock.

        Args:
            work: Called in a transaction, in any worker thread. It may be called again, if the transaction came to
                nothing.
            landed: Whether what was written is there, asked on a new connection if the end of the transaction failed
                so that nobody knows.
            kept: What to tell of the stored state when nothing was written.
            then: Called with what *work* returned once it is durable, before anybody else reads or writes.
            size: Bytes that it writes, about, where they may be many.
            last: It ends the store.
        """
        write = Write(work, landed, kept, thread, then, size, last=last)
        self._group.do(write, self._write_all)
        if write.error is not None:
            try:
                raise write.error
            finally:
                del write  # breaks a reference cycle between the error and this frame
        found: T = write.found
        return found

    def _write_all(self, writes: list[Write]) -> None:
        """Write what several callers want: in one transaction, or each by itself if one of them fails."""
        with self.lock:
            if len(writes) == 1 or not self._write(writes):
                for one in writes:
                    self._write([one])

    def _write(self, writes: list[Write]) -> bool:
        """Write *writes* in one transaction and end them; False if there are several, and one of them failed."""
        again = self._logged
        while True:
            step, db = _READY, None
            self.giving.clear()
            try:  # covers every phase, so that an interruption never leaves a transaction open
                db = self._ready(writes)
                step = _BEGIN
                patiently(partial(db.execute, "BEGIN IMMEDIATE"), self._busy_timeout_s)
                step = _WORK
                for one in writes:
                    one.found = one.work(db)
                step = _END
                # With a rollback journal, COMMIT has to wait for readers.
                patiently(partial(db.execute, "COMMIT"), 0.0 if self._logged else self._busy_timeout_s)
                for one in writes:
                    one.end()
            except BaseException as error:
                doubtful = step == _END and primary(error) != BUSY
                if db is not None:
                    self._undo(db, error, drop=doubtful)
                if primary(error) == FULL and self._logged and not self._is_there(writes[0], doubtful=doubtful):
                    if again and self._log.full():
                        again = False
                        continue
                    if len(writes) > 1:
                        return False  # some of them may fit
                if step in (_BEGIN, _END) or self._cannot_open(step, error):
                    self._settle(writes, error, doubtful=doubtful)
                    return True
                if not isinstance(error, Exception):
                    raise
                return self._failed(writes, error)
            finally:
                self.giving.clear()
            if self._logged:
                self._log.wrote(len(writes), sum(map(_SIZE, writes)), self.lock)
            return True

    @staticmethod
    def _cannot_open(step: int, error: BaseException) -> bool:
        """Whether the file could not be opened because it was locked: the other writes of the group need not wait again."""
        return step == _READY and isinstance(error, StoreError) and error.code == "store-busy" and not error.thread

    def _is_there(self, one: Write, *, doubtful: bool) -> bool:
        """Whether the transaction of *one* is stored, or nobody knows."""
        return doubtful and self._ask(one.landed, one.found) is not False

    def _ready(self, writes: list[Write]) -> Connection:
        """The connection, after checking that what is written through it will last."""
        first = writes[0]
        if self.closing and not all(one.last for one in writes):
            raise _refusals.closed(f"The store of {self.path!r}")
        db = self._db or self.connection()
        if self._read_only is not None:
            db = self._writable(first.thread, first.kept)
        if not (self._logged and self._folder.unchanged()):
            if identity(self.path) != self._file:
                self._drop()  # what is written to a file that was removed is lost when it is closed
                raise files.gone(self.path)
            if self._logged:
                self._log.check_files(first.kept, first.thread)
                self._folder.checked()
        if self._logged:
            self._log.check(first.kept, first.thread)
        return db

    def _failed(self, writes: list[Write], error: Exception) -> bool:
        """End a single write as failed; False if there are several, each of which is then written by itself."""
        if len(writes) > 1:
            return False
        one = writes[0]
        one.fail(explain(error, self.path, one.kept(), thread=one.thread) if of_sqlite(error) else error, error)
        return True

    def _settle(self, writes: list[Write], error: BaseException, *, doubtful: bool) -> None:
        """End *writes* after their transaction failed with *error* in BEGIN or COMMIT, or while the file was opened.

        Args:
            doubtful: SQLite does not know whether they are stored, so the file is asked.

        Raises:
            BaseException: *error*, if it is an interruption.
        """
        for one in writes:
            if one.state == DONE:
                continue
            there = self._ask(one.landed, one.found) if doubtful else False
            if there:
                one.end()
            elif of_sqlite(error):
                told = one.kept()
                if there is None:
                    told = f"whether this write on thread {one.thread!r} was stored is not known"
                one.fail(explain(error, self.path, told, thread=one.thread), error)
            elif isinstance(error, StoreError):  # the file could not be opened
                one.fail(copy(error), error)
        if not (of_sqlite(error) or isinstance(error, StoreError)):
            raise error

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
        """Close the file. The caller must not hold the lock."""
        with self.lock:
            self.closed = True
        self._log.close()
        with self.lock:
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
        self._log.before_fork()
        self.lock.acquire()
        self._drop()

    def after_fork_in_parent(self) -> None:
        self.lock.release()
        self._log.after_fork_in_parent()
        self._aside.release()

    def after_fork_in_child(self) -> None:
        self.lock, self._aside = RLock(), RLock()
        self._log.after_fork_in_child()
        self._group = Group()  # the threads of the old one are in the parent
        self.owner = this_owner()


def _close_all(connections: list[Connection]) -> None:
    while connections:
        try:
            connections.pop().close()
        except Exception as error:  # a connection that cannot be closed is left alone
            if not of_sqlite(error):
                raise
