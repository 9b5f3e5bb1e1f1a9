"""`follow`: the entries of a thread as they are stored, and between them what its driver shows live, from any process.

A `Follower` looks at the thread again and again, after pauses that grow while nothing happens (`Pauses`). Each look
reads a page: no iterator of the store, which reads megabytes ahead, is held between two of them.

The process that drives the thread hands live items to the store only while a follower notes its *interest* there, in
batches (decision 0160). A batch has a *place*, which grows with each batch of the thread. An item has its number within
its run, and `seq`, the number of the last entry before it.

A follower who comes late begins with a batch that tells *again* what the open tasks have shown so far (decision 0228).
The driver writes one when the first follower comes, and from time to time; a later follower finds it in the store. One
that had items before goes on after the last of them, by its number.

A look reads the new batches, holds their items back, and returns entries and items in order: an item after the entry
that it names, and before the next one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, TypeAlias, final

from graphrt._flows.live import Live
from graphrt._journal.leases import release_now
from graphrt._runs.entries import entries
from graphrt._runs.live_items import Again, Heading, LiveItem, Position, Sent, opened, position_of
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import Call, Pauses, check_position, is_over
from graphrt.events import Entry, RunCompleted, RunResumed, RunStarted, SuperstepAbandoned, SuperstepCommitted

if TYPE_CHECKING:
    from graphrt._plan.tables import Plan

Followed: TypeAlias = Entry | LiveItem
"""What a follower gets."""

PAGE: Final = 32
"""About how many entries are read at once. A hundred slow readers hold a hundred pages, so a page is small."""
INTEREST_S: Final = 10.0
"""Seconds for which interest is noted. A reader that is held up for longer misses items, and their number is shown."""
RENEW_S: Final = 2.0
"""Seconds between two notes of interest."""
_BETWEEN: Final = (RunStarted, SuperstepCommitted, SuperstepAbandoned, RunCompleted)
"""Events of the outermost graph after which no task is open that has shown something."""
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
        self._store = the_store(config)
        self._store.require("live")
        self._codec = config.plan.codec
        self._thread = thread
        self._held: deque[Sent] = deque()
        """Items that were read and not given yet, in order."""
        self._held_bytes = 0
        self._renew_at = monotonic() + RENEW_S
        """Monotonic time at which interest is noted again."""
        self._from = self._store.head(thread).seq
        """What was shown before this entry is over, or is told again: a reader without an item does not begin there."""
        self._store.follow_live(thread, for_s=INTEREST_S)
        self._place = 0
        """Place of the last batch that was read. All that are kept are read: what began earlier may go on."""
        self._seq, self._run, self._number, self._last = after
        """The position of the last item that was read; no run before the first."""
        self._past: set[str] = set()
        """Runs before that one: a process that lost the thread may still hand something over."""
        self._told: Again | None = None
        """What the run told again when this reader began to read it; None if it has read all from an earlier item on."""
        self._lost = 0
        """Items that the next one has to count as missed."""
        self._shown = Shown(config.plan, after, has_open=bool(after.run) or _is_amid(config, thread, after.seq))
        self._is_new = not after.run
        """Whether the reader looks for the newest batch that tells everything again, to begin with it."""
        self.read()
        self._is_new = False

    def read(self) -> int | None:
        """Read the batches that have come, until a bound on what is held.

        Returns:
            None if all was read. Otherwise the `seq` of the last item that was read: entries after that one may not be
            given yet, because more items that come before them are in the store.
        """
        if monotonic() >= self._renew_at:
            # A store whose live items were deleted begins to count anew, and returns a smaller place.
            self._place = min(self._place, self._store.follow_live(self._thread, for_s=INTEREST_S))
            self._renew_at = monotonic() + RENEW_S
        while self._held_bytes <= _READ_BYTES:
            batches = self._store.relayed(self._thread, after=self._place, limit=1)
            if not batches:
                return None
            self._place = batches[0].place
            new = [*self._new(*opened(self._codec, batches[0].body))]
            self._held += new
            self._held_bytes += sum(sent.size for sent in new)
        return self._held[-1].seq

    def _new(self, heading: Heading, found: Sequence[Sent]) -> Iterator[Sent]:
        """Yield the items of a batch that were not read before, each with how many are missing before it.

        A batch may come twice after its driver lost a connection.
        """
        run, again = heading
        begins = run != self._run or (self._is_new and again not in (None, self._told))
        seq = again.seq if again is not None else found[-1].seq if found else 0
        # A run begins with an entry. Items from before the last one that was read are of a run that this one followed:
        # a reader that comes back meets them, and a process that lost the thread may still hand some over.
        if run in self._past or (begins and (seq < self._seq or not self._begins(run, again))):
            return
        if self._last > self._number:  # what this reader was told again goes on there, or in what was told later
            if (again.last < self._last) if again is not None else (not found or found[-1].number <= self._last):
                return
            if again is not None and again.last == self._last:
                self._told = again
        if again is None and found and found[0].number > self._last_known() + 1:
            found = [*self._told_later(found[0]), *found]
        for sent in found:
            number = sent.number
            if number <= self._number:
                continue
            told = again is not None and number <= again.last
            # Items are numbered from 1 in each run, those that were dropped included. A gap is what this reader missed,
            # but for what was told again when it began: there, the numbers of what is over are missing too.
            if not told or again != self._told:
                self._lost += max(number - 1 - self._last_known(), 0)
            self._number = number
            missed, self._lost = self._lost, 0
            if told and again is not None:
                sent = sent._replace(seq=again.seq, last=again.last)
            self._seq, self._last = sent.seq, sent.last
            yield sent._replace(missed=missed)

    def _last_known(self) -> int:
        """Return the number up to which no item is missing."""
        return self._number if self._told is None else max(self._number, self._told.last)

    def _told_later(self, first: Sent) -> Iterator[Sent]:
        """Yield what is missing before the item *first*, as far as a later batch tells it again.

        A reader that comes back finds the batches gone that it left, or items that were handed over before its run first
        told everything.
        """
        place, told = self._place, None
        while batches := self._store.relayed(self._thread, after=place, limit=1):
            place = batches[0].place
            heading, found = opened(self._codec, batches[0].body)
            if heading.run != first.run or heading.again is None or told not in (None, heading.again):
                if told is not None:
                    return
                continue
            told = heading.again
            for sent in found:
                if sent.number < first.number:
                    yield sent._replace(seq=first.seq, last=told.last)

    def _begins(self, run: str, again: Again | None) -> bool:
        """Begin to read a run, if this batch is one to begin with: it tells again what the open tasks have shown."""
        if (self._is_new or not self._run) and (again is None or again.seq < self._from):
            return False
        if self._is_new:
            self._held.clear()
            self._held_bytes = 0
        if self._run not in ("", run):
            self._past.add(self._run)
        self._run, self._number, self._last = run, 0, 0
        self._told, self._lost = again, again.lost if again is not None else 0
        return True

    def before(self, seq: int) -> Iterator[LiveItem]:
        """Yield the held items that came before the entry *seq*, and drop them."""
        held = self._held
        while held and held[0].seq < seq:
            sent = held.popleft()
            self._held_bytes -= sent.size
            yield from self._shown.items(sent)

    def passed(self, entry: Entry) -> Iterator[LiveItem]:
        """Yield what is taken back of earlier items, now that the reader has *entry*."""
        return self._shown.passed(entry)


@final
class Shown:
    """What a reader was shown of the open tasks: it is told when an attempt is given up whose items it has.

    The driver says so itself, unless it died, or the task paused and begins anew (R17).

    A nested graph goes on from its last commit: of it, only tasks that run again are taken back.

    Args:
        plan: The reader's graph.
        after: Where the reader went on. What it was shown before that is not known.
        has_open: Whether it may have been shown something of tasks that were open there.
    """

    def __init__(self, plan: Plan, after: Position, *, has_open: bool) -> None:
        self._plan = plan
        self._unsure = has_open
        """Whether the reader may have items of open tasks from before it went on."""
        self._run = after.run
        self._open: dict[str, tuple[Live, bool]] = {}
        """Open task of which the reader has items, to the item that said that it started, and whether it has ended well:
        then its outcome is kept, and its text stays valid."""

    def items(self, sent: Sent) -> Iterator[LiveItem]:
        """Yield the items for *sent*, an item that was read."""
        item = sent.item
        if type(item) is Live:
            match item.what:
                case "started":
                    known = self._open.get(item.task_id)
                    if (known is not None or self._unsure) and not self._is_nested(item):
                        yield self._withdrawn(item, sent)
                    self._open[item.task_id] = item, False
                case "withdrawn":
                    self._close(item.task_id)
                case "step":
                    self._close(item.task_id)
                case "ended" if item.task_id in self._open:
                    self._open[item.task_id] = self._open[item.task_id][0], item.value == "success"
                case _:
                    pass
        self._run = sent.run
        position = str(Position(sent.seq, sent.run, sent.number, sent.last))
        yield LiveItem(
            mode=sent.mode, item=item, seq=sent.seq, task_id=sent.task_id, position=position, missed=sent.missed
        )

    def _close(self, task_id: str) -> None:
        """Note that nothing of a task is open any more, nor of tasks of its nested graph."""
        inside = f"{task_id}/"
        for id_ in [id_ for id_ in self._open if id_ == task_id or id_.startswith(inside)]:
            del self._open[id_]

    def passed(self, entry: Entry) -> Iterator[LiveItem]:
        """Yield what is taken back, now that the reader has *entry*."""
        event = entry.event
        if entry.path:
            return
        match event:
            case SuperstepCommitted():  # its tasks are in the journal
                self._open.clear()
                self._unsure = False
            case SuperstepAbandoned():
                yield from self._all_withdrawn(entry, {*self._open})
            case RunStarted() | RunResumed() if entry.run != self._run:  # the tasks that had not ended run again
                again = {id_ for id_, (item, ended) in self._open.items() if not (ended or self._is_nested(item))}
                yield from self._all_withdrawn(entry, again)
            case _:
                pass

    def _is_nested(self, item: Live) -> bool:
        """Return whether the task of *item* runs a nested graph."""
        plan: Plan | None = self._plan
        for name in [*(id_.partition(":")[2] for id_ in item.path.split("/") if id_), item.node]:
            plan = next((node.child for node in plan.nodes if node.name == name), None) if plan is not None else None
        return plan is not None

    def _all_withdrawn(self, entry: Entry, tasks: set[str]) -> Iterator[LiveItem]:
        """Yield an item for each of *tasks* that takes back what the reader was shown of it."""
        for id_ in sorted(tasks):
            started, _ = self._open.pop(id_)
            taken_back = replace(started, what="withdrawn", value=None)
            position = str(Position(entry.seq))
            yield LiveItem(mode="live", item=taken_back, seq=entry.seq, task_id=id_, position=position)

    def _withdrawn(self, started: Live, sent: Sent) -> LiveItem:
        """Return the item that takes back what the reader was shown of a task that starts anew with the item *sent*."""
        taken_back = replace(started, what="withdrawn", value=None)
        position = str(Position(sent.seq, sent.run, sent.number - 1, sent.last))
        return LiveItem(mode="live", item=taken_back, seq=sent.seq, task_id=started.task_id, position=position)


@final
class Follower:
    """One reader of a thread that any process may drive.

    Args:
        config: The configuration of the runtime.
        thread: The thread's id.
        after: Where the reader goes on: the number of an entry, or the position of a live item.
        live: Whether live items are read between the entries.

    Raises:
        InputError: There is no such thread or entry, or the store carries no live items.
    """

    __slots__ = ("_config", "_feed", "_has_more", "_pauses", "_seq", "_thread", "over")

    def __init__(self, config: RunConfig, thread: str, after: int | str, *, live: bool) -> None:
        begins = position_of(after)
        check_position(config, thread, begins.seq)
        self._config = config
        self._thread = thread
        self._feed = LiveFeed(config, thread, begins) if live else None
        self._seq = begins.seq
        """Number of the last entry that was read."""
        self._pauses = Pauses()
        self._has_more = False
        """Whether the last look stopped at a bound before it had read all that there was."""
        self.over: bool = False
        """Whether all was read, and the thread does not go on by itself."""

    def look(self) -> list[Followed]:
        """Return what has come since the last look, in order: about `PAGE` entries at most, and their live items."""
        store, thread, feed = the_store(self._config), self._thread, self._feed
        # If this process failed to release its claim on the thread, release it now: else the thread would look driven.
        release_now(store, thread)
        head = store.head(thread)
        # Read after the head: a driver hands items over before the commit that follows them, so all items are in the
        # store that were shown before the head's last entry.
        read_to = feed.read() if feed is not None else None
        last = head.seq if read_to is None else min(read_to, head.seq)
        found: list[Followed] = []
        page = entries(self._config, thread, after=self._seq, most=PAGE) if last > self._seq else ()
        for entry in page:
            if entry.seq > last:
                break
            if feed is not None:
                found += feed.before(entry.seq)
            found.append(entry)
            self._seq = entry.seq
            if feed is not None:
                found += feed.passed(entry)
        if feed is not None and self._seq >= last:  # all entries that may be given were: then the items after the last
            found += feed.before(self._seq + 1)
        self._has_more = bool(found) and self._seq < head.seq
        self.over = not found and self._seq == head.seq and is_over(store, head)
        if found:
            self._pauses.again()
        return found

    def pause_s(self) -> float:
        """Return for how many seconds to wait before the next look."""
        return 0.0 if self._has_more else self._pauses.next_s()


def _is_amid(config: RunConfig, thread: str, seq: int) -> bool:
    """Return whether a superstep may be open after the entry *seq*, such as one that paused or failed."""
    if seq < max(the_store(config).head(thread).first, 1):  # it is 0, or was pruned
        return False
    at = next(entries(config, thread, after=seq - 1, most=1, raw=True))
    return bool(at.path) or not isinstance(at.event, _BETWEEN)


def follow(config: RunConfig, thread: str, after: int | str, *, live: bool) -> Iterator[Followed]:
    """Return an iterator over the entries of a thread, and its live items if they are read; see `Runtime.follow`.

    The position is checked in the call, and not when the first item is read.
    """
    return _followed(Follower(config, thread, after, live=live))


def _followed(follower: Follower) -> Iterator[Followed]:
    """Yield what *follower* reads until the thread is over."""
    while True:
        yield from follower.look()
        if follower.over:
            return
        sleep(follower.pause_s())


async def afollow(
    config: RunConfig, thread: str, after: int | str, call: Call, *, live: bool
) -> AsyncIterator[Followed]:
    """Yield as `follow`; the position is checked at the first read. *call* makes a call that may block."""
    from asyncio import sleep as asleep

    follower: Follower = await call(lambda: Follower(config, thread, after, live=live))
    while True:
        found: list[Followed] = await call(follower.look)
        for one in found:
            yield one
        if follower.over:
            return
        await asleep(follower.pause_s())
