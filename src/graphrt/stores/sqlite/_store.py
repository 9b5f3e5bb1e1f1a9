"""The methods of `SqliteStore` for single threads: claims, commits and reads, expressed in the tables of `_schema`.

Connections and transactions are in `_database`, SQL in `_reading` and `_writing`, operations on whole threads in
`_whole_threads`. No string from a caller ever becomes part of a statement.

A thread is one line of stored state. Callers know its id; `no` is the number of its row. It has entries, numbered by
`seq` from 1; a record is the stored form of the entries of one commit. Its `head` is a summary. *Staged* bodies are
kept beside the records until a later commit deletes them; a claim's `staged` is the place that the next one gets.

A claim is the right to write a thread. Its `epoch` is its number, counted for each thread. Its lease is the time that
it stays valid without renewal. It is void once it was released, its lease ran out, its process died, or the
thread got a newer claim. A thread is *held* while a living owner has a claim on it. A claim is *reserved* in this
process until its first commit stores it: claiming a thread reads only.

`Database.write` does all writes. Its argument `work` runs in a transaction that several callers may share, and may be
repeated. `landed` finds out whether the write is stored if a COMMIT ended with an unknown outcome. `kept` returns the
end of an error text: what is stored if the write failed. `then` runs when the write is durable.

Inherited from `Holding`: `_there` returns the row of a thread id and whether a living owner holds the thread, or
raises; `_lives` says whether one does; `_unheld` raises if one does; `_gave` says whether a claim comes from this store
object; `_owned` finds the row of a valid claim, or raises; `_take` stores a reserved claim; `_wrote` follows each write
under a claim, and `_forget` its release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Final, final

from graphrt.errors import StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.stores import BAD_COMMIT
from graphrt.stores import _refusals
from graphrt.stores._owners import now_s
from graphrt.stores.ids import check_id, tenant_of
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.sqlite._database import Database
from graphrt.stores.sqlite._files import resolve
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.sqlite._live_file import LiveFile
from graphrt.stores.sqlite._query import Querying
from graphrt.stores.sqlite._rows import head
from graphrt.stores.sqlite._schedules import Scheduling
from graphrt.stores.sqlite._schema import SPAN
from graphrt.stores.sqlite._whole_threads import WholeThreads
from graphrt.stores.sqlite._writing import SqliteClaim
from graphrt.stores.values import EVERYTHING, Claim, Commit, Head, LiveBatch, Loaded, Offer, Record

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["SqliteStore"]

_LEAST_LOG_BYTES: Final = 16 * 2**20
"""Smallest `log_limit_bytes`. Unless a reader never ends, a log stays well below this."""


@final
class SqliteStore(Querying, Scheduling, WholeThreads):
    """A store in one SQLite file, for any number of processes of one machine.

    The first call opens the file. It is created if it is missing, and then only the user who created it may read it. A
    commit is on the disk when it returns.

    A claim becomes void at once when its process dies or the machine is restarted, and otherwise when its lease runs
    out. Leases are measured by a clock that all processes of the machine share. Between hosts, or containers with pid
    namespaces of their own, leases alone decide. The file must be on a local disk, because SQLite's locks do not work
    on network file systems.

    A file that this user may not write can be opened for reading: all reads work, and writes are refused
    (`store-read-only`).

    Args:
        path: Path of the file, in a folder that exists.
        busy_timeout_s: Seconds that a call waits while another process has the database locked.
        log_limit_bytes: Maximum length of the write-ahead log, 16 MiB or more. The log usually stays at a few
            megabytes. It grows while a reader keeps a transaction open, such as a forgotten `sqlite3` shell. Beyond
            this length, commits are refused (`store-busy`).

    Raises:
        InputError: *path* is not the path of a file (`bad-path`), or a number is out of range.
    """

    durable: bool = True
    blocking: bool = True
    offers: frozenset[Offer] = EVERYTHING

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        busy_timeout_s: float = 30.0,
        log_limit_bytes: int = 2**30,
        _pragmas: Pragmas | None = None,  # journal mode and durability for tests and measurements; None: the safe ones
    ) -> None:
        if not 0 <= busy_timeout_s <= 1_000_000:
            raise INVALID_ARGUMENT(argument="busy_timeout_s", value=busy_timeout_s, wanted="seconds, 0 or more")
        if not log_limit_bytes >= _LEAST_LOG_BYTES:
            raise INVALID_ARGUMENT(
                argument="log_limit_bytes",
                value=log_limit_bytes,
                wanted=f"a number of bytes, {_LEAST_LOG_BYTES:,} or more",
            )
        self._held: dict[int, SqliteClaim] = {}
        """Stored claims that callers have not released, by the number of their thread. Guarded by the file's lock."""
        self._reserved: dict[str, SqliteClaim] = {}
        """Claims that are not stored yet, by thread id. Guarded by the file's lock."""
        self._file = Database(
            resolve(path), busy_timeout_s=busy_timeout_s, pragmas=_pragmas, log_limit_bytes=log_limit_bytes
        )
        self._live = LiveFile(self._file.path, self._file.home)

    @property
    def path(self) -> str:
        """Absolute path of the file."""
        return self._file.path

    def __repr__(self) -> str:
        return f"<SqliteStore {self._file.path!r}{', closed' if self._file.closed else ''}>"

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner. See `Store.claim`."""
        check_id(thread)

        def work(db: Connection) -> SqliteClaim:
            row = reading.row_by_id(db, thread)
            self._unheld(row, thread)
            former = self._former(row)
            if row is None or not row.seq:  # without entries, its owner died before the first: it never existed
                if not create:
                    raise _refusals.unknown_thread(thread)
                new = Head(thread, 0, 1, "new", "", at, at, owned=True, tenant=tenant_of(thread))
                return SqliteClaim(new, lease_s, 0, self._file.owner.token, 0, former)
            summary = head(row, owned=True)._replace(epoch=row.epoch + 1)
            return SqliteClaim(summary, lease_s, row.no, self._file.owner.token, reading.next_place(db, row), former)

        with self._file.lock:  # no other call may reserve the thread between the read and the assignment
            other = self._reserved.get(thread)
            if other is not None and other.until_s > now_s():
                raise _refusals.held(
                    thread, f"claim number {other.epoch}, of this process, which has written nothing yet"
                )
            claim = self._file.read(work, thread)
            self._file.check_writable(thread)
            claim.until_s = now_s() + lease_s
            self._reserved[thread] = claim
        return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. Void claims stay void. See `Store.renew`."""
        own = [claim for claim in claims if self._gave(claim) and claim.is_stored]
        if not own or self._file.closing:
            return

        def work(db: Connection) -> None:
            now = now_s()
            for claim in own:
                writing.renew(db, claim, now)

        kept = "the leases were not renewed"
        # If the outcome is unknown, a failure is reported: a renewal may be repeated, and the next one follows after a
        # third of the lease. The error can name only one thread.
        self._file.write(work, landed=lambda _db, _: False, kept=lambda: kept, thread=own[0].thread)

    def release(self, claim: Claim) -> None:
        """Release the thread, and delete it if it has no entries. Do nothing if the claim is void."""
        if self._file.closing or not self._gave(claim):  # `close` releases all claims by itself
            return
        with self._file.lock:
            released = claim.is_stored and self._held.get(claim.no) is not claim
            if not claim.was_tried:  # nothing was written under it
                self._forget(claim)
        if released or not claim.was_tried:
            return

        def work(db: Connection) -> None:
            writing.free(db, claim)

        def landed(db: Connection, _: None) -> bool:
            # Released means: the thread was deleted, is free, or has a newer claim.
            row = reading.row_by_no(db, claim.no)
            return row is None or row.epoch != claim.epoch or row.owner is None

        kept = f"thread {claim.thread!r} is still claimed"
        self._file.write(
            work, landed=landed, kept=lambda: kept, thread=claim.thread, then=lambda _: self._forget(claim)
        )

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing; it is durable when this returns. See `Store.commit`."""
        thread = claim.thread
        seq = _refusals.check_commit(commit, thread)
        if seq >= SPAN:  # the key of a record is `no * SPAN + seq`
            raise BAD_COMMIT(thread=thread, why=f"entry {seq:,} is beyond the last, {SPAN - 1:,}")

        if not isinstance(claim, SqliteClaim) or claim.token != self._file.owner.token:  # the same test as `_gave`
            raise _refusals.lost(thread, claim.epoch, "it was given by another store object")

        def work(db: Connection) -> int:
            # One UPDATE checks epoch, lease and position, so that a writer that lost its claim stores nothing (R12).
            # Only if it changes no row is the reason looked up: `_owned` raises if the claim is void; otherwise the
            # thread is at another entry than the commit expects.
            if not claim.is_stored:
                self._take(db, claim, commit, seq)
            elif not writing.advance(db, claim, commit, seq, now_s()):
                raise _refusals.moved(thread, commit.expected, self._owned(db, claim).seq)
            return writing.put(db, claim, commit)

        def kept() -> str:
            return f"thread {thread!r} is at entry {commit.expected}; nothing of this commit was stored"

        # About, without meta and labels: for the estimate of how far the write-ahead log has grown, which decides when
        # a checkpoint runs.
        size = 0
        for record in commit.records:
            size += len(record.body)
        for _, body in (*commit.stage, *commit.blobs.items()):
            size += len(body)
        for _, _, body in commit.posts:
            size += len(body)
        if commit.snapshot is not None:
            size += len(commit.snapshot.body)
        claim.was_tried = True
        self._file.write(
            work,
            landed=lambda db, _: writing.landed(db, claim, commit, seq),
            kept=kept,
            thread=thread,
            then=partial(self._wrote, claim, commit),
            size=size,
        )

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
        check_id(thread)
        return self._file.read(lambda db: head(*self._there(db, thread)), thread)

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*. See `Store.load`."""
        check_id(thread)
        return self._file.read(lambda db: reading.load(db, *self._there(db, thread), upto, after), thread)

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records of *thread*, in order, read page by page. See `Store.records`."""
        check_id(thread)
        row = self._file.read(lambda db: self._there(db, thread)[0], thread)
        # `first` is the oldest entry that was not pruned.
        return reading.pages(self._file, row, max(after, row.first - 1), upto)

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist, by name. See `Store.blobs`.

        A blob is a large value that is stored beside the records, under the hash of its bytes as name. A thread that
        does not exist has none; so `_there`, which raises for such a thread, is not called.
        """
        check_id(thread)
        wanted = list(names)
        return self._file.read(lambda db: reading.blobs(db, thread, wanted), thread)

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a message to *thread* until a commit takes it. Returns False if there was one with this *id* before.

        Raises:
            InputError: There is no such thread, or it has no entries, or it cannot be kept.
        """
        _refusals.check_message(check_id(thread), id, body)

        def work(db: Connection) -> tuple[bool, int]:
            """Return whether the message is new, and the number of the thread, which is 0 if there is none."""
            found = writing.post_message(db, thread, id, body)
            if not found[1]:
                raise _refusals.unknown_thread(thread)
            return found

        # `landed` is asked if the outcome of the COMMIT is unknown, `kept` for the text of an error. If another caller
        # posted the same message meanwhile, that is as good.
        return self._file.write(
            work,
            landed=lambda db, found: writing.message_is_there(db, found[1], id),
            kept=lambda: f"the message to thread {thread!r} was not kept",
            thread=thread,
            size=len(body),
        )[0]

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note that a follower reads live items of *thread* for *for_s* seconds. Returns its newest batch's place."""
        return self._live.follow(check_id(thread), for_s)

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items, and return its place. Older batches up to the place *forget* are deleted."""
        return self._live.relay(check_id(thread), id, body, forget)

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after the place *after*, in order."""
        return self._live.after(check_id(thread), after, limit)

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        self._live.forget(threads)

    def close(self) -> None:
        """Release all claims and close the file. May be called again. In a forked child it leaves all to the parent."""
        if self._file.home.elsewhere:
            return
        with self._file.lock:
            if self._file.closing:
                return
            self._file.closing = True  # from now on, no other write is accepted
            own = list(self._held.values())
            self._held.clear()
            self._reserved.clear()

        def work(db: Connection) -> None:
            for claim in own:
                writing.free(db, claim)

        try:
            if own:
                # `last` lets this write pass although `closing` is set. Its outcome does not matter: see below.
                # An error is not shown, so `kept` has no text: `str()` is empty.
                self._file.write(work, landed=lambda _db, _: True, kept=str, thread=own[0].thread, last=True)
        except StoreError:
            pass  # the file cannot be written: the leases run out by themselves, and this object commits nothing more
        finally:
            self._live.close()
            self._file.close()
