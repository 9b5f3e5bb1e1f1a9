"""`follow`: the entries of a thread as they are stored, and between them what its writers show live, from any process.

A `Follower` looks at the thread again and again, after pauses that grow while nothing happens (`Pauses`). Each look
reads a page: no iterator of the store, which reads megabytes ahead, is held between two of them.

A look reads the new live items (`live_feed`), holds them back, and returns entries and items in order: an item after the
entry that it names, and before the next one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Final, TypeAlias, final

from graphrt._journal.leases import release_now
from graphrt._runs.entries import entries
from graphrt._runs.live_feed import NO_PLACE, LiveFeed
from graphrt._runs.live_items import LiveItem
from graphrt._runs.live_positions import position_of
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import SHORTEST_S, Pauses, check_position, is_over
from graphrt.events import Entry

Followed: TypeAlias = Entry | LiveItem
"""What a follower gets."""

_AFTER_LIVE_S: Final = 0.025
"""Seconds of the pause after a look that found live items alone."""
PAGE: Final = 32
"""About how many entries are read at once. A hundred slow readers hold a hundred pages, so a page is small."""


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

    __slots__ = ("_config", "_ends_quietly", "_has_more", "_pauses", "_seq", "feed", "over", "thread")

    def __init__(self, config: RunConfig, thread: str, after: int | str, *, live: bool) -> None:
        begins = position_of(after)
        check_position(config, thread, begins.seq)
        self._config = config
        self.thread: str = thread
        self.feed: LiveFeed | None = LiveFeed(config, thread, begins) if live else None
        """Reads the live items."""
        self._seq = begins.seq
        """Number of the last entry that was read."""
        self._pauses = Pauses()
        self._ends_quietly = True
        """Whether the thread may be over without another entry, as far as the last look shows."""
        self._has_more = False
        """Whether the last look stopped at a bound before it had read all that there was."""
        self.over: bool = False
        """Whether all was read, and the thread does not go on by itself."""

    def look(self) -> list[Followed]:
        """Return what has come since the last look, in order: about `PAGE` entries at most, and their live items."""
        store, thread, feed = the_store(self._config), self.thread, self.feed
        # If this process failed to release its claim on the thread, release it now: else the thread would look driven.
        release_now(store, thread)
        head = store.head(thread)
        # Read after the head: a driver hands items over before the commit that follows them, so all items are in the
        # store that were shown before the head's last entry.
        read_to = feed.read() if feed is not None else None
        last = head.seq if read_to is None else min(read_to, head.seq)
        found: list[Followed] = []
        had = self._seq
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
        # A run that goes on, a timer or a child thread store an entry. A claim is released without one, and what is read
        # before the first look without anything new says nothing of it.
        self._ends_quietly = head.status not in ("running", "new") and (head.owned or bool(found))
        if found:
            # A run hands live items over every 0.05 seconds: the next ones are not there before.
            self._pauses.again(SHORTEST_S if self._seq > had else _AFTER_LIVE_S)
        return found

    def known(self) -> tuple[int, int] | None:
        """Return the last entry and the last place that were read, as `Store.news` takes them.

        None if the thread may be over without another entry, so that only a look shows it.
        """
        if self._ends_quietly:
            return None
        return self._seq, NO_PLACE if self.feed is None else self.feed.place

    def pause_s(self) -> float:
        """Return for how many seconds to wait before the next look."""
        return 0.0 if self._has_more else self._pauses.next_s()


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
