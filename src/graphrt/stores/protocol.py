"""The store protocol: storage of bytes by thread, with atomic commits and a single writer for each thread.

A thread has records, which are numbered and only appended: its journal. Besides these it has snapshots (stored states),
staged bodies (outcomes of tasks whose superstep is not committed yet), blobs (large values), one meta (facts about the
thread as a whole, such as its graph) and one head. A writer claims the thread, and every commit names the claim's epoch
and the entry that it follows. Both are checked inside the transaction: a writer that lost its claim stores nothing.

A store knows nothing of events, states or graphs: only the journal knows what the bytes mean (decision 0019). Any
class with the methods of `Store` is a store; `graphrt.testing.conformance` tests whether it keeps the promises. Only
the protocol and its values belong here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import typing_extensions as te

from graphrt.events.status import Status

__all__ = ["Claim", "Commit", "Erasable", "Head", "Labels", "Loaded", "Question", "Record", "Saved", "Status", "Store"]


class Record(NamedTuple):
    """The journal entries of one commit, stored as one unit."""

    seq: int
    """Number of its last entry. The entries of a thread are numbered from 1, without gaps."""
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    """Number of its entries, 1 or more. `seq - count + 1` is the number of the first."""
    body: bytes
    """The entries, in the form that the journal chose."""
    seal: bytes = b""
    """Hash of the previous seal, by which changes are found, and salts; empty if the journal is not chained."""


class Saved(NamedTuple):
    """A stored snapshot: the state after the entry `seq`, kept as a cache of the fold."""

    seq: int
    """Number of the last entry that the state contains."""
    body: bytes


class Head(NamedTuple):
    """Summary of a thread: its position, its status and its owner."""

    thread: str
    """The thread's id."""
    seq: int
    """Number of the last entry; 0 before the first."""
    epoch: int
    """Number of claims so far. A commit under an older epoch is refused."""
    status: Status
    graph: str
    """Name of the graph, for listings."""
    created_at: float
    """Time of creation in seconds since the epoch, by the clock of the process that created the thread."""
    updated_at: float
    """Time of the last commit in seconds since the epoch; `created_at` before the first."""
    owned: bool
    """Whether a living owner holds the thread now."""
    first: int = 1
    """Number of the oldest entry that is still stored; greater than 1 after a prune."""
    tenant: str | None = None
    """The tenant whose thread it is; None without one."""
    title: str | None = None
    tags: frozenset[str] = frozenset()
    priority: int = 0
    """Of the threads that have work to do, workers drive those with the highest number first."""


class Labels(NamedTuple):
    """What a thread is found by, besides its id and its tenant, which is part of the id (`ids.tenant_of`)."""

    title: str | None = None
    tags: frozenset[str] = frozenset()
    priority: int = 0


class Question(NamedTuple):
    """An open question of a thread, as the inbox lists it."""

    place: str
    """Its id without the thread: `task#key`. A copy of the thread has it too."""
    kind: str
    node: str
    graph: str
    """Name of the graph that asked."""
    asked_at: float
    """Seconds since the epoch. A store keeps the time under which it listed the question first."""
    expires_at: float | None
    """Seconds since the epoch after which no answer is accepted; None if it does not expire."""
    stale: bool
    """Whether the state was edited after it was asked."""
    body: bytes
    """What is shown to the person who answers, and the type of the answer, in the form that the journal chose."""


Former: TypeAlias = Literal["released", "dead", "lease-expired"]
"""How a thread was lost by its owner: it was released; the owner is known to be dead; or only its lease ran out, so that
the owner may still be at work. The last holds on for later claims, until one of them is released."""


class Claim:
    """The right to write a thread, until it is released, its lease runs out, or its owner is known to be dead."""

    __slots__ = ("epoch", "former", "head", "lease_s", "thread")

    def __init__(self, head: Head, lease_s: float, former: Former = "released") -> None:
        self.thread: str = head.thread
        self.epoch: int = head.epoch
        self.head: Head = head
        """The thread's head at the time of the claim."""
        self.lease_s: float = lease_s
        """Seconds that the lease lasts after the claim, and after each commit or `renew`."""
        self.former: Former = former
        """How the owner before lost the thread."""


class Commit(NamedTuple):
    """Everything that one transaction writes, all of it or nothing. It takes effect in the order of the fields."""

    expected: int
    """Number that the thread's last entry must have; otherwise the commit is refused as a conflict."""
    at: float
    """Time of the commit in seconds since the epoch; becomes `Head.updated_at`."""
    records: Sequence[Record] = ()
    """0..n records to append, in order, without a gap after `expected`."""
    unstage: bool = False
    """Delete all bodies that were staged before."""
    stage: Sequence[tuple[str, bytes]] = ()
    """0..n pairs (key, body) to keep until the next `unstage`. A body staged earlier under the same key is replaced."""
    snapshot: Saved | None = None
    """A snapshot to keep, of the last entry or an older one. It replaces one of the same entry."""
    blobs: Mapping[str, bytes] = {}
    """Large values, by a name derived from their content. A blob that exists is kept as it is."""
    meta: bytes | None = None
    """New meta of the thread. None leaves it unchanged."""
    status: Status | None = None
    """New status. None leaves it unchanged."""
    graph: str | None = None
    """New name of the graph. None leaves it unchanged."""
    release: bool = False
    """Release the claim in the same transaction."""
    labels: Labels | None = None
    """New labels of the thread. None leaves them unchanged. Stores that are not `Findable` ignore them."""
    questions: Sequence[Question] | None = None
    """All open questions of the thread, in place of those that are listed. None leaves them unchanged. Of one that is
    listed already, `asked_at` stays as it is."""
    taken: Sequence[int] = ()
    """Places of letters to delete, of a store that is `Postable`. Places without a letter are ignored."""
    posts: Sequence[tuple[str, str, bytes]] = ()
    """0..n letters to other threads, as (thread, id, body), of a store that is `Postable`; see its `post`. Letters to
    threads that do not exist, or have no entries, are dropped."""


class Loaded(NamedTuple):
    """A thread, read at one moment: no part is newer or older than the others."""

    head: Head
    """The head as it is now, even if an older state was requested; so is `meta`."""
    meta: bytes | None
    """None if no commit ever set it."""
    snapshot: Saved | None
    """The newest snapshot that is not after the requested entry, or None."""
    records: Sequence[Record]
    """All records with entries after the snapshot, in order. The last one may go beyond the requested entry."""
    staged: Sequence[tuple[str, bytes]]
    """(key, body), in the order in which the keys were first staged. Empty if an older state was requested."""


@runtime_checkable
class Store(Protocol):
    """Storage of threads. Several worker threads may call it at once. If it blocks, no event loop's thread calls it.

    As a context manager, sync or async, it closes at the end. All methods but `close` raise `StoreError` if the disk,
    the network or the database fails; the error says what is stored. A failed call leaves nothing half done, and the
    next call works once the cause is gone.

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

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner.

        The claim's epoch is one more than that of the claim before. A thread that is created here has status "new" and
        `seq` 0. A claim becomes void when it is released, when its lease runs out without a commit or `renew`, or when
        its owner is known to be dead. The thread is then free.

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
        ...

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. Void claims stay void, without an error."""
        ...

    def release(self, claim: Claim) -> None:
        """Release the thread, and delete it if it has no entries. Do nothing if the claim is void."""
        ...

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write *commit* in one transaction, which is durable when this returns.

        Raises:
            ConflictError: The claim is void (`lost-lease`), or the last entry is not `commit.expected` (`conflict`).
            InputError: The parts of *commit* do not fit together, or a body is not `bytes` (`bad-commit`). Nothing was written after either error.
        """
        ...

    def head(self, thread: str) -> Head:
        """Return the head of *thread*.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def heads(
        self,
        *,
        status: Status | None = None,
        graph: str | None = None,
        prefix: str | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Return the heads of the threads with at least one entry that match all filters, in order of creation.

        A completed thread with a letter that begins another run (`stores.mail.BEGINS`) is listed as running.

        Args:
            status: Only threads that are listed with this status.
            graph: Only threads of the graph with exactly this name.
            prefix: Only threads whose id begins with this text, compared character by character.
            updated_before: Only threads whose last commit is older than this time, in seconds since the epoch.
            after: Only threads that were created after this one, for paging. It need not match the other filters.
            limit: Maximum number of heads. None: no limit.

        Raises:
            InputError: There is no thread *after*, or *limit* is not a number of threads (`input`).
        """
        ...

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*.

        An *upto* beyond the last entry gives what there is. With *after*, no snapshot is read, and only the records that
        are left with entries after this one: the caller knows the state up to there.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records from entry *after* + 1 to entry *upto*, in order, read page by page.

        A record that lies only partly in this range is included, whole.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist, by name. A thread that does not exist has none."""
        ...

    def delete(self, thread: str) -> None:
        """Delete the thread with everything stored of it.

        Raises:
            InputError: There is no such thread.
            ConflictError: A living owner holds it.
        """
        ...

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
        ...

    def close(self) -> None:
        """Release all claims and resources. May be called again. Claims of this store object are void afterwards."""
        ...

    def __enter__(self) -> te.Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    async def __aenter__(self) -> te.Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Erasable(Store, Protocol):
    """A store that can erase values. Without this method a store keeps threads, and `Runtime.erase` is refused."""

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace records, remove what repeats them, and write *commit*, all in one transaction.

        What is removed comes first, so that *commit* may write a snapshot or a blob in its place.

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
        ...


# fmt: off
METHODS: Final = (
    "claim", "renew", "release", "commit", "head", "heads", "load", "records", "blobs", "delete", "prune",
    "close",
)
# fmt: on
"""Methods that an object must have to be accepted as a store."""
SCHEDULING: Final = ("put_schedule", "move_schedule", "schedules", "delete_schedule")  # of `schedules.Schedulable`
OPERATIONS: Final = (*METHODS, "erase", "post", "mail", "mailed", "due", *SCHEDULING)
"""Methods that the test store `FlakyStore` can make fail, optional ones included."""


def erasable(store: Store) -> Erasable:
    """Return *store* as an `Erasable`, for a caller that is about to erase values.

    Raises:
        InputError: It has no method for that (`store-lacks`).
    """
    if isinstance(store, Erasable):
        return store
    from graphrt.errors._codes.labels import STORE_LACKS  # imported late: hardly any program erases

    raise STORE_LACKS(doing="erase values", store=store, protocol="Erasable", methods=("erase",))
