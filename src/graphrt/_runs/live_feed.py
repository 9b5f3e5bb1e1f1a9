"""The live items of a thread, as one follower reads them: those of all writers, in the order of the entries.

Live items come through the store, in batches, while a follower notes its *interest* there (decision 0160). A batch has
a *place*, which grows with each batch of the thread. Several *writers* hand batches over (decision 0233): the run that
drives the thread, and each task that a worker runs for its queue. A reader has read one writer for each of these tasks,
and one for the driver, at a time; a writer that was replaced by another is not read any more.

A reader who comes late begins to read a writer with its newest *re-telling*, which tells again what its open tasks have
shown. `NumberedItems` says which items of one writer are new.

Items that were read are held back until the reader has the entry before them. The driver names that entry. A worker of
a queue knows no entries after the one with which it began: its items come where they are read, and are dropped once
their superstep is closed. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Final, final

from graphrt._runs.entries import entries
from graphrt._runs.live_items import Again, Heading, LiveItem, Sent, opened
from graphrt._runs.live_positions import Position
from graphrt._runs.loading import the_store
from graphrt._runs.numbered_items import NumberedItems
from graphrt._runs.run_config import RunConfig
from graphrt._runs.shown_tasks import ShownTasks, closes
from graphrt.events import Entry

INTEREST_S: Final = 10.0
"""Seconds for which interest is noted. A reader that is held up for longer misses items, and their number is shown."""
RENEW_S: Final = 4.0
"""Seconds between two notes of interest."""
NO_PLACE: Final = 2**63 - 1
"""A place that no batch has, of a reader without live items."""
_AT_ONCE: Final = 2
"""Batches that are read at once: one more than there is in most looks, which so need one call."""
_READ_BYTES: Final = 2**18
"""Bytes of items after which a reader gives what it has before it reads on: a hundred slow readers then hold little."""


@final
class LiveFeed:
    """The live items of one thread, as one follower reads them.

    Interest is noted when it is made, and renewed by `read`.

    Args:
        config: The configuration of the runtime.
        thread: The thread's id.
        after: Where the reader goes on. Without an item, it is given what the open tasks have shown so far.

    Raises:
        InputError: The store carries no live items (`store-lacks`).
    """

    def __init__(self, config: RunConfig, thread: str, after: Position) -> None:
        self._config = config
        self._store = the_store(config)
        self._store.require("live")
        self._codec = config.plan.codec
        self._thread = thread
        self._held: deque[tuple[int, Sent]] = deque()
        """Items that were read and not given yet, in order, each with the entry after which it is given."""
        self._held_bytes = 0
        self.renew_at: float = monotonic() + RENEW_S
        """Monotonic time at which interest is noted again."""
        head = self._store.head(thread)
        self._from = head.seq
        """What the driver showed before this entry is over, or is told again: a reader does not begin there."""
        self._first = head.first
        self._store.follow_live([thread], for_s=INTEREST_S)
        self._after = after
        self.place: int = 0
        """Place of the last batch that was read. All that are kept are read: what began earlier may go on."""
        self._seq = after.seq
        """The entry after which the item is given that was read last."""
        self._closed = 0
        """The last entry known to have closed a superstep, of those that the reader has."""
        self._searched = after.seq or self._from
        """The entry after which such entries are known. One that comes back is given all that came since, and one that
        begins is given nothing of supersteps that are over."""
        self._writers: dict[str, NumberedItems] = {}
        """What was read of each writer, by its id."""
        if after.writer:
            self._writers[after.writer] = NumberedItems(after.number, after.last)
        self._present: dict[str, str] = {}
        """Task of a queue, or "" for the driver of the thread, to its present writer."""
        self._past: set[str] = set()
        """Writers before those: a process that lost the thread or the task may still hand something over."""
        has_open = bool(after.writer) or self._is_amid(after.seq)
        self._shown = ShownTasks(config.plan, has_open=has_open)
        self._is_first_look = True
        """Whether the reader looks for the newest re-telling of each writer, to begin with it."""
        self.read()
        self._is_first_look = False

    def read(self) -> int | None:
        """Read the batches that have come, until a bound on what is held.

        Returns:
            None if all was read. Otherwise the number of the entry after which the last item is given that was read:
            entries after that one may not be given yet, because more items that come before them are in the store.
        """
        if monotonic() >= self.renew_at:
            self.renewed(self._store.follow_live([self._thread], for_s=INTEREST_S)[self._thread])
        while self._held_bytes <= _READ_BYTES:
            batches = self._store.relayed(self._thread, after=self.place, limit=_AT_ONCE)
            for one in batches:
                self.place = one.place
                for sent in self._new(*opened(self._codec, one.body)):
                    # All that comes before an entry has a smaller place than what its driver shows after it.
                    self._seq = max(self._seq, sent.seq)
                    self._held.append((self._seq, sent))
                    self._held_bytes += sent.size
            if len(batches) < _AT_ONCE:
                return None
        return self._held[-1][0]

    def renewed(self, newest: int) -> None:
        """Note that interest was noted again, by a call that returned *newest* as the place of the newest batch."""
        # A store whose live items were deleted begins to count anew, and returns a smaller place.
        self.place = min(self.place, newest)
        self.renew_at = monotonic() + RENEW_S

    def _new(self, heading: Heading, found: Sequence[Sent]) -> Iterator[Sent]:
        """Return the items of a batch that this reader is to be given, as far as it has not read them before."""
        writer, task = heading.writer, heading.task
        if writer in self._past:
            return iter(())
        numbered = self._writers.get(writer)
        begins_anew = (
            self._is_first_look
            and numbered is not None
            and numbered.is_first
            and heading.begins
            and heading.again != numbered.told
        )
        if numbered is None or begins_anew:
            if not self._may_begin(heading, found):
                return iter(())
            self._let_go(self._present.get(task), writer)
            is_first = self._present.get(task, writer) == writer
            numbered = self._writers[writer] = NumberedItems(told=heading.again, is_first=is_first)
        self._present[task] = writer
        if writer == self._after.writer:
            self._shown.go_on(heading)
        return numbered.new(heading, found, partial(self._told_later, writer))

    def _may_begin(self, heading: Heading, found: Sequence[Sent]) -> bool:
        """Return whether the reader may begin to read a writer with this batch.

        The first writer for a task, or for the driver, may have shown something before the reader came. So it is read
        from a re-telling on, or from its first item. The reader follows those that replace it from their beginning.
        """
        writer, task, again, begins = heading
        seq = again.seq if again is not None else found[-1].seq if found else 0
        is_first = self._present.get(task, writer) == writer
        if not begins and (again is not None or (is_first and not (found and found[0].number == 1))):
            return False
        if task:
            return seq >= self._closed_after(seq)
        # A run begins with an entry. Items from before the last one that was read are of a run that this one followed:
        # a reader that comes back meets them, and a process that lost the thread may still hand some over.
        return seq >= self._seq and (not is_first or seq >= self._from)

    def _let_go(self, present: str | None, writer: str) -> None:
        """Read the writer *present* no more, in whose place *writer* begins, or begins anew."""
        if present == writer:
            self._held = deque(pair for pair in self._held if pair[1].heading.writer != writer)
            self._held_bytes = sum(sent.size for _, sent in self._held)
        elif present is not None:
            self._past.add(present)

    def _told_later(self, writer: str) -> tuple[Again, list[Sent]] | None:
        """Return the next re-telling of *writer* that is in the store, if there is one.

        A reader that comes back finds the batches gone that it left, or items that were handed over before their writer
        first told everything.
        """
        place, told, items = self.place, None, list[Sent]()
        while batches := self._store.relayed(self._thread, after=place, limit=1):
            place = batches[0].place
            heading, found = opened(self._codec, batches[0].body)
            if heading.writer != writer:
                continue
            if told is None and heading.begins:
                told = heading.again
            elif told is not None and heading.again != told:
                break
            if told is not None:
                items += found
        return None if told is None else (told, items)

    def _closed_after(self, seq: int) -> int:
        """Return the last entry that closed a superstep after the entry *seq*, or one before it if none did."""
        if seq < self._searched:
            for entry in entries(self._config, self._thread, after=max(seq, self._first - 1), raw=True):
                if entry.seq > self._searched:
                    break
                if closes(entry):
                    self._closed = max(self._closed, entry.seq)
            self._searched = seq
        return self._closed

    def _is_amid(self, seq: int) -> bool:
        """Return whether a superstep may be open after the entry *seq*, such as one that paused or failed."""
        if seq < max(self._first, 1):  # it is 0, or was pruned
            return False
        return not closes(next(entries(self._config, self._thread, after=seq - 1, most=1, raw=True)))

    def before(self, seq: int) -> Iterator[LiveItem]:
        """Yield the held items that came before the entry *seq*, and drop them."""
        held = self._held
        while held and held[0][0] < seq:
            after, sent = held.popleft()
            self._held_bytes -= sent.size
            if sent.seq >= self._closed:  # else its superstep is closed, which a worker of a queue has not noticed yet
                yield from self._shown.items(after, sent)

    def passed(self, entry: Entry) -> Iterator[LiveItem]:
        """Yield what is taken back of earlier items, now that the reader has *entry*."""
        if closes(entry):
            self._closed = entry.seq
        return self._shown.passed(entry)
