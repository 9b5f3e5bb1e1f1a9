"""`follow`: the entries of a thread as they are stored, and between them what its driver shows live, from any process.

A `Follower` looks at the thread again and again, after pauses that grow while nothing happens (`Pauses`). Each look
reads a page: no iterator of the store, which reads megabytes ahead, is held between two of them.

The process that drives the thread hands live items to the store only while a follower notes its *interest* there, in
batches (decision 0160). A batch has a *place*, which grows with each batch of the thread. An item has its number within
its run, and `seq`, the number of the last entry before it.

A look reads the new batches, holds their items back, and returns entries and items in order: an item after the entry
that it names, and before the next one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from time import monotonic, sleep
from typing import Final, TypeAlias, final

from graphrt._journal.leases import release_now
from graphrt._runs.entries import entries
from graphrt._runs.live_items import LiveItem, Sent, items
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import Call, Pauses, check_position, is_over
from graphrt.events import Entry

Followed: TypeAlias = Entry | LiveItem
"""What a follower gets."""

PAGE: Final = 32
"""About how many entries are read at once. A hundred slow readers hold a hundred pages, so a page is small."""
INTEREST_S: Final = 10.0
"""Seconds for which interest is noted. A reader that is held up for longer misses items, and their number is shown."""
RENEW_S: Final = 2.0
"""Seconds between two notes of interest."""
_READ_BYTES: Final = 2**18
"""Bytes of items after which a reader gives what it has before it reads on: a hundred slow readers then hold little."""


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


@final
class Follower:
    """One reader of a thread that any process may drive.

    Args:
        config: The configuration of the runtime.
        thread: The thread's id.
        after: Only entries with a greater number are read.
        live: Whether live items are read between the entries.

    Raises:
        InputError: There is no such thread or entry, or the store carries no live items.
    """

    __slots__ = ("_config", "_feed", "_has_more", "_pauses", "_seq", "_thread", "over")

    def __init__(self, config: RunConfig, thread: str, after: int, *, live: bool) -> None:
        check_position(config, thread, after)
        self._config = config
        self._thread = thread
        self._feed = LiveFeed(config, thread) if live else None
        self._seq = after
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


def follow(config: RunConfig, thread: str, after: int, *, live: bool) -> Iterator[Followed]:
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


async def afollow(config: RunConfig, thread: str, after: int, call: Call, *, live: bool) -> AsyncIterator[Followed]:
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
