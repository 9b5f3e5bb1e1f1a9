"""`KeptThread`: one thread of a `MemoryStore`, with all its stored data, such as its mail.

The methods of a thread are called under the lock. Claims and refusals are in `memory`.

A *record* has the journal entries of one commit; `seq` is the number of its last entry, `count` their number. A
*snapshot* is the state after the entry `seq`. *Staged* bodies are outcomes of tasks whose superstep is not committed
yet. *Blobs* are large values under names derived from their content. *Messages* are mail of other processes, which wait
until a commit takes them: it deletes them together with writing the entries about their effects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import count
from operator import attrgetter
from typing import Final, final

from graphrt.events.status import Status
from graphrt.stores.filters import BEGINS, WAITING, WAITS
from graphrt.stores.ids import tenant_of
from graphrt.stores.values import REMEMBERED, Claim, Commit, Head, Labels, MailMessage, Question, Record, StoredSnapshot

_NO_LABELS: Final = Labels()
_SEQ: Final = attrgetter("seq")
_NUMBERS: Final = count(1)
"""Numbers of new threads, over all stores of the process."""


@final
class KeptThread:
    """All stored data of one thread. `records` and `snapshots` are sorted by `seq`, for binary search."""

    def __init__(self, id: str, at: float) -> None:
        self.id = id
        self.seq = 0
        self.first = 1
        """Number of the oldest entry that was not pruned."""
        self.epoch = 0
        """Number of claims so far."""
        self.status: Status = "new"
        self.graph = ""
        self.created_at = at
        self.updated_at = at
        self.claim: Claim | None = None
        """The claim that holds the thread, or None."""
        self.records: list[Record] = []
        self.snapshots: list[StoredSnapshot] = []
        self.staged: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.meta: bytes | None = None
        self.labels: Labels | None = None
        self.mail: dict[str, MailMessage] = {}
        """Messages that wait, by their id, in order."""
        self._taken: dict[str, None] = {}
        """Ids of the most recently taken messages, in the order of taking."""
        self._last_place = 0
        """Place of the newest message; places give the order of messages."""
        self.number: int = next(_NUMBERS)
        """Number of the thread, in order of creation."""
        self.questions: dict[str, Question] = {}
        """Open questions by place."""

    def is_due(self, now: float) -> bool:
        """Return whether the thread is due at *now*, in seconds since the epoch; see `DueFilter`."""
        if self.claim is not None:
            return False
        if self.status == "running":
            return True
        mail = self.mail if self.status in WAITING else ()
        if any(self.status != "interrupted" or not id_.startswith(WAITS) for id_ in mail):
            return True
        return self.status == "interrupted" and any(
            question.expires_at is not None and question.expires_at <= now for question in self.questions.values()
        )

    def listed(self) -> Head:
        """Return the summary for listings: a completed thread counts as running if a message begins another run."""
        head = self.head()
        if head.status == "completed" and any(id_.startswith(BEGINS) for id_ in self.mail):
            return head._replace(status="running")
        return head

    def head(self) -> Head:
        """Return the summary of the thread."""
        owned = self.claim is not None
        times = (self.created_at, self.updated_at)
        summary = Head(self.id, self.seq, self.epoch, self.status, self.graph, *times, owned, self.first)
        tenant = tenant_of(self.id)
        if self.labels is None and tenant is None:
            return summary
        title, tags, priority = self.labels or _NO_LABELS
        return summary._replace(tenant=tenant, title=title, tags=tags, priority=priority)

    def part(self, after: int, upto: int | None) -> list[Record]:
        """Return the records that have an entry above *after* and, unless *upto* is None, one up to *upto*.

        A record is returned whole, even if only some of its entries are in this range.
        """
        begin = bisect_right(self.records, after, key=_SEQ)
        if upto is None:
            return self.records[begin:]
        end = bisect_left(self.records, upto, key=_SEQ)
        # The record at `end` goes up to *upto* or beyond; it belongs to the result if it begins before or there.
        if end < len(self.records) and self.records[end].seq - self.records[end].count < upto:
            end += 1
        return self.records[begin:end]

    def post(self, id: str, body: bytes) -> bool:
        """Store a message. Return False if one with this *id* came before, so that a sender may repeat the call."""
        if id in self.mail or id in self._taken:
            return False
        self._last_place += 1
        self.mail[id] = MailMessage(self._last_place, id, body)
        return True

    def _take(self, places: Iterable[int]) -> None:
        """Delete the messages at *places*, and remember their ids."""
        taken_places = {*places}
        for message in [message for message in self.mail.values() if message.place in taken_places]:
            del self.mail[message.id]
            self._taken[message.id] = None
        while len(self._taken) > REMEMBERED:  # the oldest ids are forgotten
            del self._taken[next(iter(self._taken))]

    def free(self, threads: dict[str, KeptThread]) -> None:
        """End the claim, and delete the thread from *threads*, those of the store, if it has no entries.

        A thread without entries was claimed and never written, so it counts as never created.
        """
        self.claim = None
        if not self.seq:
            del threads[self.id]

    def write(self, commit: Commit, seq: int) -> None:
        """Write the checked *commit*, except its messages to other threads, its memory and its release.

        `MemoryStore` does these afterwards, because they involve more than this thread.

        Args:
            commit: What is written.
            seq: Number of the thread's last entry after it.
        """
        # Unpacked, because each step pays for this: a field that is read by its name takes five times as long.
        _, at, records, unstage, stage, snapshot, blobs, meta, status, graph, _, labels, questions, taken, *_ = commit
        # These are read first, so that one that raises leaves nothing of the commit behind.
        records = tuple(records)
        staged = dict(stage) if stage else None
        added = {**blobs} if blobs else {}
        if taken:
            self._take(taken)
        self.records += records
        self.seq, self.updated_at = seq, at
        if unstage and self.staged:
            self.staged.clear()
        if staged:
            self.staged.update(staged)
        if snapshot is not None:
            self.snapshots = [saved for saved in self.snapshots if saved.seq != snapshot.seq]
            insort(self.snapshots, snapshot, key=_SEQ)
        for name, body in added.items():
            self.blobs.setdefault(name, body)  # the name is derived from the content, so an existing blob stays
        if meta is not None:
            self.meta = meta
        if status is not None:
            self.status = status
        if graph is not None:
            self.graph = graph
        if labels is not None:
            self.labels = labels
        if questions is not None:
            earlier = self.questions
            # A question that is already listed keeps the time at which it was first listed.
            self.questions = {
                question.place: question._replace(asked_at=earlier[question.place].asked_at)
                if question.place in earlier
                else question
                for question in questions
            }
