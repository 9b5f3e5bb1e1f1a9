"""What a store is: a keeper of bytes, with one atomic commit and one writer for each thread.

Values and the protocol only. A store knows nothing of events, states or graphs: what the bytes mean is the journal's.
Any class with these methods is a store; `graphrt.testing.conformance` says whether it keeps its word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import typing_extensions as te

from graphrt.events.status import Status

__all__ = ["Claim", "Commit", "Head", "Loaded", "Record", "Saved", "Status", "Store"]


Payload: TypeAlias = Any
"""`bytes` where the store is durable. A store that is not (`durable` is False) may be given any object, which it keeps
by reference and gives back as it is."""


class Record(NamedTuple):
    """The journal entries of one commit, as one unit."""

    seq: int
    """Number of its last entry. A thread's entries are numbered from 1, without gaps."""
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    """How many entries it holds, 1 or more: `seq - count + 1` is the first."""
    body: Payload
    seal: bytes = b""
    """Chain header and salts; empty where the journal is not chained."""


class Saved(NamedTuple):
    """A stored snapshot of the state after the entry *seq*: a cache of the fold."""

    seq: int
    body: Payload


class Head(NamedTuple):
    """How a thread stands."""

    thread: str
    seq: int
    """Number of the last entry, 0 before the first."""
    epoch: int
    """Counts the claims. A commit under an older one is refused."""
    status: Status
    graph: str
    """Name of the graph, for listing."""
    created_at: float
    """Seconds since the epoch, by the clock of whoever made it."""
    updated_at: float
    owned: bool
    """Whether a living owner holds the thread now."""
    first: int = 1
    """Number of the oldest entry that is still there: greater than 1 after a prune."""


class Claim:
    """The right to write a thread, until it is released, its lease runs out, or its owner is gone."""

    __slots__ = ("epoch", "head", "lease_s", "thread")

    def __init__(self, head: Head, lease_s: float) -> None:
        self.thread: str = head.thread
        self.epoch: int = head.epoch
        self.head: Head = head
        """As it stood when it was claimed."""
        self.lease_s: float = lease_s


class Commit(NamedTuple):
    """What one transaction writes: all of it or nothing. In this order."""

    expected: int
    """Number that the thread's last entry must have: else the commit is a conflict."""
    at: float
    """Seconds since the epoch: becomes `updated_at`."""
    records: Sequence[Record] = ()
    """To append, in order and without a gap after *expected*."""
    unstage: bool = False
    """Forget everything staged before."""
    stage: Sequence[tuple[str, Payload]] = ()
    """(key, body) to keep beside the journal until the next `unstage`; a key that is there is replaced."""
    snapshot: Saved | None = None
    """To keep; of the last entry or an older one. One of the same entry is replaced."""
    blobs: Mapping[str, bytes] = {}
    """Large values by the name that their content gives them; one that is there stays."""
    meta: Payload | None = None
    """Replaces the thread's meta."""
    status: Status | None = None
    graph: str | None = None
    release: bool = False
    """Give the claim back in the same transaction."""


class Loaded(NamedTuple):
    """A thread as read in one moment: nothing of it is newer or older than the rest."""

    head: Head
    meta: Payload | None
    snapshot: Saved | None
    """The newest one whose `seq` is not after what was asked for."""
    records: Sequence[Record]
    """All records with entries after the snapshot, in order; the last one may hold entries after what was asked for."""
    staged: Sequence[tuple[str, Payload]]
    """Staged bodies by key, in the order in which each key was first staged. Empty if an older moment was asked for."""


@runtime_checkable
class Store(Protocol):
    """Keeps threads. Used from several worker threads at once; never from an event loop's own thread if it blocks.

    All methods but `close` raise `StoreError` where the world fails, with what was kept; nothing is half done then, and
    the next call works once the world does. Codes: `store-busy` (locked by another process for too long), `store-full`,
    `store-read-only`, `store-unavailable` (cannot be opened, connection lost), `store-damaged` (not a database of ours,
    or broken), `store-newer` (written by a newer version).
    """

    durable: bool
    """Whether what is committed outlives the process: then every payload is `bytes`."""
    blocking: bool
    """Whether calls may wait for a disk or a network: then an asyncio driver makes them on a worker thread."""

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Take the thread for writing, at once or not at all: `epoch` is one more than that of the claim before.

        A thread that is made here has status "new" and `seq` 0. A claim is void, and the thread free, once it was
        released, its lease ran out without a commit or `renew`, or its owner is known to be dead.

        Args:
            lease_s: Seconds that the claim holds after this call and after each commit or `renew`.
            at: Seconds since the epoch, for `created_at`. Leases are not measured by it, but by a clock that all users
                of the store share and that does not jump.

        Raises:
            InputError: There is no such thread and *create* is False (`unknown-thread`).
            ConflictError: A living owner holds it (`conflict`).
        """
        ...

    def renew(self, claims: Iterable[Claim]) -> None:
        """Let the leases of *claims* begin anew; those that are void stay void."""
        ...

    def release(self, claim: Claim) -> None:
        """Give the thread back; one without any entry is forgotten. Nothing happens if the claim is void."""
        ...

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write *commit* in one transaction; durable when this returns.

        Raises:
            ConflictError: The claim is void, or the last entry is not `commit.expected`; nothing was written.
        """
        ...

    def head(self, thread: str) -> Head:
        """How *thread* stands.

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
        """Threads with at least one entry, in the order in which they were made.

        Args:
            prefix: What the thread's id begins with, compared character by character.
            updated_before: Seconds since the epoch.
            after: Only those made after this thread, which need not match the rest: for paging.
        """
        ...

    def load(self, thread: str, *, upto: int | None = None) -> Loaded:
        """The thread as it stands, or as it stood after the entry *upto*.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Records with an entry numbered above *after*, and none above *upto* only; in order, read page by page.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Those of the named large values that are there."""
        ...

    def delete(self, thread: str) -> None:
        """Forget the thread and everything of it.

        Raises:
            InputError: There is no such thread.
            ConflictError: A living owner holds it.
        """
        ...

    def copy(self, thread: str, to: str, *, at: float) -> None:
        """Copy the thread with everything of it (records, snapshots, staged, blobs, meta) under the id *to*.

        Raises:
            InputError: There is no such thread, or *to* exists (`thread-exists`).
        """
        ...

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Forget the records whose entries are all numbered *upto* or less, and snapshots of before *upto*.

        A snapshot of exactly *upto* must be there: what comes after is folded onto it.

        Args:
            keep_blobs: If given, all other blobs of the thread are forgotten.

        Returns:
            How many entries went.

        Raises:
            ConflictError: The claim is void.
            InputError: There is no snapshot of *upto* (`no-snapshot`).
        """
        ...

    def close(self) -> None:
        """Free what it holds; may be called again. Claims that it gave are void."""
        ...

    def __enter__(self) -> te.Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    async def __aenter__(self) -> te.Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


METHODS: Final = (
    "claim",
    "renew",
    "release",
    "commit",
    "head",
    "heads",
    "load",
    "records",
    "blobs",
    "delete",
    "copy",
    "prune",
    "close",
)
"""What an object needs to be taken for a store."""
