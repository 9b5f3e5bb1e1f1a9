"""One follower's view of a thread's live items: those of all writers, in the order of the entries.

Live items come through the store, in batches, while a follower notes its *interest* there (decision 0160). A batch has
a *place*, which grows with each batch of the thread. Several *writers* hand batches over (decision 0233): the run that
drives the thread, and each task that a worker runs for its queue. At any time, a reader follows one writer for each of
these tasks and one for the driver; a writer that was replaced is no longer read.

A late reader starts reading a writer at its newest *re-telling*, which repeats the items that the writer's open tasks
have shown. `NumberedItems` determines which items of one writer are new.

Items are buffered until the reader has the entry before them. The driver names that entry. A queue worker does not know
entries after the one with which it began, so its items are yielded where they are read, and dropped once their
superstep is closed.

No process drives a waiting thread. A reader then gets the output of its open tasks from staged data (`staged_items`),
unless a writer has already shown it these tasks. The same applies to a reader that reaches the questions after they
were answered and their tasks run again. If the superstep was committed meanwhile, the journal has it. For the terms,
see docs/glossary.md.
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
from graphrt._runs.staged_items import committed_items, staged_items, stops, waits
from graphrt.events import Entry, InterruptRaised, RunInterrupted
from graphrt.stores.values import Head

INTEREST_S: Final = 10.0
"""Seconds for which a reader's interest is stored. A reader that is delayed for longer misses items, and their number
is shown."""
RENEW_S: Final = 4.0
"""Seconds between two renewals of interest."""
NO_PLACE: Final = 2**63 - 1
"""A place that no batch has, for a reader without live items."""
_AT_ONCE: Final = 2
"""Number of batches read at once: one more than most polls find, so that they need only one call."""
_READ_BYTES: Final = 2**18
"""Size of items, in bytes, after which a reader yields what it has before reading more, so that slow readers hold
little."""


@final
class LiveFeed:
    """The live items of one thread, as one follower reads them.

    Interest is recorded at creation and renewed by `read`.

    Args:
        config: The configuration of the runtime.
        thread: The thread's id.
        after: Where the reader continues. Without an item, it gets the items of the open tasks so far.

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
        """Items read but not yet yielded, in order, each with the entry that it follows."""
        self._held_bytes = 0
        self._staged: deque[Sent] = deque()
        """Output of open tasks from before the thread stopped, in order and not yet yielded."""
        self._committed: deque[Sent] = deque()
        """The same for a superstep that was committed later."""
        self._has_met_stop = False
        """Whether the reader has reached the first stop of the superstep that is open after its entries."""
        self._staged_at = 0
        """The thread's last entry at the time of reading."""
        self._given = (after.writer, after.number)
        """Writer and number of the last of these items that the reader received."""
        self.renew_at: float = monotonic() + RENEW_S
        """Monotonic time at which to renew interest."""
        head = self._store.head(thread)
        self._from = head.seq
        """Items that the driver showed before this entry are finished or will be repeated, so a reader does not start
        there."""
        self._first = head.first
        self._store.follow_live([thread], for_s=INTEREST_S)
        self._after = after
        self.place: int = 0
        """Place of the last batch that was read. All stored items are read, because earlier tasks may still be running."""
        self._seq = after.seq
        """The entry that the last read item follows."""
        self._closed = 0
        """The last entry known to have closed a superstep, of those that the reader has."""
        self._searched = after.seq or self._from
        """The entry after which such entries are known. A returning reader gets all items since then. A new reader gets
        no items of finished supersteps."""
        self._writers: dict[str, NumberedItems] = {}
        """The items read from each writer, by its id."""
        if after.writer:
            self._writers[after.writer] = NumberedItems(after.number, after.last)
        self._present: dict[str, str] = {}
        """Maps a queued task, or "" for the thread's driver, to its current writer."""
        self._past: set[str] = set()
        """Earlier writers: a process that lost the thread or the task may still hand over items."""
        last = self._entry(after.seq)
        has_open = bool(after.writer) or (last is not None and not closes(last))
        if last is not None and stops(last):
            self._stop(last)
        self._shown = ShownTasks(config.plan, has_open=has_open)
        if after.writer and has_open:  # it may return to a task that repeats its output from before a question
            self._shown.said(staged_items(config, thread), before=after.seq)
        self._is_first_look = True
        """Whether the reader searches for the newest re-telling of each writer, to start from it."""
        self.read()
        self._is_first_look = False

    def read(self) -> int | None:
        """Read the batches that have arrived, up to the limit on buffered items.

        Returns:
            None if everything was read. Otherwise the number of the entry that the last read item follows. Entries
            after it must not be yielded yet, because the store has more items that precede them.
        """
        if monotonic() >= self.renew_at:
            self.renewed(self._store.follow_live([self._thread], for_s=INTEREST_S)[self._thread])
        while self._held_bytes <= _READ_BYTES:
            batches = self._store.relayed(self._thread, after=self.place, limit=_AT_ONCE)
            for batch in batches:
                self.place = batch.place
                for sent in self._new(*opened(self._codec, batch.body)):
                    # All that comes before an entry has a smaller place than what its driver shows after it.
                    self._seq = max(self._seq, sent.seq)
                    self._held.append((self._seq, sent))
                    self._held_bytes += sent.size
            if len(batches) < _AT_ONCE:
                return None
        return self._held[-1][0]

    def renewed(self, newest: int) -> None:
        """Record that interest was renewed by a call that returned *newest* as the place of the newest batch."""
        # A store whose live items were deleted begins to count from zero, and returns a smaller place.
        self.place = min(self.place, newest)
        self.renew_at = monotonic() + RENEW_S

    def _new(self, heading: Heading, items: Sequence[Sent]) -> Iterator[Sent]:
        """Return the items of a batch that this reader should get and has not read before."""
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
            if not self._may_begin(heading, items):
                return iter(())
            self._let_go(self._present.get(task), writer)
            is_first = self._present.get(task, writer) == writer
            numbered = self._writers[writer] = NumberedItems(told=heading.again, is_first=is_first)
        self._present[task] = writer
        if writer == self._after.writer:
            self._shown.go_on(heading, [sent for sent in items if sent.number <= self._after.number])
        return numbered.new(heading, items, partial(self._told_later, writer))

    def _may_begin(self, heading: Heading, items: Sequence[Sent]) -> bool:
        """Return whether the reader may start reading a writer at this batch.

        The first writer for a task, or for the driver, may have shown something before the reader arrived. So it is
        read starting from a re-telling or from its first item. Writers that replace it are followed from their
        beginning.
        """
        writer, task, again, begins = heading
        seq = again.seq if again is not None else items[-1].seq if items else 0
        is_first = self._present.get(task, writer) == writer
        if not begins and (again is not None or (is_first and not (items and items[0].first == 1))):
            return False
        if task:
            return seq >= self._closed_after(seq)
        # A run begins with an entry. Items from before the last one that was read belong to a run that this reader
        # followed. A reader that comes back meets them, and a process that lost the thread may still hand some over.
        return seq >= self._seq and (not is_first or seq >= self._from)

    def _let_go(self, current: str | None, writer: str) -> None:
        """Stop reading the writer *current*, because *writer* replaces it or starts over."""
        if current == writer:
            self._held = deque(pair for pair in self._held if pair[1].heading.writer != writer)
            self._held_bytes = sum(sent.size for _, sent in self._held)
        elif current is not None:
            self._past.add(current)

    def _told_later(self, writer: str) -> tuple[Again, list[Sent]] | None:
        """Return the next re-telling of *writer* in the store, if there is one.

        A returning reader may find its batches gone, or items handed over before their writer first repeated
        everything.
        """
        place, repeat, items = self.place, None, list[Sent]()
        while batches := self._store.relayed(self._thread, after=place, limit=1):
            place = batches[0].place
            heading, batch_items = opened(self._codec, batches[0].body)
            if heading.writer != writer:
                continue
            if repeat is None and heading.begins:
                repeat = heading.again
            elif repeat is not None and heading.again != repeat:
                break
            if repeat is not None:
                items += batch_items
        return None if repeat is None else (repeat, items)

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

    def _entry(self, seq: int) -> Entry | None:
        """Return the entry *seq*; None if it is 0, or was pruned."""
        if seq < max(self._first, 1):
            return None
        return next(entries(self._config, self._thread, after=seq - 1, most=1, raw=True))

    def wait(self, head: Head, seq: int) -> None:
        """Read the output of the open tasks if the thread waits according to *head*.

        Args:
            head: The head of the thread.
            seq: The last entry that the reader has.
        """
        if not waits(head):
            if self._staged:  # what comes before the stops ahead of the reader is read again there
                self._staged.clear()
                self._has_met_stop = False
            self._staged_at = 0  # a claim may be released without an entry, for instance after a rejected answer
        elif head.seq not in (seq, self._staged_at):  # the items come before the last entry
            self._staged_at = head.seq
            self._stage(staged_items(self._config, self._thread), seq)

    def meet(self, entry: Entry) -> None:
        """Record that the reader reaches *entry*. If a run stopped there, output of tasks may precede it."""
        if not self._has_met_stop and not entry.path and isinstance(entry.event, InterruptRaised | RunInterrupted):
            self._has_met_stop = True
            # Read before the entries: if these show no commit, it was of the same superstep.
            staged = staged_items(self._config, self._thread) if not self._staged_at else None
            committed = committed_items(self._config, self._thread, entry.seq, self._first)
            if committed is not None:
                self._committed += self._unread(committed, entry.seq - 1)
            elif staged is not None:
                self._stage(staged, entry.seq - 1)

    def _stage(self, items: Sequence[Sent], seq: int) -> None:
        """Buffer the output of the open tasks for a reader that has the entries up to *seq*."""
        self._shown.said(items)
        self._staged.clear()
        self._staged += self._unread(items, seq)

    def _unread(self, items: Sequence[Sent], seq: int) -> Iterator[Sent]:
        """Yield the items that this reader, which has the entries up to *seq*, may lack."""
        last = {sent.task_id: sent.seq for sent in items}
        writer, number = self._given
        for sent in items:
            # The reader left in the middle of these items, or only a label was added since.
            if sent.heading.writer == writer:
                if sent.number <= number:
                    self._shown.note(sent)
                    continue
            elif last[sent.task_id] < self._after.seq:
                continue
            # If a task continues to produce output, yield all of it, since readers count its replies.
            yield sent._replace(seq=max(sent.seq, seq))

    def before(self, seq: int) -> Iterator[LiveItem]:
        """Yield and drop the buffered items that precede entry *seq*."""
        held = self._held
        while held and held[0][0] < seq:
            after, sent = held.popleft()
            self._held_bytes -= sent.size
            if sent.seq >= self._closed:  # else its superstep is closed, which a queue worker has not noticed yet
                yield from self._shown.items(after, sent)
        for items in (self._committed, self._staged):
            while items and items[0].seq < seq:
                sent = items.popleft()
                if self._shown.lacks(sent):
                    self._given = (sent.heading.writer, sent.number)
                    yield from self._shown.items(sent.seq, sent)

    def _stop(self, entry: Entry) -> None:
        """Stop reading the run that stopped with *entry*. If its first follower came late, it repeats its items after that.

        The reader has them from what was staged.
        """
        self._past.add(entry.run)
        self._let_go(entry.run, entry.run)

    def passed(self, entry: Entry) -> Iterator[LiveItem]:
        """Yield the withdrawals of earlier items, now that the reader has *entry*."""
        if closes(entry):
            self._closed = entry.seq
            self._has_met_stop = False
        elif stops(entry):
            self._stop(entry)
        return self._shown.passed(entry)
