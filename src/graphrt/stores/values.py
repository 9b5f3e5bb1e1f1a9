"""The values of the store protocol: arguments and results of stores, as bytes and plain data.

`protocol` describes their purpose; filters of listings are in `filters`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from graphrt.events.status import Status


class Record(NamedTuple):
    """The journal entries of one commit, stored as one unit."""

    seq: int
    """Number of its last entry. The entries of a thread are numbered from 1, without gaps."""
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    """Number of its entries, 1 or more. `seq - count + 1` is the number of the first."""
    body: bytes
    """The entries, in the form that the journal chose."""
    seal: bytes = b""
    """Hash of the previous seal, which reveals changes, and salts; empty if the journal is not chained."""


class StoredSnapshot(NamedTuple):
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
    """Workers drive due threads with the highest number first."""


class Labels(NamedTuple):
    """Labels by which a thread is found, besides its id, which contains its tenant (`ids.tenant_of`)."""

    title: str | None = None
    tags: frozenset[str] = frozenset()
    priority: int = 0


class Question(NamedTuple):
    """An open question of a thread, as the inbox lists it."""

    place: str
    """Its id without the thread: `task#key`. The same in a copy of the thread."""
    kind: str
    node: str
    graph: str
    """Name of the graph that asked."""
    asked_at: float
    """Seconds since the epoch. A store keeps the time at which it first listed the question."""
    expires_at: float | None
    """Seconds since the epoch after which no answer is accepted; None if it does not expire."""
    stale: bool
    """Whether the state was edited after the question was asked."""
    body: bytes
    """The data shown to the person who answers, and the type of the answer, in the form that the journal chose."""


Former: TypeAlias = Literal["released", "dead", "lease-expired"]
"""How an owner lost a thread: it was released; the owner is known to be dead; or only its lease ran out, so that the
owner may still be running. The last value persists in later claims until one of them is released."""


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
        """How the previous owner lost the thread."""


class Commit(NamedTuple):
    """Everything that one transaction writes, atomically. It takes effect in the order of the fields."""

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
    snapshot: StoredSnapshot | None = None
    """A snapshot to keep, of the last entry or an older one. It replaces one of the same entry."""
    blobs: Mapping[str, bytes] = {}
    """Large values, by a name derived from their content. A blob that exists is not changed."""
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
    """All open questions of the thread, replacing the listed ones. None leaves them unchanged. If one is already
    listed, its `asked_at` stays the same."""
    taken: Sequence[int] = ()
    """Places of messages to delete from the thread's mail. Places without a message are ignored."""
    posts: Sequence[tuple[str, str, bytes]] = ()
    """0..n messages to other threads, as (thread, id, body), of a store with "mail"; see `Store.post`. Those to threads
    that do not exist, or have no entries, are dropped."""
    memory: Sequence[MemoryWrite] = ()
    """0..n changes of the memory, of a store with "memory". If there are several of one item, the last one counts."""


class MemoryWrite(NamedTuple):
    """A change of one item of the memory, which is shared by all threads."""

    namespace: str
    """1 to 200 characters, segments separated by `/`; with the tenant and `~` before it, if it has one."""
    key: str
    """Names the item in its namespace: 1 to 200 printable characters."""
    body: bytes | None
    """Its value, in the form that the journal chose; None deletes the item."""
    words: tuple[str, ...] = ()
    """The words by which it is found: 0..n different ones, as `stores._memory_items.words_of` makes them."""
    expires_at: float | None = None
    """Time in seconds since the epoch from which it is no longer listed; None keeps it until it is deleted."""
    vector: bytes | None = None
    """Its vector, as `stores._vectors.packed` returns it; None for an item that is found only by its words."""


class StoredItem(NamedTuple):
    """An item of the memory, as a store lists it."""

    namespace: str
    key: str
    body: bytes
    created_at: float
    """Time of the write that made it, in seconds since the epoch. A write of an item that has expired makes a new one."""
    updated_at: float
    """Time of its last write."""
    expires_at: float | None
    score: float = 1.0
    """Relevance to the search, above 0 and up to 1; 1 without a search. See `stores._memory_items`."""
    vector: bytes | None = None


class StoredThread(NamedTuple):
    """A thread, read at one point in time: no part is newer or older than the others."""

    head: Head
    """The current head, even if an older state was requested; the same holds for `meta`."""
    meta: bytes | None
    """None if no commit ever set it."""
    snapshot: StoredSnapshot | None
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
    """Its content, in the form that the sender chose."""


class NewBatch(NamedTuple):
    """Live items of one run that a store is to keep for followers (R20)."""

    thread: str
    """Id of the thread."""
    id: str
    """1 to 200 characters, without NUL; new for each batch."""
    body: bytes
    """The items, in the form that the driver chose."""
    forget: int = 0
    """Earlier batches of the thread up to this place are deleted: the driver limits their number."""


class LiveBatch(NamedTuple):
    """Live items of one run, as passed on by its driver (R20)."""

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
    """Regenerated with each definition, so that a worker with an older definition cannot move the schedule."""
    due_at: float
    """When it is due next, in seconds since the epoch."""
    body: bytes
    """Its definition, in the form that the runtime chose."""


Offer: TypeAlias = Literal["labels", "mail", "schedules", "live", "erasure", "memory"]
"""The kinds of data and operations that a store may offer beside the journal:

| Offer | Methods |
|---|---|
| `labels` | `query` of questions, and of threads by tenant, tags, title, `updated_after`, or the newest first |
| `mail` | `post`, and `query` of mail, of due threads, and of threads with mail |
| `schedules` | `put_schedule`, `move_schedule`, `delete_schedule`, and `query` of schedules |
| `live` | `follow_live`, `relay`, `relayed`, `forget_live`, and `query` of followers |
| `erasure` | `erase` |
| `memory` | `write_memory`, `purge_memory`, `Commit.memory`, and `query` of items and namespaces of the memory |
"""
EVERYTHING: Final[frozenset[Offer]] = frozenset(get_args(Offer))
REMEMBERED: Final = 1_000
"""Minimum number of most recently taken messages per thread whose ids a store remembers."""
KEPT_S: Final = 30.0
"""Seconds after which a store may delete a batch of live items, if its thread has had no follower for as long."""
LONGEST_INTEREST_S: Final = 60.0
"""Maximum time, in seconds, for which a follower may register interest, so that the driver soon stops collecting for a
dead one."""


class StoreFinding(NamedTuple):
    """A result of `verify`: damage or waste in a store, or a thread that could not be replayed."""

    thread: str | None
    """Id of the thread, or None if the finding belongs to no thread."""
    kind: Literal["damage", "waste", "skipped"]
    """`damage`: stored data was changed. `waste`: unused data, which takes up space but is harmless. `skipped`: the
    graph has changed so that it cannot continue the thread, which was therefore not replayed."""
    code: str
    """`record`, `gap`, `tail`, `snapshot`, `staged`, `blob`, `head`, `withheld`, `replay`, `orphan` or `file`."""
    what: str
    """A sentence about the problem."""
    seq: int | None = None
    """Number of the entry, or None if the finding is not about one entry."""
