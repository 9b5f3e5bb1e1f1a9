"""`follow(live=True)`: the entries of a thread, and between them what its driver shows live, from any process.

The process that drives the thread hands live items to the store only while a follower notes its *interest* there, in
batches (decision 0160). A batch has a *place*, which grows with each batch of the thread. An item has its number within
its run, and `seq`, the number of the last entry before it.

A follower looks at the thread again and again, after pauses that grow while nothing happens (`Pauses`). Each look reads
the new batches, holds their items back, and gives entries and items in order: an item after the entry that it names,
and before the next one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from functools import partial
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, TypeAlias, final

from graphrt._journal.leases import release_now
from graphrt._runs.entries import entries
from graphrt._runs.live_items import LiveItem, Sent, items
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import PAGE, Call, Pauses, check_position, is_over
from graphrt.events import Entry

Followed: TypeAlias = Entry | LiveItem
"""What a follower gets."""

INTEREST_S: Final = 10.0
"""Seconds for which interest is noted. A reader that is held up for longer misses items, and their number is shown."""
RENEW_S: Final = 2.0
"""Seconds between two notes of interest."""
_READ_BYTES: Final = 2**18
"""Bytes of items after which a reader gives what it has before it reads on: a hundred slow readers then hold little."""


class Look(NamedTuple):
    """What one look at a thread found."""

    found: list[Followed]
    """Entries and live items, in order."""
    seq: int
    """Number of the last entry that was found so far, by this look or an earlier one."""
    over: bool
    """Whether all was given, and the thread does not go on by itself: the follower ends."""


@final
class LiveFeed:
    """The live items of one thread, as one follower reads them.

    Interest is noted when it is made, and renewed by `read`.

    Raises:
        InputError: The store carries no live items (`store-lacks`).
    """

    def __init__(self, config: RunConfig, thread: str) -> None:
        self._store = the_store(config)
        self._store.require("live")
        self._codec = config.plan.codec
        self._thread = thread
        self._held: deque[Sent] = deque()
        """Items that were read and not given yet, in order."""
        self._held_bytes = 0
        self._renew_at = monotonic() + RENEW_S
        """Monotonic time at which interest is noted again."""
        self._place = self._store.follow_live(thread, for_s=INTEREST_S)
        """Place of the last batch that was read; 0 before any."""
        self._read: tuple[str, int] = "", 0
        """Run and number of the last item that was read."""
        # Earlier items were for other followers, and this one did not miss them. The newest batch, which is read by
        # asking for what comes after the place before it, says which number the next item has to follow.
        for one in self._store.relayed(thread, after=self._place - 1, limit=1) if self._place else ():
            for sent in items(self._codec, one.body):
                self._read = sent.run, sent.number
        self._given = self._read
        """Run and number of the last item that was given, from which missed ones are counted."""

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
            new = [sent for sent in items(self._codec, batches[0].body) if self._is_new(sent)]
            self._held += new
            self._held_bytes += sum(sent.size for sent in new)
        return self._held[-1].seq

    def _is_new(self, sent: Sent) -> bool:
        """Return whether the item was not read before: a batch may come twice after its driver lost a connection."""
        run, number = self._read
        if sent.run == run and sent.number <= number:
            return False
        self._read = sent.run, sent.number
        return True

    def before(self, seq: int) -> Iterator[LiveItem]:
        """Yield the held items that came before the entry *seq*, and drop them."""
        held = self._held
        while held and held[0].seq < seq:
            run, number, at, mode, item, size = held.popleft()  # *at*: its `seq`; *size*: bytes of its encoded form
            self._held_bytes -= size
            # Items are numbered from 1 in each run, those that were dropped included. A gap is what this reader missed.
            last, self._given = self._given, (run, number)
            missed = number - 1 - (last[1] if run == last[0] else 0)
            yield LiveItem(mode=mode, item=item, seq=at, missed=missed)


def follow(config: RunConfig, thread: str, after: int) -> Iterator[Followed]:
    """Return an iterator over entries and live items of the thread; see `Runtime.follow`.

    Args:
        after: Only entries with a greater number.

    Raises:
        InputError: There is no such thread or entry, or the store carries no live items.
    """
    check_position(config, thread, after)
    return _followed(config, thread, after, LiveFeed(config, thread))


def _followed(config: RunConfig, thread: str, after: int, feed: LiveFeed) -> Iterator[Followed]:
    """Yield entries and live items until the thread is over; apart from `follow`, which checks when it is called."""
    seq, pauses = after, Pauses()
    while True:
        found, seq, over = look(config, thread, seq, feed)
        yield from found
        if over:
            return
        if found:
            pauses.again()
        sleep(pauses.next_s())


async def afollow(config: RunConfig, thread: str, after: int, call: Call) -> AsyncIterator[Followed]:
    """Yield entries and live items of the thread; see `follow`. *call* makes a call that may block, on a worker thread."""
    from asyncio import sleep as asleep

    def begun() -> LiveFeed:
        """Check the position and note interest, in one call that may block."""
        check_position(config, thread, after)
        return LiveFeed(config, thread)

    feed: LiveFeed = await call(begun)
    seq, pauses = after, Pauses()
    while True:
        new: Look = await call(partial(look, config, thread, seq, feed))
        seq = new.seq
        for one in new.found:
            yield one
        if new.over:
            return
        if new.found:
            pauses.again()
        await asleep(pauses.next_s())


def look(config: RunConfig, thread: str, after: int, feed: LiveFeed) -> Look:
    """Return what the thread has after the entry *after*, in order: about `PAGE` entries at most, and their items."""
    store = the_store(config)
    release_now(store, thread)  # a claim of this process whose release failed would make the thread look driven
    head = store.head(thread)
    # Read after the head: a driver hands items over before the commit that follows them, so all items are in the store
    # that were shown before the head's last entry.
    read_to = feed.read()
    last = head.seq if read_to is None else min(read_to, head.seq)
    found: list[Any] = []
    seq = after
    if last > after:
        for entry in entries(config, thread, after=after, most=PAGE):
            if entry.seq > last:
                break
            found += feed.before(entry.seq)
            found.append(entry)
            seq = entry.seq
    if seq >= last:  # all entries that may be given were: then the items after the last of them
        found += feed.before(seq + 1)
    return Look(found, seq, not found and seq == head.seq and is_over(store, head))
