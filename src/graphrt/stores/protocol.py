"""The store protocol: storage of bytes by thread, with atomic commits and a single writer for each thread.

A thread has records, which are numbered and only appended: its journal. Besides these it has snapshots (stored states),
staged bodies (outcomes of tasks whose superstep is not committed yet), blobs (large values), one meta (facts about the
thread as a whole, such as its graph) and one head. A writer claims the thread, and every commit names the claim's epoch
and the entry that it follows. Both are checked inside the transaction: a writer that lost its claim stores nothing.

Beside the journal a store may keep *labels* (by which threads are found), the *inbox* (the open questions of all
threads), *mail* (messages of processes that do not own a thread, R22) and *schedules* (R23). It may also keep *live
items* (what a run shows while its superstep is open, R20) and the *memory* (items by namespace and key, which all
threads share). One method, `query`, lists all of these; `filters` describes the rows. A store leaves the parts that it
does not keep out of `Store.offers`, and the base class refuses them.

A store does not know events, states or graphs: only the journal knows what the bytes mean (decision 0019). Every
store inherits `Store`; `graphrt.testing.conformance` tests whether it keeps the promises. Only the protocol and its
values belong here.
"""

# ruff: noqa: ARG002 - the base class refuses what a store does not offer, whatever the arguments are

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar

import typing_extensions as te

from graphrt.errors import ConflictError, InputError
from graphrt.stores._checks import check_times, page_size
from graphrt.stores.filters import WAITING, Filter, QuestionFilter, ThreadFilter
from graphrt.stores.ids import check_id
from graphrt.stores.values import (
    Claim,
    Commit,
    Head,
    LiveBatch,
    MemoryWrite,
    NewBatch,
    Offer,
    Question,
    Record,
    StoredSchedule,
    StoredThread,
    StoreFinding,
)

__all__ = ["Store"]

R = TypeVar("R")
T = TypeVar("T")

_PAGE: Final = 500
"""Maximum number of threads listed in one call."""
_DOING: Final[Mapping[Offer, str]] = {
    "labels": "keep titles, tags or open questions, or find threads by them",
    "mail": "keep mail of threads that other processes drive",
    "schedules": "keep schedules",
    "live": "carry live items between processes",
    "erasure": "erase values",
    "memory": "keep a memory across threads",
}
"""The operations that a store without the offer cannot perform, for the error."""


class Store(ABC):
    """Storage of threads. Several worker threads may call it at once. If it blocks, no event loop's thread calls it.

    A store implements the abstract methods, and those of what it lists in `offers`. The others raise an InputError
    (`store-lacks`). It is a context manager, sync and async, that closes the store at the end. All methods but `close`
    raise `StoreError` if the disk, the network or the database fails; the error describes the stored data. A failed
    call has no partial effect, and calls work again once the cause is gone.

    | Code | Cause |
    |---|---|
    | `store-busy` | locked by another process for too long |
    | `store-full` | no space left |
    | `store-read-only` | may not be written |
    | `store-unavailable` | cannot be opened, or the connection was lost |
    | `store-damaged` | broken, or not a database of this kind of store |
    | `store-newer` | written by a newer version of graphrt |
    """

    durable: bool
    """Whether commits outlive the process."""
    blocking: bool
    """Whether calls may wait for a disk or a network. If so, asyncio runs make them on worker threads."""
    offers: frozenset[Offer] = frozenset()
    """The kinds of data and operations that it offers beside the journal."""
    tenant: str | None = None
    """The tenant whose threads it has, if it is one tenant's part of a shared store."""
    encrypted: bool = False
    """Whether exports contain plain text of what it keeps encrypted, so that `export_thread` needs `decrypted=True`."""

    @abstractmethod
    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner.

        The first commit under the claim stores it, in the same transaction, so a claim alone writes nothing. Until then
        the thread is held only in this store object: if another object also claims it, the first to commit gets it, and
        the commit of the other raises ConflictError. Nothing that must happen only once may begin before that commit.

        The claim's epoch is one more than that of the previous claim. A thread that is created here has status "new"
        and `seq` 0. A claim becomes void when it is released, when its lease runs out without a commit or `renew`, or
        when its owner is known to be dead. The thread is then free.

        Args:
            thread: The thread's id.
            create: Create the thread if it does not exist.
            lease_s: Seconds that the claim holds after this call, and after each commit or `renew`.
            at: Seconds since the epoch, for `Head.created_at`. Leases are measured by another clock, which all users of
                the store share and which does not jump.

        Raises:
            InputError: There is no such thread and *create* is False (`unknown-thread`).
            ConflictError: A living owner holds it (`conflict`).
        """

    @abstractmethod
    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. Void claims stay void, without an error, and none is stored by this."""

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Release the thread, and delete it if it has no entries. Do nothing if the claim is void."""

    @abstractmethod
    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write *commit* in one transaction, which is durable when this returns.

        Raises:
            ConflictError: The claim is void (`lost-lease`), or the last entry is not `commit.expected` (`conflict`).
            InputError: The parts of *commit* do not fit together, or a body is not `bytes` (`bad-commit`). Nothing was written after either error.
        """

    @abstractmethod
    def head(self, thread: str) -> Head:
        """Return the head of *thread*.

        Raises:
            InputError: There is no such thread.
        """

    def query(self, wanted: Filter[R], *, after: str | None = None, limit: int | None = None) -> list[R]:
        """Return one page of the rows that match *wanted*, in the order that its class describes.

        Args:
            wanted: The kind of rows, and conditions on them: `ThreadFilter`, `QuestionFilter`, `DueFilter`,
                `MailFilter`, `FollowerFilter`, `ScheduleFilter`, `MemoryFilter` or `NamespaceFilter`.
            after: Only rows after this one; the class of *wanted* describes how to name a row. The row itself need not
                match the filter.
            limit: Maximum number of rows. None: no limit.

        Raises:
            InputError: The store does not offer this (`store-lacks`); there is no thread *after*, or no thread
                whose rows are wanted (`unknown-thread`); or an argument is not valid (`input`).
        """
        needs = wanted.needs
        if needs is not None:
            self.require(needs)
        check_times(**wanted.times)
        return self.select(wanted, after=after, limit=page_size(limit))

    @abstractmethod
    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """The implementation of `query`, which has checked the offer, the limit and the times.

        A store that offers nothing gets only `ThreadFilter`s with status, graph, prefix, `updated_before` and ids.
        """

    def require(self, offer: Offer) -> None:
        """Check that the store offers *offer*, for a caller that is about to use it.

        Raises:
            InputError: It does not (`store-lacks`).
        """
        if offer not in self.offers:
            raise self._lack(offer)

    def _lack(self, offer: Offer) -> InputError:
        """Return the error for a store without *offer*."""
        from graphrt.errors._codes.labels import STORE_LACKS  # imported late, because hardly any program needs it

        return STORE_LACKS(doing=_DOING[offer], store=self, offer=offer)

    @abstractmethod
    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> StoredThread:
        """Load the thread in its present state, or in its state after the entry *upto*.

        An *upto* beyond the last entry means the last entry. With *after*, only the remaining records with entries
        after this one are read, and no snapshot: the caller knows the state up to there.

        Raises:
            InputError: There is no such thread.
        """

    @abstractmethod
    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records from entry *after* + 1 to entry *upto*, in order, read page by page.

        A record that lies only partly in this range is included, whole.

        Raises:
            InputError: There is no such thread.
        """

    @abstractmethod
    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist, by name. A thread that does not exist has none."""

    @abstractmethod
    def delete(self, thread: str) -> None:
        """Delete the thread with all its stored data.

        Raises:
            InputError: There is no such thread.
            ConflictError: A living owner holds it.
        """

    @abstractmethod
    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the records whose entries are all numbered *upto* or less, and the snapshots before *upto*.

        There must be a snapshot of exactly *upto*, onto which later entries are folded.

        Args:
            claim: The claim on the thread.
            upto: Number of the last entry that may be deleted.
            keep_blobs: Names of the blobs to keep; all others of the thread are deleted. None: all are kept.

        Returns:
            The number of entries that were deleted.

        Raises:
            ConflictError: The claim is void.
            InputError: There is no snapshot of *upto* (`no-snapshot`).
        """

    @abstractmethod
    def close(self) -> None:
        """Release all claims and resources. May be called again. Claims of this store object are void afterwards."""

    # Methods that a store may lack.

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace records, remove copies of their values, and write *commit*, all in one transaction ("erasure").

        Removals come first, so that *commit* may write a snapshot or a blob in the same place.

        Args:
            claim: The claim on the thread.
            commit: What is written with it; see `commit`.
            records: Stored records, each with the `seq` and `count` that it has, and with another body and seal.
            snapshots_after: Snapshots of entries after this one are deleted.
            keep_blobs: Names of the blobs to keep; all others of the thread are deleted.

        Raises:
            ConflictError, InputError: As `commit`. Also if the thread has no record with the numbers of one of
                *records* (`bad-commit`). Nothing was changed.
        """
        raise self._lack("erasure")

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Store a message to *thread* until a commit takes it (`Commit.taken`). The sender needs no claim ("mail").

        A second message with the same *id* is not kept, even if its content differs. Ids of taken messages are
        remembered as well, at least the last `REMEMBERED`. So a call of unknown outcome may be repeated.

        Args:
            thread: The thread's id.
            id: 1 to 200 characters, without NUL.
            body: Its content.

        Returns:
            Whether the message is kept; False if there was one with this id before.

        Raises:
            InputError: There is no such thread, or it has no entries (`unknown-thread`), or id or body cannot be kept
                (`bad-letter`).
        """
        raise self._lack("mail")

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        """Keep *schedule* ("schedules").

        Args:
            schedule: The new definition.
            replaces: Version of the schedule of this name that it replaces; None if there is none.

        Returns:
            Whether it is kept; False if the store has another version of this name, or none to replace.
        """
        raise self._lack("schedules")

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at* ("schedules").

        Returns:
            Whether this call moved it. If several workers try, only one gets True.
        """
        raise self._lack("schedules")

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none ("schedules")."""
        raise self._lack("schedules")

    def write_memory(self, writes: Sequence[MemoryWrite], *, at: float) -> None:
        """Write to the memory, outside of any thread, in one transaction, which is durable when this returns ("memory").

        Args:
            writes: What is written and deleted. If there are several writes of one item, the last one counts.
            at: Time of the writes in seconds since the epoch.

        Raises:
            InputError: A namespace (`bad-namespace`), key or body (`bad-memory`) cannot be kept. Nothing was written.
        """
        raise self._lack("memory")

    def purge_memory(self, *, expired_by: float, namespace: str = "") -> int:
        """Delete the items of the memory with an `expires_at` up to *expired_by* ("memory").

        Args:
            expired_by: Seconds since the epoch.
            namespace: Only those of this namespace, as in `MemoryFilter`; empty for all.

        Returns:
            The number of items that were deleted.
        """
        raise self._lack("memory")

    # Live items are not part of a thread: a crash loses them, and they are in no copy, export or backup. A batch is
    # deleted after `KEPT_S` seconds, but not while its thread has a follower, or had one within these seconds. Data
    # written by these methods need not be durable, and they do not check whether the thread exists.

    def follow_live(self, threads: Iterable[str], *, for_s: float) -> dict[str, int]:
        """Register that followers of *threads* read live items for the next *for_s* seconds ("live"). Repeat to renew.

        Args:
            threads: Ids of the threads.
            for_s: Seconds, more than 0 and at most `LONGEST_INTEREST_S`.

        Returns:
            The place of the newest batch of each thread, 0 without any: a new follower begins after it. If it is
            smaller than a place read before, the store has restarted its count from zero.
        """
        raise self._lack("live")

    def relay(self, batches: Sequence[NewBatch]) -> list[int]:
        """Keep batches of live items for the followers of their threads, and return their places in order ("live").

        The runs that a process drives hand their batches over together, ten to twenty times a second, so a store should
        keep them with one query or transaction.
        """
        raise self._lack("live")

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return the batches of *thread* after the place *after*, in order, and at most *limit* of them ("live")."""
        raise self._lack("live")

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*, which were deleted or had values erased ("live")."""
        raise self._lack("live")

    # -- for every store ---------------------------------------------------------------------------------------------

    def news(self, known: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return the threads of *known* that have news for a reader, for many threads at once.

        A thread has news if its last entry is not the one that the reader knows, if it has a newer batch of live items,
        or if there is no such thread, or none with entries. A process asks for all its readers together, ten times a
        second or more, so a store should answer with one query, or with none while nothing is written.

        Args:
            known: Maps a thread to the last entry that its reader knows, and the place of the last batch that it has
                read. A reader of entries only passes a place that no batch has.
        """
        threads_with_news: set[str] = set()
        for thread, (seq, place) in known.items():
            try:
                is_new = self.head(thread).seq != seq or not seq
            except InputError:  # it was deleted
                is_new = True
            if is_new or ("live" in self.offers and self.relayed(thread, after=place, limit=1)):
                threads_with_news.add(thread)
        return threads_with_news

    def threads(self) -> Iterator[str]:
        """Yield the ids of all threads with entries, in order of creation, page by page."""
        after: str | None = None
        while True:
            heads = self.query(ThreadFilter(), after=after, limit=_PAGE)
            yield from (head.thread for head in heads)
            if len(heads) < _PAGE:
                return
            after = heads[-1].thread

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*, the oldest first ("labels").

        Raises:
            InputError: There is no such thread, or the store lists no questions.
        """
        return [row.question for row in self.query(QuestionFilter(thread=thread))]

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that exist, have no owner, and were last written before *updated_before*.

        With *updated_before*, a thread is also kept if mail makes it due, since a worker must take that mail, which may
        be newer.

        Stores that support it delete them in one transaction; others, one by one.

        Args:
            threads: Ids of the threads.
            updated_before: Seconds since the epoch. None: regardless of when they were last written.

        Returns:
            The ids of the threads that were deleted.

        Raises:
            InputError: One of *threads* is not a valid id (`bad-thread`). Nothing was deleted.
        """
        check_times(updated_before=updated_before)
        deleted: list[str] = []
        # All ids are checked before the first thread is deleted.
        for thread in [check_id(thread) for thread in threads]:
            with suppress(InputError, ConflictError):  # it does not exist, or is held
                if updated_before is None or self._is_old(thread, updated_before):
                    self.delete(thread)
                    deleted.append(thread)
        return deleted

    def _is_old(self, thread: str, updated_before: float) -> bool:
        """Return whether *thread* was last written before *updated_before*, and no mail makes it due.

        Mail (messages of other processes) may be newer, because it does not change the time of the last commit. In the
        statuses of `WAITING` (running, interrupted, completed) it makes the thread due: a worker is to take it.
        """
        head = self.head(thread)
        if head.updated_at >= updated_before or head.status not in WAITING or "mail" not in self.offers:
            return head.updated_at < updated_before
        return not self.query(ThreadFilter(ids=[thread], has_mail=True))

    def _scrub(self) -> list[str]:
        """Overwrite freed space, and return sentences about the bytes that remain, if any.

        Called after an erasure of values. In-memory stores have nothing to overwrite; a user's durable store may leave
        the old bytes on disk.
        """
        return [f"{type(self).__name__} does not say whether it overwrites what it has freed."] if self.durable else []

    def _survey(self) -> Iterator[str | StoreFinding]:
        """Yield the ids of all threads, and findings about the store itself, for `verify`."""
        yield from self.threads()

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the stored blobs of *thread* that are not in *names*, for `verify`; none if unknown."""
        return []

    def __enter__(self) -> te.Self:
        """Return the open store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    async def __aenter__(self) -> te.Self:
        """Return the open store."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store, on a worker thread if that may block the event loop."""
        if self.blocking:
            await self._aside(self.close)  # SQLite waits for a checkpoint, PostgreSQL for its server
        else:
            self.close()

    async def _aside(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, which runs on a worker thread because files and databases may block."""
        import asyncio

        return await asyncio.to_thread(call)


# fmt: off
OPERATIONS: Final = (
    "claim", "renew", "release", "commit", "head", "query", "load", "records", "blobs", "delete", "delete_many",
    "prune", "close", "erase", "post", "put_schedule", "move_schedule", "delete_schedule", "follow_live", "relay", "relayed", "forget_live",
    "write_memory", "purge_memory", "news",
)
# fmt: on
"""Methods of the protocol that a `FlakyStore` can make fail."""
