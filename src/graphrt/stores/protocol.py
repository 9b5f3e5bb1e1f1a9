"""The store protocol: storage of bytes by thread, with atomic commits and a single writer for each thread.

A thread has records, which are numbered and only appended: its journal. Besides these it has snapshots (stored states),
staged bodies (outcomes of tasks whose superstep is not committed yet), blobs (large values), one meta (facts about the
thread as a whole, such as its graph) and one head. A writer claims the thread, and every commit names the claim's epoch
and the entry that it follows. Both are checked inside the transaction: a writer that lost its claim stores nothing.

Beside the journal a store may keep *labels* (what a thread is found by), the *inbox* (the open questions of all
threads), *mail* (messages of processes that do not own a thread, R22), *schedules* (R23) and *live items* (what a run
shows while its superstep is open, R20). One method, `query`, lists all of these; `filters` says which rows. What a
store does not keep it leaves out of `Store.offers`, and the base class refuses it.

A store knows nothing of events, states or graphs: only the journal knows what the bytes mean (decision 0019). Every
store inherits `Store`; `graphrt.testing.conformance` tests whether it keeps the promises. Only the protocol and its
values belong here.
"""

# ruff: noqa: ARG002 - the base class refuses what a store does not offer, whatever the arguments are

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from graphrt.errors import InputError
from graphrt.events.status import Status
from graphrt.stores.verbs import StoreVerbs

if TYPE_CHECKING:
    from graphrt.stores.filters import Filter

R = TypeVar("R")

# fmt: off
__all__ = [
    "Claim", "Commit", "Head", "Labels", "LiveBatch", "Loaded", "MailMessage", "OpenQuestion", "Question", "Record", "Saved",
    "Status", "Store", "StoredSchedule",
]
# fmt: on


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
    """New labels of the thread. None leaves them unchanged. Stores without "labels" ignore labels and questions."""
    questions: Sequence[Question] | None = None
    """All open questions of the thread, in place of those that are listed. None leaves them unchanged. Of one that is
    listed already, `asked_at` stays as it is."""
    taken: Sequence[int] = ()
    """Places of messages to delete from the thread's mail. Places without a message are ignored."""
    posts: Sequence[tuple[str, str, bytes]] = ()
    """0..n messages to other threads, as (thread, id, body), of a store with "mail"; see `Store.post`. Those to threads
    that do not exist, or have no entries, are dropped."""


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


class OpenQuestion(NamedTuple):
    """An open question, with the thread that waits for its answer: a row of the inbox."""

    head: Head
    question: Question
    token: str
    """Position of the question in the order of all questions: the `after` of the next page."""


class MailMessage(NamedTuple):
    """A message to a thread, from a process that need not own it, such as an answer or a request to cancel."""

    place: int
    """Grows with each message of the thread; gives their order."""
    id: str
    """Unique among the messages of the thread."""
    body: bytes
    """What it says, in the form that the sender chose."""


class LiveBatch(NamedTuple):
    """Live items of one run, as its driver handed them over (R20)."""

    place: int
    """Grows with each batch of the thread."""
    id: str
    """Chosen by the driver, and new for each batch."""
    body: bytes
    """The items, in the form that the driver chose."""


class StoredSchedule(NamedTuple):
    """A schedule as a store keeps it."""

    name: str
    """Unique in the store; of the form of a thread's id."""
    graph: str
    """Name of the graph that its threads run."""
    version: str
    """Made anew with each definition, so that a worker that knows an older definition cannot move the schedule."""
    due_at: float
    """When it is due next, in seconds since the epoch."""
    body: bytes
    """Its definition, in the form that the runtime chose."""


Offer: TypeAlias = Literal["labels", "mail", "schedules", "live", "erasure"]
"""What a store may keep or do beside the journal:

| Offer | Methods |
|---|---|
| `labels` | `query` of questions, and of threads by tenant, tags, title, `updated_after`, or the newest first |
| `mail` | `post`, and `query` of mail, of due threads, and of threads with mail |
| `schedules` | `put_schedule`, `move_schedule`, `delete_schedule`, and `query` of schedules |
| `live` | `follow_live`, `relay`, `relayed`, `forget_live`, and `query` of followers |
| `erasure` | `erase` |
"""
EVERYTHING: Final[frozenset[Offer]] = frozenset(get_args(Offer))
_DOING: Final[Mapping[Offer, str]] = {
    "labels": "keep titles, tags or open questions, or find threads by them",
    "mail": "keep mail of threads that other processes drive",
    "schedules": "keep schedules",
    "live": "carry live items between processes",
    "erasure": "erase values",
}
"""What a store without the offer cannot do, for the error."""

REMEMBERED: Final = 1_000
"""Number of messages, those that were taken last, whose ids a store remembers at least for each thread."""
KEPT_S: Final = 30.0
"""Seconds after which a store may delete a batch of live items. A follower that reads less often misses items."""
LONGEST_INTEREST_S: Final = 60.0
"""Longest time, in seconds, for which a follower may note its interest: the driver soon stops collecting for one that
died."""


class Store(StoreVerbs, ABC):
    """Storage of threads. Several worker threads may call it at once. If it blocks, no event loop's thread calls it.

    A store implements the abstract methods, and those of what it lists in `offers`. The others raise an InputError
    (`store-lacks`). As a context manager, sync or async, it closes at the end. All methods but `close` raise `StoreError` if the disk,
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
    offers: frozenset[Offer] = frozenset()
    """What it keeps and does beside the journal."""
    tenant: str | None = None
    """The tenant whose threads it has, if it is one tenant's part of a store that tenants share."""
    encrypted: bool = False
    """Whether exports contain plain text of what it keeps encrypted, so that `export_thread` needs `decrypted=True`."""

    @abstractmethod
    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner.

        The first commit under the claim stores it, in the same transaction, so a claim alone writes nothing. Until then
        the thread is held in this store object only: if another one claims it too, the first that commits has it, and
        the commit of the other raises ConflictError. Nothing that must happen once may begin before that commit.

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
        """Return one page of the rows that *wanted* lets pass, in the order that its class describes.

        Args:
            wanted: Which rows, and of which kind: `ThreadFilter`, `QuestionFilter`, `DueFilter`, `MailFilter`,
                `FollowerFilter` or `ScheduleFilter`.
            after: Only rows that come after this one. What names a row is described at the class of *wanted*. The row
                need not pass the filter itself.
            limit: Maximum number of rows. None: no limit.

        Raises:
            InputError: The store does not offer this (`store-lacks`); there is no thread *after*, or no thread
                whose rows are wanted (`unknown-thread`); or an argument is not valid (`input`).
        """
        from graphrt.stores._refusals import page_size

        if wanted.needs is not None:
            self.require(wanted.needs)
        most = page_size(limit, **wanted.times)
        return self.select(wanted, after=after, limit=None if most < 0 else most)

    @abstractmethod
    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Do what `query` does, which has checked that the store offers the rows, and the limit and times.

        A store that offers nothing gets `ThreadFilter`s only, with status, graph, prefix, `updated_before` and ids.
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
        from graphrt.errors._codes.labels import STORE_LACKS  # imported late: hardly any program needs it

        return STORE_LACKS(doing=_DOING[offer], store=self, offer=offer)

    @abstractmethod
    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*.

        An *upto* beyond the last entry gives what there is. With *after*, no snapshot is read, and only the records that
        are left with entries after this one: the caller knows the state up to there.

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
        """Delete the thread with everything stored of it.

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
        """Replace records, remove what repeats them, and write *commit*, all in one transaction ("erasure").

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
        raise self._lack("erasure")

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a message to *thread* until a commit takes it (`Commit.taken`). The sender needs no claim ("mail").

        A second message with the same *id* is not kept, whatever it says. Ids of messages that were taken are
        remembered too, at least the last `REMEMBERED`. So a call may be repeated if its outcome is not known.

        Args:
            thread: The thread's id.
            id: 1 to 200 characters, without NUL.
            body: What it says.

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
            Whether it is kept; False if the store has another version of this name, or none that could be replaced.
        """
        raise self._lack("schedules")

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at* ("schedules").

        Returns:
            Whether it was moved by this call. Of several workers, one gets True.
        """
        raise self._lack("schedules")

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none ("schedules")."""
        raise self._lack("schedules")

    # Live items are no part of a thread: they are lost with a crash, are in no copy, export or backup, and are deleted
    # after `KEPT_S` seconds. Nothing that these methods write need be durable, and none looks whether the thread exists.

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note that a follower of *thread* reads live items for the next *for_s* seconds ("live"). Repeat to renew.

        Args:
            thread: The thread's id.
            for_s: Seconds, more than 0 and at most `LONGEST_INTEREST_S`.

        Returns:
            The place of the newest batch of the thread, 0 without any: a new follower begins after it. If it is smaller
            than a place that was read before, the store has begun to count anew.
        """
        raise self._lack("live")

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items for the followers of *thread*, and return its place ("live").

        Args:
            thread: The thread's id.
            id: 1 to 200 characters, without NUL.
            body: The items.
            forget: Batches of the thread at this place and before are deleted: the driver bounds what is kept.
        """
        raise self._lack("live")

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return the batches of *thread* after the place *after*, in order, and at most *limit* of them ("live")."""
        raise self._lack("live")

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*: they were deleted, or values of theirs were erased ("live")."""
        raise self._lack("live")


# fmt: off
OPERATIONS: Final = (
    "claim", "renew", "release", "commit", "head", "query", "load", "records", "blobs", "delete", "delete_many",
    "prune", "close", "erase", "post", "put_schedule", "move_schedule", "delete_schedule", "follow_live", "relay", "relayed", "forget_live",
)
# fmt: on
"""Methods of the protocol, which a `FlakyStore` can make fail."""
