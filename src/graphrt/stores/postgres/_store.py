"""`PostgresStore`: threads in a PostgreSQL schema. Each method can be repeated after its connection was lost.

- A *claim* is the right to write a thread. Its number is its *epoch*, `no` that of the thread. It is *void* once it was
  released or its lease, which commits and `renew` restart for `lease_s` seconds, has run out.
- The server's process (*backend*) of one idle connection represents the owner of claims: by its pid, stored with the
  claims, others see that the owner is alive. The *token* of a row is the random number of its last change.
- A *record* has the entries of one commit, *blobs* are large values, and times are in seconds since the epoch. A page
  of a listing begins after the thread `after`. `upto`, and `after` of `records`, are numbers of entries.
- `Calls.call` calls a function `work` with a connection, and with whether an earlier call may have done the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, final

from graphrt._forks import OwnLock
from graphrt.errors import StoreError
from graphrt.errors._codes.threads import CONFLICT, LOST_LEASE, UNKNOWN_THREAD
from graphrt.stores import _checks
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores._memory_items import checked_writes
from graphrt.stores._sql import Statement
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
from graphrt.stores.ids import check_id
from graphrt.stores.postgres import _claims, _memory, _statements, _url
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._claims import PostgresClaim
from graphrt.stores.postgres._commit import Writing
from graphrt.stores.postgres._connection import Link
from graphrt.stores.postgres._driver import Connection, driver
from graphrt.stores.postgres._query import SQL, question_of
from graphrt.stores.postgres._schema import to_bytes, to_text
from graphrt.stores.values import (
    EVERYTHING,
    LONGEST_INTEREST_S,
    Claim,
    Commit,
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

__all__ = ["PostgresStore"]

_LEFT: Final = (
    "PostgreSQL's vacuum frees the space of erased values and does not overwrite it. They also stay in its write-ahead "
    "log until that is recycled, in replicas and in backups. VACUUM FULL rewrites the tables."
)


@final
class PostgresStore(StoreVerbs):
    """A store in a PostgreSQL server (13 or newer), for several machines. Needs the extra `graphrt[postgres]`.

    The first call connects, and creates the tables if there are none. A commit is one round trip and one transaction, and is
    durable when it returns. A server whose settings may lose confirmed commits is refused (`store-unsafe`). If the
    connection is lost during a commit, the store checks whether the commit was stored, and repeats it if it was not.

    Args:
        url: `postgresql://user:password@host/database`, with libpq's options and these: `schema` (default `graphrt`),
            the three numbers below, and `unsafe=true`. The last one is for tests only: it accepts a server without
            `fsync`, `full_page_writes` or `synchronous_commit`.
        pool_size: Maximum number of connections, besides one that represents the owner once a thread was claimed.
        connect_timeout_s: Seconds until a server counts as unreachable.
        busy_timeout_s: Seconds to wait for a free connection, and on the server for a lock.

    Raises:
        InputError: The URL (`unknown-store`), the name of the schema (`input`) or a number is not valid.
        MissingExtraError: psycopg is not installed.
    """

    durable: bool = True
    blocking: bool = True
    offers: frozenset[Offer] = EVERYTHING

    def __init__(
        self, url: str, *, pool_size: int = 8, connect_timeout_s: float = 10.0, busy_timeout_s: float = 30.0
    ) -> None:
        driver()  # raises if psycopg is missing
        address = _url.read(url)
        numbers: dict[str, float] = {
            "pool_size": pool_size,
            "connect_timeout_s": connect_timeout_s,
            "busy_timeout_s": busy_timeout_s,
            **address.numbers,  # options of the URL override the arguments
        }
        for name, value in numbers.items():
            _url.positive(name, value)
        self._link: Final = Link(
            address,
            pool_size=max(1, int(numbers["pool_size"])),  # a number below 1 was accepted above
            connect_timeout_s=numbers["connect_timeout_s"],
            busy_timeout_s=numbers["busy_timeout_s"],
        )
        self._owner: Final = _claims.Owner(self._link)
        self._reserved: Final[dict[str, PostgresClaim]] = {}
        """Claims that are not stored yet, by thread id."""
        self._reserving: Final = OwnLock(self._link.home)
        """Held for the check and update of `_reserved`, so that two callers do not reserve the same thread."""
        self._calls = Calls(self._link)

    def __repr__(self) -> str:
        return f"<PostgresStore of {self._link.address.place}{', closed' if self._link.closed else ''}>"

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner. See `Store.claim`."""
        check_id(thread)

        def work(connection: Connection, _: bool) -> PostgresClaim | None:  # noqa: FBT001 - Calls.call says so
            return _claims.reserve(self._link, self._owner, connection, thread, create=create, lease_s=lease_s, at=at)

        claim = self._calls.call(work, f"claim thread {thread!r}")
        if claim is None:
            raise UNKNOWN_THREAD(thread=thread)
        with self._reserving:
            other = self._reserved.get(thread)
            if other is not None and other.until > time.monotonic():
                raise CONFLICT(
                    thread=thread, known=f"claim number {other.epoch}, of this process, which has written nothing yet"
                )
            claim.until = time.monotonic() + lease_s
            self._reserved[thread] = claim
        return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. See `Store.renew`."""
        renewed = [
            claim
            for claim in claims
            if isinstance(claim, PostgresClaim) and claim.owner is self._owner and claim.is_stored
        ]
        if self._link.closed:
            return  # the claims are void
        self._stay_alive()
        ours = _claims.columns(renewed)
        if ours[0]:  # the numbers of the threads
            self._calls.ask("renew the leases", _statements.RENEW, ours)

    def release(self, claim: Claim) -> None:
        """Release the thread, and delete it if it has no entries. Do nothing if the claim is void."""
        if not isinstance(claim, PostgresClaim) or claim.owner is not self._owner or self._link.closed:
            return
        if not claim.is_stored:
            if claim.tokens:  # a commit was attempted, and may have stored it
                values = [claim.thread, list(claim.tokens)]
                self._calls.ask(f"release thread {claim.thread!r}", _statements.RELEASE_DOUBTFUL, values)
        elif self._owner.claims.get(claim.no) is claim:  # otherwise it was already released
            self._calls.call(
                lambda connection, _: _claims.free(self._link, connection, claim), f"release thread {claim.thread!r}"
            )
        self._forget(claim)

    def _forget(self, claim: PostgresClaim) -> None:
        """Remove a released claim from those of the owner."""
        if self._owner.claims.get(claim.no) is claim:
            del self._owner.claims[claim.no]
        if self._reserved.get(claim.thread) is claim:
            del self._reserved[claim.thread]

    def _stay_alive(self) -> None:
        """After a reconnect, store the new backend's pid with our claims; other processes check it."""
        if not self._owner.claims:
            return
        identity = self._owner.moved()
        if identity is None:
            return
        numbers, epochs, _ = _claims.columns(list(self._owner.claims.values()))  # the leases stay as they are
        values = [*identity, numbers, epochs]
        with suppress(StoreError):  # the caller's own statement will report the error, and the next call retries this
            self._calls.ask("keep the claims", _statements.REHOUSE, values)
            self._owner.has_moved(identity)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing; it is durable when this returns. See `Store.commit`."""
        thread = claim.thread
        writing = Writing(self._link, commit, self._own(claim), self._calls.token())
        unknown = f"Thread {thread!r} was at entry {commit.expected}; whether this commit follows it is not known."
        nothing = f"Nothing of this commit to thread {thread!r} was stored."
        self._written(writing, writing.run, f"commit to thread {thread!r}", nothing, unknown)

    def _written(
        self, writing: Writing, work: Callable[[Connection, bool], None], doing: str, stored_state: str, unknown: str
    ) -> None:
        """Call *work*, which writes a commit; the texts are for an error, as in `Calls.call`."""
        claim = writing.claim
        self._stay_alive()
        try:
            self._calls.call(work, doing, kept=stored_state, unknown=unknown)
        except StoreError as error:
            # If the outcome is unknown, the next commit must first look for this one. The claim may be stored, so the
            # next call for this thread takes it over.
            claim.unsure = error.known == unknown
            if claim.unsure and not claim.is_stored:
                self._owner.doubtful.setdefault(claim.thread, set()).update(claim.tokens)
            if not claim.unsure:  # nothing was stored, so nothing has to be released
                claim.tokens.discard(writing.token)
            raise
        claim.unsure = False
        writing.stored()
        if self._reserved.get(claim.thread) is claim:
            del self._reserved[claim.thread]
        if writing.commit.release:
            self._forget(claim)

    def _store_claim(self, claim: PostgresClaim) -> None:
        """Store *claim* by an empty commit, unless it is already stored, before a call that needs the thread's row."""
        if not claim.is_stored:
            self.commit(claim, Commit(claim.head.seq, claim.head.updated_at))

    def _own(self, claim: Claim) -> PostgresClaim:
        """Return *claim*; refuse one from another store object, or from the parent in a forked child (`lost-lease`)."""
        if isinstance(claim, PostgresClaim) and claim.owner is self._owner:
            return claim
        raise LOST_LEASE(
            thread=claim.thread, epoch=claim.epoch, known="it was given by another store, or to another process"
        )

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
        return self._head(thread)[0]

    def _head(self, thread: str) -> tuple[Head, int]:
        """Return the head and the number of *thread*; a thread without entries and owner counts as unknown."""
        check_id(thread)
        row = self._calls.ask(f"read thread {thread!r}", _statements.HEAD, [thread]).fetchone()
        head = None if row is None else _statements.to_head(thread, row[1:12])  # columns: id, 11 of the head, number
        if row is None or head is None or not (head.seq or head.owned):
            raise UNKNOWN_THREAD(thread=thread)
        return head, row[12]

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> StoredThread:
        """Load the thread in its present state, or as it was after the entry *upto*. See `Store.load`."""
        check_id(thread)
        text = _statements.load_text(upto=upto is not None, after=after > 0)
        values = {"id": thread, "upto": upto, "after": after}
        rows = self._calls.ask(f"load thread {thread!r}", text, values).fetchall()
        loaded = _statements.to_loaded(thread, rows)
        if loaded is None or not (loaded.head.seq or loaded.head.owned):
            raise UNKNOWN_THREAD(thread=thread)
        return loaded

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records of *thread*, in order, read page by page. See `Store.records`."""
        return self._records(thread, self._head(thread)[1], after, upto)

    def _records(self, thread: str, no: int, after: int, upto: int | None) -> Iterator[Record]:
        """Yield the records of `records`; *no* was looked up there, so that an unknown thread raises at once."""
        while True:
            page = self._calls.ask(f"read records of thread {thread!r}", _statements.PAGE, [no, after]).fetchall()
            for record in map(Record._make, page):
                if upto is not None and record.seq - record.count >= upto:  # all of its entries are after *upto*
                    return
                yield record
                after = record.seq
            if not page:
                return

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist. See `Store.blobs`."""
        check_id(thread)
        encoded_names = [to_bytes(name) for name in names]
        rows = self._calls.ask(
            f"read blobs of thread {thread!r}", _statements.BLOBS, [thread, encoded_names]
        ).fetchall()
        return {to_text(name): body for name, body in rows}

    # Queries.

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Return a page of rows. See `Store.query`."""
        result: list[Any]
        match wanted:
            case ThreadFilter():
                last = 2**62 if wanted.newest_first else 0  # numbers that come before all threads in the order
                if after is not None:
                    last = self._head(after)[1]
                rows = self._fetched("find threads", SQL.find(wanted), after=last, most=limit)
                result = [_statements.to_head(row[0], row[1:]) for row in rows]
            case DueFilter():
                rank, last = -(2**31), 0  # before all threads: the smallest number of the column's type
                if after is not None:
                    head, last = self._head(after)
                    rank = -head.priority
                page = {"rank": rank, "after": last, "now": wanted.now, "most": limit}
                rows = self._fetched("list the threads that are due", SQL.due(wanted), **page)
                result = [_statements.to_head(row[0], row[1:]) for row in rows]
            case QuestionFilter():
                result = self._questions(wanted, after, limit)
            case MailFilter():
                self._head(wanted.thread)  # raises if there is no such thread
                page = {"after": place_of(after), "most": limit}
                rows = self._fetched(f"read mail of thread {wanted.thread!r}", SQL.messages(wanted), **page)
                result = [MailMessage(place, to_text(name), body) for place, name, body in rows]
            case MemoryFilter():
                result = _memory.listed(self._calls, wanted, limit)
            case NamespaceFilter():
                result = _memory.namespaces(self._calls, wanted, after, limit)
            case FollowerFilter():
                values = {"threads": [*wanted.threads], "after": after or "", "most": limit}
                result = [row[0] for row in self._calls.ask("look for followers", _statements.FOLLOWED, values)]
            case _:
                assert isinstance(wanted, ScheduleFilter)  # noqa: S101 - the last kind of filter
                rows = self._fetched("list schedules", SQL.schedules(wanted), after=after or "", most=limit)
                result = [StoredSchedule(name, to_text(graph), *rest) for name, graph, *rest in rows]
        return result

    def _questions(self, wanted: QuestionFilter, after: str | None, limit: int | None) -> list[OpenQuestion]:
        if wanted.thread is not None:
            self._head(check_id(wanted.thread))  # raises if there is no such thread
        last = Position(float("-inf"), "", "") if after is None else from_token(after)  # the first is before all others
        page = {"asked_at": last.asked_at, "id": last.thread, "place": to_bytes(last.place), "most": limit}
        questions: list[OpenQuestion] = []
        for row in self._fetched("list open questions", SQL.inbox(wanted), **page):
            question = question_of(row[:8])  # the columns of the question; those of the head follow, with the id first
            head = _statements.to_head(row[8], tuple(row[9:]))
            token = to_token(Position(question.asked_at, head.thread, question.place))
            questions.append(OpenQuestion(head, question, token))
        return questions

    def _fetched(self, doing: str, statement: Statement | None, **page: Any) -> list[tuple[Any, ...]]:
        """Return the rows of *statement* with the parameters of its page; none if it is None: no row can match."""
        return [] if statement is None else self._calls.ask(doing, statement.text, statement.values | page).fetchall()

    # Mail, schedules and live items.

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a message to *thread* until a commit takes it; return False if its *id* came before.

        Also returns False if the message was stored, the connection was then lost, and a commit took the message before
        the repetition. A taken message has no body left by which it could be recognised.
        """
        _checks.check_message(check_id(thread), id, body)
        name = to_bytes(id)

        def work(connection: Connection, again: bool) -> bool | None:  # noqa: FBT001 - Calls.call says so
            """Insert the message. Returns None if there is no such thread; *again* after a lost connection."""
            if self._calls.run(connection, _statements.POST, [name, body, thread]).rowcount:
                return True
            row = self._calls.run(connection, _statements.FIND_MESSAGE, [thread, name]).fetchone()
            if row is None:  # no message with this id: there is no such thread, or it has no entries
                return None
            return again and row[0] == body  # it may be our own, sent before the connection was lost

        is_new = self._calls.call(
            work,
            f"post a message to thread {thread!r}",
            kept="It was not kept.",
            unknown="Whether it was kept is not known: post it again under the same id.",
        )
        if is_new is None:
            raise UNKNOWN_THREAD(thread=thread)
        return is_new

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        """Keep *schedule*; return False if the store has a different version from *replaces*.

        With *replaces* None, the schedule is new: then False means that the store has one of this name.
        """
        name, graph, version, due_at, body = schedule
        if replaces is None:
            return self._changed(
                _statements.INSERT_SCHEDULE, [name, to_bytes(graph), version, due_at, body], schedule.name
            )
        return self._changed(
            _statements.REPLACE_SCHEDULE, [to_bytes(graph), version, due_at, body, name, replaces], schedule.name
        )

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Move a schedule from *due_at* to *to*; return False if version or time differ."""
        return self._changed(_statements.MOVE_SCHEDULE, [to, name, version, due_at], name)

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule; return False if there was none."""
        return self._changed(_statements.DELETE_SCHEDULE, [name], name)

    def _changed(self, text: str, values: list[Any], name: str) -> bool:
        """Run the statement *text*, which changes the schedule *name*; return whether it changed a row."""

        def work(connection: Connection, _: bool) -> bool:  # noqa: FBT001 - Calls.call says so
            """Run the statement once; the second argument, whether this is a retry, is ignored."""
            return self._calls.run(connection, text, values).rowcount > 0

        # A retry after a lost connection may find its own change, and then reports that another process was faster.
        # Callers then read the schedule again.
        return self._calls.call(work, f"write schedule {name!r}", unknown="List the schedules to see whether it was.")

    def write_memory(self, writes: Sequence[MemoryWrite], *, at: float) -> None:
        """Write to the memory, outside of any thread. See `Store.write_memory`."""
        _memory.write(self._calls, checked_writes(writes, at), at)

    def purge_memory(self, *, expired_by: float, namespace: str = "") -> int:
        """Delete expired items of the memory. See `Store.purge_memory`."""
        values = [expired_by, *MemoryFilter(now=expired_by, namespace=namespace).bounds]
        return int(self._calls.ask("purge the memory", _memory.PURGE, values).rowcount)

    def follow_live(self, threads: Iterable[str], *, for_s: float) -> dict[str, int]:
        """Register interest in *threads* for *for_s* seconds, at most 60; return the places of their newest batches."""
        values = {"threads": [*{check_id(thread) for thread in threads}], "for_s": min(for_s, LONGEST_INTEREST_S)}
        return dict(self._calls.ask("follow threads", _statements.FOLLOW, values).fetchall())

    def relay(self, batches: Sequence[NewBatch]) -> list[int]:
        """Keep batches of live items by one statement, and return their places. See `Store.relay`."""
        # After a lost connection a batch may be there twice. Followers skip items whose numbers they have read.
        values = {
            "threads": [check_id(batch.thread) for batch in batches],
            "ids": [to_bytes(batch.id) for batch in batches],
            "bodies": [batch.body for batch in batches],
            "forgets": [batch.forget for batch in batches],
        }
        rows = self._calls.ask("show live items", _statements.RELAY, values).fetchall() if batches else []
        return [int(place) for (place,) in rows]

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after the place *after*."""
        values = [check_id(thread), after, limit]
        rows = self._calls.ask(f"read live items of thread {thread!r}", _statements.RELAYED, values)
        return [LiveBatch(place, to_text(name), body) for place, name, body in rows]

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        self._calls.ask("forget live items", _statements.FORGET_LIVE, [[*threads]])

    def news(self, known: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return the threads of *known* that have something new for a reader. See `Store.news`."""
        rows = [(check_id(thread), *at) for thread, at in known.items()]
        columns = [[*column] for column in zip(*rows, strict=True)]
        moved = self._calls.ask("look for news", _statements.NEWS, columns).fetchall() if rows else []
        return {thread for (thread,) in moved}

    # Whole threads.

    def delete(self, thread: str) -> None:
        """Delete the thread with all its stored data. See `Store.delete`."""
        check_id(thread)

        def work(connection: Connection, again: bool) -> bool:  # noqa: FBT001
            with connection.transaction():
                row = self._calls.run(connection, _statements.LOCK, [thread]).fetchone()
                if row is None:
                    return again  # in a retry: deleted before the connection was lost
                # The server caches its list of backends at the first look in a transaction. Drop it, so that `seen`
                # looks after the lock, for which this may have waited.
                connection.execute(_statements.LOOK_AGAIN.encode())
                seen = _claims.seen(self._calls, connection, row[0])
                if seen is not None and seen.lives:
                    raise CONFLICT(thread=thread, known=_claims.describe_claim(seen.holder, seen.since, seen.left_s))
                self._calls.run(connection, _statements.FORGET, {"no": row[0]})
                return seen is not None and seen.seq > 0  # a thread without entries counts as never created

        if not self._calls.call(work, f"delete thread {thread!r}"):
            raise UNKNOWN_THREAD(thread=thread)
        self.forget_live([thread])

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that have no owner, in one transaction. See `Store.delete_many`."""
        _checks.check_times(updated_before=updated_before)
        ids = [check_id(thread) for thread in threads]
        values = {"ids": ids, "before": updated_before}
        deleted: list[str] = []

        def work(connection: Connection, again: bool) -> None:  # noqa: FBT001
            with connection.transaction():
                present = {id_ for (id_,) in self._calls.run(connection, _statements.LOCK_MANY, [ids])}
                # In a retry, the missing threads were deleted by the first attempt.
                deleted_before = [thread_id for thread_id in deleted if thread_id not in present] if again else []
                connection.execute(_statements.LOOK_AGAIN.encode())  # as in `delete`
                free = self._calls.run(connection, _statements.FREE_OF, values).fetchall()  # (number, id)
                for no, _ in free:
                    self._calls.run(connection, _statements.FORGET, {"no": no})
                deleted[:] = [*deleted_before, *(id_ for _, id_ in free)]

        self._calls.call(work, "delete threads")
        self.forget_live(deleted)
        return deleted

    def _lock(self, connection: Connection, claim: PostgresClaim) -> int:
        """Lock the thread's row, which keeps other commits out, and return the number of its oldest entry.

        Raises:
            ConflictError: The claim is void (`lost-lease`).
        """
        row = self._calls.run(connection, _statements.LOCK_CLAIM, [claim.no, claim.epoch]).fetchone()
        if row is None:
            reason = "it was released, its lease ran out, or it was taken over"
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known=reason)
        return int(row[0])

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the entries up to *upto*, which has a snapshot, and all blobs but *keep_blobs*. See `Store.prune`."""
        claim = self._own(claim)
        self._store_claim(claim)
        thread = claim.thread
        keep = None if keep_blobs is None else [to_bytes(name) for name in keep_blobs]
        values = {"no": claim.no, "upto": upto, "keep": keep}
        first_seqs: list[int] = []

        def work(connection: Connection, _: bool) -> int:  # noqa: FBT001
            with connection.transaction():
                first_seqs.append(self._lock(connection, claim))
                snapshot_seqs = [seq for (seq,) in self._calls.run(connection, _statements.SNAPSHOTS, [claim.no])]
                if upto not in snapshot_seqs:
                    raise _checks.no_snapshot(thread, upto, snapshot_seqs)
                pruned = self._calls.run(connection, _statements.PRUNE, values).fetchall()
                return int(pruned[0][0]) - first_seqs[0]  # counted from the `first` that the first attempt found

        return self._calls.call(work, f"prune thread {thread!r}")

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace *records*, delete snapshots after *snapshots_after* and blobs but *keep_blobs*, write *commit*."""
        own, thread = self._own(claim), claim.thread
        self._store_claim(own)
        writing = Writing(self._link, commit, own, self._calls.token())
        replacements = _checks.replaced(records, thread)
        removal = {"no": own.no, "after": snapshots_after, "keep": [to_bytes(name) for name in keep_blobs]}

        def work(connection: Connection, again: bool) -> None:  # noqa: FBT001
            if (again or own.unsure) and writing.landed(connection):
                return
            with connection.transaction():
                self._lock(connection, own)
                for record in replacements.values():
                    values = [record.body, record.seal, own.no, record.seq, record.count]
                    if self._calls.run(connection, _statements.REPLACE_RECORD, values).rowcount != 1:
                        raise _checks.no_record(thread, record)
                # Removed first, so that the commit may write a snapshot or a blob in place of a removed one.
                self._calls.run(connection, _statements.REMOVE_REPEATED, removal)
                writing.write(connection)

        unknown = f"Whether values of thread {thread!r} were erased is not known."
        self._written(writing, work, f"erase values of thread {thread!r}", "Nothing was erased.", unknown)
        self.forget_live([thread])

    def _scrub(self) -> list[str]:
        """Vacuum the tables that had erased values, and return sentences about the remaining bytes."""

        def work(connection: Connection, _: bool) -> None:  # noqa: FBT001
            for table in (
                "record",
                "staged",
                "snapshot",
                "blob",
                "memory",
                "live_batch",
            ):  # not in a transaction, where VACUUM cannot run
                self._calls.run(connection, "VACUUM {s}." + table)

        self._calls.call(work, "vacuum the tables")
        return [_LEFT]

    def _survey(self) -> Iterator[str | StoreFinding]:
        """Yield the ids of all threads, and findings about rows without a thread, for `verify`."""
        yield from super()._survey()
        for kind, numbers in self._calls.ask("look for strays", _statements.STRAYS):  # "records", "17, 18" and so on
            yield StoreFinding(
                None, "waste", "orphan", f"There are {kind} of threads that are not there: number {numbers}."
            )

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the thread's blobs that are not in *names*, and so unreferenced, for `verify`."""
        rows = self._calls.ask(f"list blobs of thread {thread!r}", _statements.BLOB_NAMES, [thread]).fetchall()
        return sorted({to_text(name) for (name,) in rows}.difference(names))

    def close(self) -> None:
        """Release all claims and close the connections. May be called again. In a forked child it does nothing."""
        if self._link.closed or self._link.home.elsewhere:
            return
        ours = list(self._owner.claims.values())
        try:
            if ours:
                self._calls.call(lambda connection, _: self._free_all(connection, ours), "give the claims back")
        except StoreError:
            pass  # our backend ends now, or the server is gone; either way the claims become void
        finally:
            self._owner.close()
            self._link.close()

    def _free_all(self, connection: Connection, ours: list[PostgresClaim]) -> None:
        """Release all claims when the store is closed. Releasing one twice is harmless."""
        for claim in ours:
            _claims.free(self._link, connection, claim)
            self._forget(claim)
