"""`follow(live=True)`: the entries of a thread, and between them what its driver shows live, from any process (R20)."""

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
from graphrt.stores.live import relaying

Followed: TypeAlias = Entry | LiveItem

INTEREST_S: Final = 10.0
"""Seconds for which interest is noted. A reader that is held up for longer misses items, and is told how many."""
RENEW_S: Final = 2.0
"""Seconds between two notes."""
_READ_BYTES: Final = 2**18
"""Bytes of items after which a reader gives what it has before it reads on, so that a hundred slow readers hold little."""


class Look(NamedTuple):
    """What one look at a thread found."""

    found: list[Followed]
    seq: int
    """Number of the last entry that was found so far."""
    over: bool


@final
class LiveFeed:
    """The live items of one thread, as one follower reads them.

    Interest is noted when it is made.

    Raises:
        InputError: The store carries no live items (`store-lacks`).
    """

    def __init__(self, config: RunConfig, thread: str) -> None:
        self._store = relaying(the_store(config))
        self._codec = config.plan.codec
        self._thread = thread
        self._held: deque[Sent] = deque()
        self._held_bytes = 0
        self._renew_at = monotonic() + RENEW_S
        self._place = self._store.follow_live(thread, for_s=INTEREST_S)
        self._read: tuple[str, int] = "", 0
        """Run and number of the last item that was read."""
        # What came before is for others, and not missed by this reader.
        for one in self._store.relayed(thread, after=self._place - 1, limit=1) if self._place else ():
            for sent in items(self._codec, one.body):
                self._read = sent.run, sent.number
        self._given = self._read

    def read(self) -> int | None:
        """Read what has come.

        Returns:
            None if all was read. Otherwise the number of the last entry before the last item that was read: what comes
            after this entry may not be given yet.
        """
        if monotonic() >= self._renew_at:
            # A store whose live items were deleted begins to count anew.
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
        """Yield the items that came before the entry *seq*."""
        held = self._held
        while held and held[0].seq < seq:
            run, number, at, mode, item, size = held.popleft()
            self._held_bytes -= size
            last, self._given = self._given, (run, number)
            missed = number - 1 - (last[1] if run == last[0] else 0)
            yield LiveItem(mode=mode, item=item, seq=at, missed=missed)


def follow(config: RunConfig, thread: str, after: int) -> Iterator[Followed]:
    """Return an iterator over entries and live items of the thread; see `Runtime.follow`."""
    check_position(config, thread, after)
    return _followed(config, thread, after, LiveFeed(config, thread))


def _followed(config: RunConfig, thread: str, after: int, feed: LiveFeed) -> Iterator[Followed]:
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
    """Yield entries and live items of the thread; *call* makes a call that may block."""
    from asyncio import sleep as asleep

    def begun() -> LiveFeed:
        check_position(config, thread, after)
        return LiveFeed(config, thread)

    feed: LiveFeed = await call(begun)
    seq, pauses = after, Pauses()
    while True:
        told: Look = await call(partial(look, config, thread, seq, feed))
        seq = told.seq
        for one in told.found:
            yield one
        if told.over:
            return
        if told.found:
            pauses.again()
        await asleep(pauses.next_s())


def look(config: RunConfig, thread: str, after: int, feed: LiveFeed) -> Look:
    """Return what the thread has after the entry *after*, in order, a page of it at most."""
    store = the_store(config)
    release_now(store, thread)
    head = store.head(thread)
    # After the head: a driver hands items over before the commit that follows them, so all are here that were shown
    # before the head's last entry.
    told = feed.read()
    last = head.seq if told is None else min(told, head.seq)
    found: list[Any] = []
    seq = after
    if last > after:
        for entry in entries(config, thread, after=after, most=PAGE):
            if entry.seq > last:
                break
            found += feed.before(entry.seq)
            found.append(entry)
            seq = entry.seq
    if seq >= last:
        found += feed.before(seq + 1)
    return Look(found, seq, not found and seq == head.seq and is_over(store, head))
