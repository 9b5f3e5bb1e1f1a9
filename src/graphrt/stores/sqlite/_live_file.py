"""Live items in transit between processes, in a separate SQLite file beside the database.

*Live items* are what a run shows while it works, such as tokens of a model. They are not part of the stored thread. A
*follower* is a reader of them, usually in another process than the run. It registers interest for some seconds, at most
`LONGEST_INTEREST_S`, and renews it. Only for threads with a follower does the run's process write items, in *batches*.

    follower   thread, and until when a follower reads its live items, in seconds since the epoch; deleted `KEPT_S`
               seconds later
    batch      live items of one run; `place` grows with each batch, `id` is chosen by the run, `at` is the time

The file is not the database, so that tokens cost no fsync there and are in no backup. It is written without any sync,
and may be deleted at any time: the next call makes it again. If it is damaged, as after a loss of power, or if another
version made it, it is replaced. A batch is deleted after `KEPT_S` seconds, if its thread has no row in `follower`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from graphrt._forks import Home, closed_for_forks
from graphrt.errors import StoreError
from graphrt.errors._codes.databases import SQLITE_BAD_FILE
from graphrt.errors._codes.stores import STORE_CLOSED
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite._errors import explain, of_a_row, of_sqlite, primary
from graphrt.stores.sqlite._files import identity, with_polling
from graphrt.stores.sqlite._reading import MESSAGE
from graphrt.stores.sqlite._unchanged import Known, Unchanged, stamp
from graphrt.stores.values import KEPT_S, LONGEST_INTEREST_S, LiveBatch, NewBatch

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

_VERSION: Final = 1
"""Version of the tables, stored as SQLite's `user_version`; 0 in a file that has none yet."""
_DAMAGED: Final = frozenset({1, 11, 26})
"""Primary codes after which the file is replaced: ERROR (another version's tables), CORRUPT and NOTADB."""
_WAIT_S: Final = 2.0
"""Seconds to wait for another process that writes, which takes well below a millisecond."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS follower(thread TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID",
    (
        "CREATE TABLE IF NOT EXISTS batch(place INTEGER PRIMARY KEY AUTOINCREMENT, thread TEXT NOT NULL,"
        " id TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL)"
    ),
    "CREATE INDEX IF NOT EXISTS batch_thread ON batch(thread, place)",
    "CREATE INDEX IF NOT EXISTS batch_at ON batch(at)",
    f"PRAGMA user_version = {_VERSION}",
)
# `until` is the end of this interest, `most` the latest end that can be real. If there are several followers, the
# latest end stays. An end after `most` dates from before the clock was set back, and is replaced.
_FOLLOW: Final = (
    "INSERT INTO follower(thread, until) VALUES (:thread, :until)"
    " ON CONFLICT(thread) DO UPDATE SET until = CASE WHEN until BETWEEN :until AND :most THEN until ELSE :until END"
)
_INSERT: Final = "INSERT INTO batch(thread, id, at, body) VALUES "
_NEWEST: Final = "SELECT coalesce(max(place), 0) FROM batch WHERE thread = ?"
_NEWER: Final = "SELECT 1 FROM batch WHERE thread = ? AND place > ? LIMIT 1"
# The upper bound is for a clock that was set back: an interest noted before that counts as over.
_FOLLOWED: Final = "SELECT thread FROM follower WHERE until BETWEEN ? AND ? AND thread IN (MARKS) ORDER BY thread"
_TRIES: Final = 40
_PAUSE_S: Final = 0.05
"""Attempts to empty the log while other connections use the file, and the seconds between them."""
_SEEN_S: Final = 0.05
"""Seconds for which the file of batches is assumed to exist, since checking costs as much as reading. A batch that is
written into a file which another process has replaced meanwhile is lost, and its readers see the gap."""
_TIDY_S: Final = 1.0
"""Seconds between two deletions of obsolete items."""
_AT_ONCE: Final = 500
"""Threads that one statement asks for, because SQLite limits the number of parameters."""
_ROWS_AT_ONCE: Final = 32
"""Batches that one statement inserts. For each statement, Python's lock is given up and taken again, which costs more
processor time than the insertion while other threads work."""


@final
class LiveFile:
    """The file beside the database *path*, of the store with *home*. It is made when the first follower notes interest.

    Methods that need the file make it if it is missing (`making=True`); their `or []` is for the type checker alone.
    The functions `work` are called by `_do` in a transaction, and may be called several times.
    """

    def __init__(self, path: str, home: Home) -> None:
        self._home: Final = home
        self.path: Final = f"{path}-live"
        self._lock = RLock()
        self._db: Connection | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the file that is open."""
        self._seen_at = 0.0
        """Monotonic time at which that was last checked."""
        self._tidied_at = 0.0
        """Monotonic time of the last deletion of obsolete items."""
        self._changes = 0
        """Number of times that this object opened or wrote the file."""
        self._unread: Final = Unchanged()
        self._closed = False
        closed_for_forks(self)

    def follow(self, threads: Iterable[str], for_s: float) -> dict[str, int]:
        """Note followers for *for_s* seconds; return the places of the newest batches of *threads*, 0 without any."""
        followed = {*threads}

        def work(db: Connection) -> dict[str, int]:
            now = time.time()
            self._tidy(db, now)
            max_until = now + LONGEST_INTEREST_S
            until = min(now + for_s, max_until)
            db.executemany(_FOLLOW, [{"thread": thread, "until": until, "most": max_until} for thread in followed])
            return {thread: int(db.execute(_NEWEST, (thread,)).fetchall()[0][0]) for thread in followed}

        return self._do(work, making=True) or {}

    def followed(self, threads: Iterable[str], after: str, limit: int) -> list[str]:
        """Return those of *threads* after *after* that have a follower, up to *limit* (-1: all); none without a file."""
        candidates = sorted({thread for thread in threads if thread > after})

        def work(db: Connection) -> list[str]:
            now, followed_threads = time.time(), list[str]()
            for at in range(0, len(candidates), _AT_ONCE):
                chunk = candidates[at : at + _AT_ONCE]
                text = _FOLLOWED.replace("MARKS", ", ".join("?" * len(chunk)))
                rows = db.execute(text, (now, now + LONGEST_INTEREST_S, *chunk)).fetchall()
                followed_threads += [name for (name,) in rows]
            return followed_threads

        followed_threads = (self._do(work) or []) if candidates else []
        return followed_threads if limit < 0 else followed_threads[:limit]

    def relay(self, batches: Sequence[NewBatch]) -> list[int]:
        """Keep *batches*, and return their places. Earlier batches of their threads up to `forget` are deleted."""

        def work(db: Connection) -> list[int]:
            now, places = time.time(), list[int]()
            self._tidy(db, now)
            for thread, _, _, forget in batches:
                if forget:
                    db.execute("DELETE FROM batch WHERE thread = ? AND place <= ?", (thread, forget))
            for at in range(0, len(batches), _ROWS_AT_ONCE):
                chunk = batches[at : at + _ROWS_AT_ONCE]
                values = chain.from_iterable((batch.thread, batch.id, now, batch.body) for batch in chunk)
                text = f"{_INSERT}(?, ?, ?, ?){', (?, ?, ?, ?)' * (len(chunk) - 1)}"
                last_place = db.execute(text, [*values]).lastrowid or 0
                places += range(last_place - len(chunk) + 1, last_place + 1)  # nothing else is inserted meanwhile
            return places

        return (self._do(work, making=True, brief=True) or []) if batches else []

    def after(self, thread: str, place: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after the place *place*, in order; none if there is no file."""
        text = "SELECT place, id, body FROM batch WHERE thread = ? AND place > ? ORDER BY place LIMIT ?"
        rows = (
            self._do(lambda db: MESSAGE.checked(db.execute(text, (thread, place, limit)).fetchall()), brief=True) or []
        )
        return [LiveBatch(*row) for row in rows]

    def news(self, known: Known) -> set[str]:
        """Return the threads of *known* with a batch after the last place that their reader knows; none without a file."""

        def work(db: Connection) -> set[str]:
            def is_new(thread: str, _seq: int, place: int) -> bool:
                return bool(db.execute(_NEWER, (thread, place)).fetchall())

            return self._unread.look(stamp(db, self._changes), known, is_new)

        return self._do(work) or set()

    def forget(self, threads: Iterable[str]) -> None:
        """Delete batches of *threads*; if that fails, the whole file.

        Called after the threads were deleted, or values of theirs were erased: those must not stay here.
        """
        thread_ids = [*threads]

        def work(db: Connection) -> None:
            for thread in thread_ids:
                db.execute("DELETE FROM batch WHERE thread = ?", (thread,))

        try:
            self._do(work)
        except StoreError:
            self._remove()

    def _tidy(self, db: Connection, now: float) -> None:
        """Delete obsolete items, so that the file stays small. Rows from the future date from before a clock change."""
        if time.monotonic() - self._tidied_at < _TIDY_S:
            return
        self._tidied_at = time.monotonic()
        cutoff, ahead = now - KEPT_S, now + LONGEST_INTEREST_S
        db.execute("DELETE FROM follower WHERE until < ? OR until > ?", (cutoff, ahead))
        db.execute("DELETE FROM batch WHERE at < ? AND thread NOT IN (SELECT thread FROM follower)", (cutoff,))
        db.execute("DELETE FROM batch WHERE at > ?", (ahead,))

    def scrub(self) -> list[str]:
        """Empty the file's write-ahead log, which may hold erased values; return a sentence if that is not possible.

        In the file itself, deleted bytes are overwritten (`secure_delete`). The log of the database is not emptied this way,
        because a checkpoint is not safe while other processes write (decision 0063). This file may be lost at any time.
        """
        with suppress(StoreError):  # the file cannot be used, and is replaced by the next call
            for _ in range(_TRIES):
                if self._is_emptied():
                    return []
                time.sleep(_PAUSE_S)
        return [
            (
                f"Other connections use {self.path!r}, the file of live items, so its write-ahead log may hold erased "
                "values. Erase again when they are closed, or delete the file: it is created again."
            )
        ]

    def _is_emptied(self) -> bool:
        """Empty the log, and return whether that was possible; also if there is no file."""
        self._home.check()
        with self._lock:
            try:
                db = self._opened(making=False)
                return db is None or not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
            except Exception as error:
                if not of_sqlite(error):
                    raise
                self._drop()
                if primary(error) in _DAMAGED:
                    self._remove()
                return False

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock:
            self._closed = True
            self._drop()

    def _do(self, work: Callable[[Connection], T], *, making: bool = False, brief: bool = False) -> T | None:
        """Return the result of *work*, done in one transaction; None if there is no file, and it is not made.

        A damaged file is removed, and *work* done once more: with a new file, or without one.

        Args:
            work: Reads or writes on a connection.
            making: Make the file if it is missing, and take the write lock: *work* writes what a new file needs.
            brief: It is about batches, and done often: the file was perhaps looked at some time before. A read is one
                statement, which needs no transaction around it.

        Raises:
            StoreError: The file cannot be used.
        """
        self._home.check()
        with self._lock:
            for is_retry in (False, True):  # whether this is the second attempt
                try:
                    return with_polling(lambda: self._once(work, making=making, brief=brief), _WAIT_S)
                except Exception as error:
                    self._drop()  # the connection may be broken; the next one is new
                    if not (of_sqlite(error) or of_a_row(error)):
                        raise
                    if is_retry or (of_sqlite(error) and primary(error) not in _DAMAGED):
                        raise explain(error, self.path, "no live items were carried") from error
                    self._remove()
        return None

    def _once(self, work: Callable[[Connection], T], *, making: bool, brief: bool) -> T | None:
        """Perform *work* like `_do`, but without a second attempt."""
        db = self._opened(making=making, brief=brief)
        if db is None:
            return None
        if brief and not making:
            return work(db)
        db.execute("BEGIN IMMEDIATE" if making else "BEGIN")
        try:
            result = work(db)
            db.execute("COMMIT")
            self._changes += making
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return result

    def _opened(self, *, making: bool, brief: bool = False) -> Connection | None:
        """Return a connection to the file that is there now; None if there is none, and it is not made.

        Raises:
            StoreError: The store is closed, or the file cannot be made.
            sqlite3.Error: The file cannot be opened.
        """
        if self._closed:
            raise STORE_CLOSED(store=f"The store of {self.path.removesuffix('-live')!r}")
        now = time.monotonic()
        if brief and self._db is not None and now - self._seen_at < _SEEN_S:
            return self._db
        file_id, self._seen_at = identity(self.path), now
        if self._db is not None and file_id == self._file:
            return self._db
        self._drop()  # another process has replaced the file
        if file_id is None:
            if not making:
                return None
            try:  # with mode 0600, which SQLite would not give it
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:  # another process was faster
                pass
            except OSError as error:
                raise SQLITE_BAD_FILE(
                    database=self.path, problem=f"cannot be made ({error.strerror})", wanted="another path"
                ) from error
        db = files.connect(self.path, 0.0)
        try:
            modes.distrust(db)  # settings for a file that may be damaged
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA secure_delete = ON")  # live items must not outlive their thread
            version = db.execute("PRAGMA user_version").fetchall()[0][0]
            if version != _VERSION:
                self._make(db, version)
        except BaseException:
            db.close()
            raise
        self._db, self._file = db, identity(self.path)
        self._changes += 1
        return db

    def _make(self, db: Connection, version: Any) -> None:
        """Create the tables in an empty file. A file of another *version* is reported as damaged, so `_do` replaces it.

        Raises:
            sqlite3.Error: The file has another version, or cannot be written.
        """
        if version:
            import sqlite3

            error = sqlite3.DatabaseError(f"version {version}")
            error.sqlite_errorcode = 1  # SQLITE_ERROR, which is in `_DAMAGED`
            raise error
        db.execute("PRAGMA journal_mode = WAL").fetchall()  # readers and the writer do not wait for each other
        db.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            db.execute(statement)
        db.execute("COMMIT")

    def _remove(self) -> None:
        """Delete the file, which cannot be read. Other processes notice by its inode, and open the new file."""
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(self.path + ending).unlink()

    def _drop(self) -> None:
        """Close the connection, if there is one; the next call opens another."""
        db, self._db, self._file = self._db, None, None
        if db is not None:
            with suppress(Exception):
                db.close()

    # Around a fork, called by `closed_for_forks`: SQLite's connections do not survive one (see `Database`).

    def before_fork(self) -> None:
        self._lock.acquire()
        self._drop()

    def after_fork(self) -> None:
        self._lock.release()
