"""`SqliteStore`: threads in one SQLite file, expressed in the tables of `_schema`.

Connections and transactions are in `_database`, statements in `_reading`, `_writing` and `_query`. No string from a
caller ever becomes part of a statement.

A thread is one line of stored state. Callers know its id; `no` is the number of its row. It has entries, numbered by
`seq` from 1; a record is the stored form of the entries of one commit. Its `head` is a summary. *Staged* bodies are
kept beside the records until a later commit deletes them; a claim's `staged` is the place that the next one gets.

A *claim* is the right to write a thread. Its `epoch` is its number, counted for each thread. Its lease is the time that
it stays valid without renewal. It is void once it was released, its lease ran out, its process died, or the thread got
a newer claim. A thread is *held* while a living owner has a claim on it. A claim is *reserved* in this process until
its first commit stores it: claiming a thread reads only. The row of a thread has the epoch of the newest claim, the end
of its lease, and its owner as JSON. An *owner* is one store object in one process, known by its random `token`;
`Holder` reads that JSON, and finds out whether the process still runs. A thread without entries (`seq` 0) exists only
for an owner that is about to write the first one.

`Database.write` does all writes. The function `work` of a `Write` runs in a transaction that several callers may share,
and may be repeated; `landed` finds out whether it is stored if a COMMIT ended with an unknown outcome.

A *schedule* starts threads at certain times. Its row says when it is due next. If there are several workers, the one
that moves it to the next time starts the thread: the statement changes the row only if it still has the old time. Each
definition of a schedule has a random *version*, so that a worker cannot move one that was replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeGuard, final

from graphrt.errors import StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.stores import BAD_COMMIT
from graphrt.errors._codes.threads import CONFLICT, LOST_LEASE, THREAD_HAS_MOVED, UNKNOWN_THREAD
from graphrt.stores import _checks
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores._memory_items import checked_writes
from graphrt.stores._owners import Holder, now_s
from graphrt.stores.filters import (
    DueFilter,
    Filter,
    FollowerFilter,
    MailFilter,
    MemoryFilter,
    NamespaceFilter,
    QuestionFilter,
    ScheduleFilter,
    ThreadFilter,
    place_of,
)
from graphrt.stores.ids import check_id, tenant_of
from graphrt.stores.sqlite import _memory as memory
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite import _whole_file as whole_file
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.sqlite._database import Database
from graphrt.stores.sqlite._files import resolve
from graphrt.stores.sqlite._group_commit import Write
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.sqlite._live_file import LiveFile
from graphrt.stores.sqlite._query import SQL, due_by_mail, fetched, inbox
from graphrt.stores.sqlite._reading import MESSAGE, SCHEDULE, Row, head, row_of
from graphrt.stores.sqlite._schema import SPAN
from graphrt.stores.sqlite._unchanged import Answers, Unchanged
from graphrt.stores.sqlite._writing import SqliteClaim
from graphrt.stores.values import (
    EVERYTHING,
    Claim,
    Commit,
    Former,
    Head,
    LiveBatch,
    MailMessage,
    MemoryWrite,
    NewBatch,
    Offer,
    OpenQuestion,
    Record,
    StoredSchedule,
    StoredThread,
    StoreFinding,
)
from graphrt.stores.verbs import StoreVerbs

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["SqliteStore"]

_LEAST_LOG_BYTES: Final = 16 * 2**20
"""Smallest `log_limit_bytes`. Unless a reader never ends, a log stays well below this."""
_EXPIRES_NEXT: Final = "SELECT min(expires_at) FROM question WHERE expires_at > ?"
_AT_ONCE: Final = 500
"""Number of due threads that one statement lists, with or without an owner."""

_COLUMNS: Final = "name, graph, version, due_at, body"
_INSERT: Final = f"INSERT INTO schedule({_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT(name) DO NOTHING"  # noqa: S608
_REPLACE: Final = "UPDATE schedule SET graph = ?, version = ?, due_at = ?, body = ? WHERE name = ? AND version = ?"
_MOVE: Final = "UPDATE schedule SET due_at = ? WHERE name = ? AND version = ? AND due_at = ?"
_DELETE: Final = "DELETE FROM schedule WHERE name = ?"
_ONE: Final = "SELECT version, due_at FROM schedule WHERE name = ?"


@final
class SqliteStore(StoreVerbs):
    """A store in one SQLite file, for any number of processes of one machine.

    The first call opens the file. It is created if it is missing, and then only the user who created it may read it. A
    commit is durable when it returns.

    A claim becomes void at once when its process dies or the machine is restarted, and otherwise when its lease runs
    out. Leases are measured by a clock that all processes of the machine share. Between hosts, or containers with
    separate pid namespaces, only leases decide. The file must be on a local disk, because SQLite's locks do not work on
    network file systems.

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
        self._unmoved: Final = Unchanged()
        self._answers: Final = Answers[Row]()

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
            if row is None or not row.seq:  # no entries: its owner died before the first, so it never existed
                if not create:
                    raise UNKNOWN_THREAD(thread=thread)
                new_head = Head(thread, 0, 1, "new", "", at, at, owned=True, tenant=tenant_of(thread))
                return SqliteClaim(new_head, lease_s, 0, self._file.owner.token, 0, former)
            summary = head(row, owned=True)._replace(epoch=row.epoch + 1)
            return SqliteClaim(summary, lease_s, row.no, self._file.owner.token, reading.next_place(db, row), former)

        with self._file.lock:  # no other call may reserve the thread between the read and the assignment
            other = self._reserved.get(thread)
            if other is not None and other.until_s > now_s():
                raise CONFLICT(
                    thread=thread, known=f"claim number {other.epoch}, of this process, which has written nothing yet"
                )
            claim = self._file.read(work, thread)
            self._file.check_writable(thread)
            claim.until_s = now_s() + lease_s
            self._reserved[thread] = claim
        return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. Void claims stay void. See `Store.renew`."""
        own_claims = [claim for claim in claims if self._gave(claim) and claim.is_stored]
        if not own_claims or self._file.closing:
            return

        def work(db: Connection) -> None:
            now = now_s()
            for claim in own_claims:
                writing.renew(db, claim, now)

        # If the outcome is unknown, a failure is reported: a renewal may be repeated, and the next one follows after a
        # third of the lease. The error can name only one thread.
        self._file.write(Write(work, lambda _db, _: False, "the leases were not renewed", own_claims[0].thread))

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

        def landed(db: Connection, _: None) -> bool:
            # Released means: the thread was deleted, is free, or has a newer claim.
            row = reading.row_by_no(db, claim.no)
            return row is None or row.epoch != claim.epoch or row.owner is None

        stored_state = f"thread {claim.thread!r} is still claimed"
        free = partial(writing.free, claim=claim)
        self._file.write(Write(free, landed, stored_state, claim.thread, then=lambda _: self._forget(claim)))

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing; it is durable when this returns. See `Store.commit`."""
        thread = claim.thread
        seq = _checks.check_commit(commit, thread)
        if seq >= SPAN:  # the key of a record is `no * SPAN + seq`
            raise BAD_COMMIT(thread=thread, why=f"entry {seq:,} is beyond the last, {SPAN - 1:,}")
        own = self._own(claim)

        def work(db: Connection) -> int:
            self._advance(db, own, commit, seq)
            return writing.put(db, own, commit)

        # About, without meta and labels: for the estimate of how far the write-ahead log has grown, which decides when
        # a checkpoint runs.
        size = 0
        for record in commit.records:
            size += len(record.body)
        for _, body in (*commit.stage, *commit.blobs.items()):
            size += len(body)
        for _, _, body in commit.posts:
            size += len(body)
        for write in commit.memory:
            size += len(write.body or b"")
        if commit.snapshot is not None:
            size += len(commit.snapshot.body)
        stored_state = f"thread {thread!r} is at entry {commit.expected}; this commit was not stored"
        own.was_tried = True
        self._file.write(
            Write(
                work,
                lambda db, _: writing.landed(db, own, commit, seq),
                stored_state,
                thread,
                then=partial(self._wrote, own, commit),
                size=size,
            )
        )

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
        check_id(thread)
        return self._file.read(lambda db: head(*self._there(db, thread)), thread)

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> StoredThread:
        """Load the thread in its present state, or as it was after the entry *upto*. See `Store.load`."""
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
        requested = list(names)
        return self._file.read(lambda db: reading.blobs(db, thread, requested), thread)

    # Queries.

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Return a page of rows. See `Store.query`."""
        max_rows = -1 if limit is None else limit
        rows: list[Any]
        match wanted:
            case ThreadFilter():
                rows = self._file.read(lambda db: self._threads(db, wanted, after, max_rows))
            case DueFilter():
                rows = self._due(wanted, after, max_rows)
            case QuestionFilter():
                rows = self._file.read(lambda db: self._questions(db, wanted, after, max_rows))
            case MailFilter():
                rows = self._file.read(lambda db: self._mail(db, wanted, after, max_rows), check_id(wanted.thread))
            case MemoryFilter():
                rows = self._file.read(lambda db: memory.listed(db, wanted, max_rows))
            case NamespaceFilter():
                rows = self._file.read(lambda db: memory.namespaces(db, wanted, after, max_rows))
            case FollowerFilter():
                rows = self._live.followed(wanted.threads, after or "", max_rows)
            case _:
                assert isinstance(wanted, ScheduleFilter)  # noqa: S101 - the last kind of filter
                rows = self._file.read(lambda db: self._schedules(db, wanted, after, max_rows))
        return rows

    def _threads(self, db: Connection, wanted: ThreadFilter, after: str | None, max_rows: int) -> list[Head]:
        """Return the heads of the *wanted* threads behind *after*, up to *max_rows* (-1: all).

        Whether a named thread has mail is read again only after the file changed, because every run asks it often.
        """
        last = 2**62 if wanted.newest_first else 0  # beyond every number of a thread
        if after is not None:
            last = self._there(db, check_id(after))[0].no

        def read_rows() -> list[Row]:
            return [row_of(row) for row in fetched(db, SQL.find(wanted), after=last, most=max_rows)]

        if wanted.has_mail and wanted.ids is not None:  # called as often as runs look for mail
            # To copy the filter costs more than an answer that is already known, so runs pass a frozenset.
            by_value = wanted if isinstance(wanted.ids, frozenset) else replace(wanted, ids=frozenset(wanted.ids))
            question = by_value, last, max_rows
            rows = self._answers.rows(self._file.stamp(db), question, 0.0, lambda: (read_rows(), inf))
        else:
            rows = read_rows()
        return [head(row, owned=self._lives(row)) for row in rows]

    def _due(self, wanted: DueFilter, after: str | None, max_rows: int) -> list[Head]:
        """Return due threads without an owner. Pages are read until there are enough of them."""
        graphs = None if wanted.graphs is None else frozenset(wanted.graphs)

        def page(db: Connection, last: tuple[int, int]) -> tuple[list[Head], tuple[int, int] | None]:
            """Return the heads of the free threads of the page after *last* (rank, number), and the next *last*.

            The latter is None after the last page.
            """

            def read() -> tuple[list[Row], float]:
                due_rows = fetched(db, SQL.due(wanted), rank=last[0], after=last[1], now=wanted.now, most=_AT_ONCE)
                next_expiry = db.execute(_EXPIRES_NEXT, (wanted.now,)).fetchall()[0][0]
                return [row_of(row) for row in due_rows], inf if next_expiry is None else next_expiry

            question = graphs, wanted.prefix, last
            rows = self._answers.rows(self._file.stamp(db), question, wanted.now, read)
            free = [head(row, owned=False) for row in rows if not self._lives(row)]
            return free, (rows[-1].rank, rows[-1].no) if len(rows) == _AT_ONCE else None

        def start(db: Connection) -> tuple[int, int]:
            """Return rank and number of the thread *after*."""
            row = self._there(db, check_id(after))[0]
            return row.rank, row.no

        # Without a thread to begin after, it begins before the highest priority.
        last: tuple[int, int] | None = (-(2**40), 0) if after is None else self._file.read(start)
        heads: list[Head] = []
        while last is not None and (max_rows < 0 or len(heads) < max_rows):
            at = last
            page_heads, last = self._file.read(lambda db: page(db, at))  # noqa: B023 - called before it changes
            heads += page_heads
        return heads if max_rows < 0 else heads[:max_rows]

    def _questions(
        self, db: Connection, wanted: QuestionFilter, after: str | None, max_rows: int
    ) -> list[OpenQuestion]:
        if wanted.thread is not None:
            self._there(db, check_id(wanted.thread))  # raises if there is no such thread
        # Without a token, the position before all questions.
        last = Position(float("-inf"), "", "") if after is None else from_token(after)
        page = {"asked_at": last.asked_at, "id": last.thread, "place": last.place, "most": max_rows}
        questions: list[OpenQuestion] = []
        for columns in fetched(db, inbox(db, wanted), **page):
            row = row_of(columns[8:])  # after the eight columns of the question, those of the thread
            question = reading.question_of(row.id, columns[:8])
            token = to_token(Position(question.asked_at, row.id, question.place))
            questions.append(OpenQuestion(head(row, owned=self._lives(row)), question, token))
        return questions

    def _mail(self, db: Connection, wanted: MailFilter, after: str | None, max_rows: int) -> list[MailMessage]:
        self._there(db, wanted.thread)
        rows = fetched(db, SQL.messages(wanted), after=place_of(after), most=max_rows)
        return [MailMessage(*row) for row in MESSAGE.checked(rows)]

    def _schedules(
        self, db: Connection, wanted: ScheduleFilter, after: str | None, max_rows: int
    ) -> list[StoredSchedule]:
        rows = fetched(db, SQL.schedules(wanted), after=after or "", most=max_rows)
        return [StoredSchedule(*row) for row in SCHEDULE.checked(rows)]

    # Mail, schedules and live items.

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a message to *thread* until a commit takes it. Returns False if there was one with this *id* before.

        Raises:
            InputError: There is no such thread, or it has no entries, or it cannot be kept.
        """
        _checks.check_message(check_id(thread), id, body)

        def work(db: Connection) -> tuple[bool, int]:
            """Return whether the message is new, and the number of the thread, which is 0 if there is none."""
            result = writing.post_message(db, thread, id, body)
            if not result[1]:
                raise UNKNOWN_THREAD(thread=thread)
            return result

        # If another caller posted the same message meanwhile, that is as good.
        stored_state = f"the message to thread {thread!r} was not kept"
        return self._file.write(
            Write(
                work,
                lambda db, result: writing.message_is_there(db, result[1], id),
                stored_state,
                thread,
                size=len(body),
            )
        )[0]

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        """Keep *schedule*, in place of the version *replaces*; with None, only if there is none of this name.

        Returns:
            Whether it is kept; False if another version, or none, is stored under its name.
        """
        name, graph, version, due_at, body = schedule
        expected_row = (version, due_at)  # what the row then has; see `_changed`
        if replaces is None:
            return self._changed(_INSERT, schedule, name, lambda row: row == expected_row, size=len(body))
        values = (graph, version, due_at, body, name, replaces)
        return self._changed(_REPLACE, values, name, lambda row: row == expected_row, size=len(body))

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at*.

        Returns:
            Whether this call moved it. Times are in seconds since the epoch.
        """
        return self._changed(_MOVE, (to, name, version, due_at), name, lambda row: row == (version, to))

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none."""
        return self._changed(_DELETE, (name,), name, lambda row: row is None)

    def _changed(self, text: str, values: Any, name: str, is_stored: Callable[[Any], bool], *, size: int = 0) -> bool:
        """Return whether a statement changed a row.

        Args:
            text: The statement, which changes at most one row.
            values: Its parameters.
            name: Name of the schedule.
            is_stored: Returns whether the change is stored, from the row (version, time) or None if there is no row.
                Called if the COMMIT failed and its outcome is unknown.
            size: Bytes that are written, about.
        """

        def work(db: Connection) -> bool:
            return db.execute(text, values).rowcount > 0

        def landed(db: Connection, changed: bool) -> bool:  # noqa: FBT001 - `Write` says so
            # A statement that changed nothing needs no certainty.
            return not changed or is_stored(db.execute(_ONE, (name,)).fetchone())

        # In an error, the schedule takes the place of a thread's id.
        stored_state = f"schedule {name!r} is as it was"
        return self._file.write(Write(work, landed, stored_state, f"of schedule {name}", size=size))

    def write_memory(self, writes: Sequence[MemoryWrite], *, at: float) -> None:
        """Write to the memory, outside of any thread. See `Store.write_memory`."""
        size = sum(len(write.body or b"") for write in checked_writes(writes, at))
        self._file.write(
            Write(
                lambda db: memory.write(db, writes, at),
                lambda db, _: memory.is_written(db, writes, at),
                "the memory is as it was",
                "",
                size=size,
            )
        )

    def purge_memory(self, *, expired_by: float, namespace: str = "") -> int:
        """Delete the items of the memory that have expired by then. See `Store.purge_memory`."""
        bounds = MemoryFilter(now=expired_by, namespace=namespace).bounds
        # If the outcome is unknown, a failure is reported: the call may be repeated.
        stored_state = "no item of the memory was deleted"
        return self._file.write(
            Write(lambda db: memory.purge(db, expired_by, bounds), lambda _db, _: False, stored_state, "")
        )

    def follow_live(self, threads: Iterable[str], *, for_s: float) -> dict[str, int]:
        """Register followers of *threads* for *for_s* seconds; return the places of their newest batches."""
        return self._live.follow([check_id(thread) for thread in threads], for_s)

    def relay(self, batches: Sequence[NewBatch]) -> list[int]:
        """Keep batches of live items in one transaction, and return their places. See `Store.relay`."""
        for batch in batches:
            check_id(batch.thread)
        return self._live.relay(batches)

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after the place *after*, in order."""
        return self._live.after(check_id(thread), after, limit)

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        self._live.forget(threads)

    def news(self, known: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return the threads of *known* that have something new for a reader. See `Store.news`."""

        def moved(db: Connection) -> set[str]:
            return self._unmoved.look(self._file.stamp(db), known, partial(reading.has_moved, db))

        return self._file.read(moved) | self._live.news(known)

    # Whole threads, and the whole file.

    def delete(self, thread: str) -> None:
        """Delete the thread with everything stored of it. See `Store.delete`."""
        check_id(thread)

        def work(db: Connection) -> None:
            row, owned = self._there(db, thread, damaged=True)  # also a damaged thread can be deleted
            if owned:
                self._unheld(row, thread)  # raises, and names the holder
            writing.forget(db, row.no)

        def landed(db: Connection, _: None) -> bool:
            return reading.row_by_id(db, thread, damaged=True) is None

        self._file.write(Write(work, landed, f"thread {thread!r} is still there", thread))
        self._live.forget([thread])

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that have no owner, in one transaction. See `Store.delete_many`.

        Raises:
            StoreError: The row of one of them is damaged, so that its age and owner are not known, or the write failed.
                None was deleted. Only `delete` removes a damaged thread.
        """
        _checks.check_times(updated_before=updated_before)
        ids = [check_id(thread) for thread in threads]

        def work(db: Connection) -> list[Row]:
            """Delete the threads, and return their rows. A thread that mail makes due is not old."""
            # A thread without entries (`seq` 0) does not exist for callers: its owner is about to write the first one.
            rows = [row for thread in ids if (row := reading.row_by_id(db, thread)) is not None and row.seq]
            old_rows = [
                row
                for row in rows
                if updated_before is None or (row.updated_at < updated_before and not due_by_mail(db, row))
            ]
            free_rows = [row for row in old_rows if not self._lives(row)]
            for row in free_rows:
                writing.forget(db, row.no)
            return free_rows

        def landed(db: Connection, rows: list[Row]) -> bool:
            return all(reading.row_by_no(db, row.no) is None for row in rows)

        # An error names no single thread.
        deleted = self._file.write(Write(work, landed, "all of the threads are still there", ""))
        self._live.forget([row.id for row in deleted])
        return [row.id for row in deleted]

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the records up to the entry *upto*, which must have a snapshot. See `Store.prune`.

        Blobs that are not named in *keep_blobs* are deleted too; None keeps all. Returns the number of deleted entries.
        """
        keep = None if keep_blobs is None else set(keep_blobs)
        thread = claim.thread
        own = self._own(claim)
        nothing = Commit(own.head.seq, own.head.updated_at)  # stores the claim, unless it is stored already

        def work(db: Connection) -> tuple[int, int]:
            """Return the number of entries that were deleted, and the oldest one that is left."""
            if not own.is_stored:
                self._take(db, own, nothing, nothing.expected)
            row = self._owned(db, own)
            snapshot_seqs = reading.snapshots(db, row.no)
            if upto not in snapshot_seqs:
                raise _checks.no_snapshot(thread, upto, snapshot_seqs)
            first = writing.prune(db, row, upto, keep)
            return first - row.first, first

        def landed(db: Connection, result: tuple[int, int]) -> bool:
            # A prune that deleted no entry cannot be recognised. It is reported as failed, and may be repeated.
            row = reading.row_by_id(db, thread)
            return result[0] > 0 and row is not None and row.first >= result[1]

        stored_state = f"thread {thread!r} still has all its records"
        own.was_tried = True
        return self._file.write(Write(work, landed, stored_state, thread, then=lambda _: self._stored(own)))[0]

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace records, remove copies of their values, and write *commit*, in one transaction. See `Store.erase`.

        Args:
            claim: The claim on the thread.
            commit: What is written with it.
            records: Records without the erased values, in place of those with the same numbers.
            snapshots_after: Snapshots of later entries are deleted: they may have the values too.
            keep_blobs: Names of the blobs to keep; all others are deleted.
        """
        thread, keep = claim.thread, set(keep_blobs)
        seq = _checks.check_commit(commit, thread)
        replacements = _checks.replaced(records, thread)
        own = self._own(claim)

        def work(db: Connection) -> int:
            self._advance(db, own, commit, seq)
            for record in replacements.values():
                if not writing.replace(db, own.no, record):
                    raise _checks.no_record(thread, record)
            writing.remove_repeated(db, own.no, snapshots_after, keep)
            return writing.put(db, own, commit)

        own.was_tried = True
        self._file.write(
            Write(
                work,
                lambda db, _: writing.landed(db, own, commit, seq),
                f"thread {thread!r} is as it was; nothing was erased",
                thread,
                then=partial(self._wrote, own, commit),
                size=sum(len(record.body) for record in replacements.values()),
            )
        )
        self._live.forget([thread])

    def _scrub(self) -> list[str]:
        """Overwrite freed bytes after an erasure, and return sentences about the remaining copies."""
        return [*whole_file.scrub(self._file), *self._live.scrub()]

    def backup(self, path: str | PathLike[str]) -> str:
        """Copy the whole file to the new file *path*, which appears there when it is complete.

        The copy is from one point in time, even if runs are active in this and other processes. No thread in it has an
        owner. It can be opened like any other file of a store.

        Returns:
            The absolute path of the copy.

        Raises:
            InputError: There is something at *path* already (`path-exists`), or it cannot be the path of a file
                (`bad-path`).
            StoreError: The file cannot be read, or there is no space for the copy.
        """
        return whole_file.backup(self._file, path)

    async def abackup(self, path: str | PathLike[str]) -> str:
        """Copy the whole file. See `backup`."""
        return await self._aside(lambda: self.backup(path))

    def _survey(self) -> Iterator[str | StoreFinding]:
        """Yield the ids of all threads, and findings about the file, for `verify`."""
        return whole_file.survey(self._file)

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the blobs of *thread* that are not in *names*, and so unreferenced, for `verify`."""
        stored_names = self._file.read(lambda db: reading.blob_names(db, self._there(db, thread)[0].no), thread)
        return sorted(set(stored_names).difference(names))

    def close(self) -> None:
        """Release all claims and close the file. May be called again. In a forked child it does nothing."""
        if self._file.home.elsewhere:
            return
        with self._file.lock:
            if self._file.closing:
                return
            self._file.closing = True  # from now on, no other write is accepted
            own_claims = list(self._held.values())
            self._held.clear()
            self._reserved.clear()

        def work(db: Connection) -> None:
            for claim in own_claims:
                writing.free(db, claim)

        try:
            if own_claims:
                # `last` lets this write pass although `closing` is set. Its outcome does not matter: see below. So an
                # error is not shown, and needs no text.
                self._file.write(Write(work, lambda _db, _: True, "", own_claims[0].thread, last=True))
        except StoreError:
            pass  # the file cannot be written: the leases run out by themselves, and this object commits nothing more
        finally:
            self._live.close()
            self._file.close()

    # Claims and their owners. These run inside a transaction of the caller, or under the lock of the file.

    def _there(self, db: Connection, thread: str, *, damaged: bool = False) -> tuple[Row, bool]:
        """Return the thread's row, and whether a living owner holds the thread.

        With *damaged*, the row is returned unchecked, for a caller that only wants to delete the thread.

        Raises:
            InputError: There is no such thread, or it has neither entries nor a living owner.
        """
        row = reading.row_by_id(db, thread, damaged=damaged)
        owned = row is not None and self._lives(row)
        if row is None or not (row.seq or owned):
            raise UNKNOWN_THREAD(thread=thread)
        return row, owned

    def _unheld(self, row: Row | None, thread: str) -> None:
        """Check that no living owner holds the thread of *row*. There may be no row: the thread does not exist.

        Raises:
            ConflictError: One does.
        """
        if row is not None and self._lives(row):
            raise CONFLICT(thread=thread, known=self._holder(row))

    def _lives(self, row: Row) -> bool:
        """Return whether a living owner holds the thread of *row*, which may be damaged. The file's lock is held.

        A claim of this store object counts before it is stored, too.
        """
        reserved = self._reserved.get(row.id)
        return (reserved is not None and reserved.until_s > now_s()) or self._lives_in_file(row)

    def _lives_in_file(self, row: Row) -> bool:
        """Return whether *row* says that a living owner holds its thread."""
        if not isinstance(row.owner, str) or not isinstance(row.lease, (int, float)):
            return False
        holder = Holder.load(row.owner)
        if holder is None:
            return False
        # The owner is this store object: a claim counts only if a caller has it (`_held`), or will get it when the
        # current transaction is committed (`giving`).
        if holder.owner.token == self._file.owner.token:
            held_claim = self._held.get(row.no)
            epoch = self._file.giving.get(row.no) if held_claim is None else held_claim.epoch
            if epoch != row.epoch:
                return False  # the call that made this claim failed, so no caller ever got it
        return holder.lives(row.lease, me=self._file.owner)

    def _former(self, row: Row | None) -> Former:
        """Return how the last owner of the free thread of *row* lost it."""
        if row is None or row.owner is None or row.lease is None:
            return "released"
        holder = Holder.load(row.owner)
        return "lease-expired" if holder is None else holder.lost(row.lease, me=self._file.owner)

    def _holder(self, row: Row) -> str:
        """Describe the holder of the thread, as a clause for an error message."""
        holder = Holder.load(row.owner) if row.owner else None
        if holder is None or row.lease is None:
            return f"its newest claim is number {row.epoch}, which is not held now"
        return f"its newest claim is number {row.epoch}, {holder.describe(row.lease, me=self._file.owner)}"

    def _gave(self, claim: Claim) -> TypeGuard[SqliteClaim]:
        """Return whether *claim* comes from this store object."""
        return isinstance(claim, SqliteClaim) and claim.token == self._file.token

    def _own(self, claim: Claim) -> SqliteClaim:
        """Return *claim*; refuse one of another store object.

        Raises:
            ConflictError: It is (`lost-lease`).
        """
        if isinstance(claim, SqliteClaim) and claim.token == self._file.token:
            return claim
        raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known="it was given by another store object")

    def _advance(self, db: Connection, claim: SqliteClaim, commit: Commit, seq: int) -> None:
        """Begin *commit* under *claim*: set the thread's last entry to *seq*.

        Raises:
            ConflictError: The claim is void, or the thread is at another entry than the commit expects.
        """
        # One UPDATE checks epoch, lease and position, so that a writer that lost its claim stores nothing (R12). Only
        # if it changes no row is the reason looked up: `_owned` raises if the claim is void.
        if not claim.is_stored:
            self._take(db, claim, commit, seq)
        elif not writing.advance(db, claim, commit, seq, now_s()):
            raise THREAD_HAS_MOVED(thread=claim.thread, expected=commit.expected, got=self._owned(db, claim).seq)

    def _owned(self, db: Connection, claim: SqliteClaim) -> Row:
        """Return the row of the thread that *claim* holds.

        Raises:
            ConflictError: *claim* is void; the error says why.
        """
        row = reading.row_by_no(db, claim.no)
        if row is None:
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known="the thread was deleted")
        if row.epoch != claim.epoch or row.lease is None or row.lease <= now_s():
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known=self._holder(row))
        return row

    def _take(self, db: Connection, claim: SqliteClaim, commit: Commit, seq: int) -> None:
        """Store *claim*, which was only reserved, in the transaction of its first commit: the thread is then at *seq*.

        The epoch decides: another claim on the thread would have raised it. What `claim` found of the former owner, a
        release, a dead process or a lease that has run out, stays true until then.

        Raises:
            ConflictError: Another owner was faster, the thread was deleted, or it is at another entry.
        """
        thread, until_s = claim.thread, now_s() + claim.lease_s
        owner = Holder(self._file.owner, claim.lease_s, commit.at, claim.former).dump()
        if claim.head.seq:
            if not writing.take(db, claim, commit, seq, until_s, owner):
                row = reading.row_by_no(db, claim.no)
                if row is not None and row.epoch < claim.epoch:
                    raise THREAD_HAS_MOVED(thread=thread, expected=commit.expected, got=row.seq)
                raise CONFLICT(thread=thread, known="it was deleted meanwhile" if row is None else self._holder(row))
        else:
            row = reading.row_by_id(db, thread)
            if row is not None:
                if row.seq or self._lives_in_file(row):
                    raise CONFLICT(thread=thread, known=self._holder(row))
                writing.forget(db, row.no)
            if commit.expected:
                raise THREAD_HAS_MOVED(thread=thread, expected=commit.expected, got=0)
            claim.no = writing.make(db, claim, commit, seq, until_s, owner)
        self._file.giving[claim.no] = claim.epoch  # another write of this transaction must see the thread as held

    def _wrote(self, claim: SqliteClaim, commit: Commit, place: int) -> None:
        """Record that *commit* is durable; the next body is staged at *place*. The file's lock is held."""
        claim.staged = place
        claim.turn += 1  # the row counts commits too; `writing.landed` compares the two numbers
        if not claim.is_stored:
            self._stored(claim)
        if commit.release:
            self._forget(claim)

    def _stored(self, claim: SqliteClaim) -> None:
        """Record that *claim* is stored; may be called twice. The file's lock is held."""
        claim.is_stored = True
        self._held[claim.no] = claim
        self._reserved.pop(claim.thread, None)

    def _forget(self, claim: SqliteClaim) -> None:
        """Remove a claim that was released, unless a newer claim has replaced it. The file's lock is held."""
        if self._held.get(claim.no) is claim:
            del self._held[claim.no]
        if self._reserved.get(claim.thread) is claim:
            del self._reserved[claim.thread]
