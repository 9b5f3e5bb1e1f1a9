"""`follow`: a thread's entries as they are stored, interleaved with the live items of its writers, from any process.

A `Follower` polls the thread, with pauses that grow while nothing happens (`Pauses`). Each poll reads one page. No
store iterator stays open between polls, since it would read megabytes ahead.

A poll reads the new live items (`live_feed`), buffers them, and returns entries and items in order: an item comes after
the entry that it names and before the next one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep
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
"""The items of a follower."""

AFTER_LIVE_S: Final = 0.04
"""Seconds to pause after a poll that found only live items: slightly more than the interval between batches. In the
process that hands the batches over, readers are polled for right afterwards, since their pause is then nearly over."""
_LIVE_ALONE_S: Final = 0.25
"""Seconds for which live items may be read without polling the thread. While a queued task shows a steady stream of
items, an entry is delayed by at most this long."""
PAGE: Final = 32
"""Approximate number of entries read at once. A hundred slow readers hold a hundred pages, so pages are small."""


@final
class Follower:
    """One reader of a thread that any process may drive.

    Args:
        config: The configuration of the runtime.
        thread: The thread's id.
        after: Where the reader continues: the number of an entry, or the position of a live item.
        live: Whether live items are read between the entries.
        raw: As for `entries`.

    Raises:
        InputError: There is no such thread or entry, or the store carries no live items.
    """

    __slots__ = (
        "_alone_at", "_config", "_ends_quietly", "_has_more", "_pauses", "_raw", "_seq", "feed", "over", "thread"
    )  # fmt: skip

    def __init__(self, config: RunConfig, thread: str, after: int | str, *, live: bool, raw: bool) -> None:
        begins = position_of(after)
        check_position(config, thread, begins.seq)
        self._config = config
        self._raw = raw
        self.thread: str = thread
        self.feed: LiveFeed | None = LiveFeed(config, thread, begins) if live else None
        """Reads the live items."""
        self._seq = begins.seq
        """Number of the last entry read."""
        self._pauses = Pauses()
        self._ends_quietly = True
        """Whether, as of the last poll, the thread may end without another entry."""
        self._alone_at: float | None = None
        """Monotonic time of the first poll since the thread itself was last read; None if there was none."""
        self._has_more = False
        """Whether the last poll stopped at a limit before it had read everything."""
        self.over: bool = False
        """Whether everything was read and the thread does not continue by itself."""

    def look(self) -> list[Followed]:
        """Return the items since the last poll, in order: at most about `PAGE` entries, with their live items."""
        if self.feed is not None and (shown := self._shown(self.feed)):
            return shown
        store, thread, feed = the_store(self._config), self.thread, self.feed
        # If this process failed to release its claim on the thread, release it now. Else the thread would look driven.
        release_now(store, thread)
        head, self._alone_at = store.head(thread), None
        # Read after the head: a driver hands over items before the commit that follows them, so all items shown before
        # the head's last entry are in the store.
        read_to = feed.read() if feed is not None else None
        last = head.seq if read_to is None else min(read_to, head.seq)
        if feed is not None:
            feed.wait(head, self._seq)
        items: list[Followed] = []
        last_seq = self._seq
        page = entries(self._config, thread, after=self._seq, most=PAGE, raw=self._raw) if last > self._seq else ()
        for entry in page:
            if entry.seq > last:
                break
            if feed is not None:
                if not self._raw:  # else the classes of values may be missing
                    feed.meet(entry)
                items += feed.before(entry.seq)
            items.append(entry)
            self._seq = entry.seq
            if feed is not None:
                items += feed.passed(entry)
        if feed is not None and self._seq >= last:  # all entries have been returned; now the items after the last one
            items += feed.before(self._seq + 1)
        self._has_more = bool(items) and self._seq < head.seq
        self.over = not items and self._seq == head.seq and is_over(store, head)
        # An active run, a timer or a child thread stores an entry. A claim is released without one, and a read before
        # the first poll without news does not show that.
        self._ends_quietly = head.status not in ("running", "new") and (head.owned or bool(items))
        if items:
            # A run hands over live items every 0.05 seconds.
            self._pauses.again(SHORTEST_S if self._seq > last_seq else AFTER_LIVE_S)
        return items

    def _shown(self, feed: LiveFeed) -> list[Followed]:
        """Return live items that come before any next entry. While tokens are streaming, most polls find only these."""
        if self._alone_at is not None and monotonic() - self._alone_at > _LIVE_ALONE_S:
            return []
        read_to = feed.read()
        items: list[Followed] = [*feed.before(self._seq + 1)]
        if items:
            self._alone_at = self._alone_at or monotonic()
            self._has_more = read_to is not None
            self._pauses.again(AFTER_LIVE_S)
        return items

    def known(self) -> tuple[int, int] | None:
        """Return the last entry and the last place read, in the form that `Store.news` takes.

        None if the thread may end without another entry, so that only a poll shows it.
        """
        if self._ends_quietly:
            return None
        return self._seq, NO_PLACE if self.feed is None else self.feed.place

    def pause_s(self) -> float:
        """Return how many seconds to wait before the next poll."""
        return 0.0 if self._has_more else self._pauses.next_s()


def follow(config: RunConfig, thread: str, after: int | str, *, live: bool, raw: bool) -> Iterator[Followed]:
    """Return an iterator over a thread's entries, and its live items if requested; see `Runtime.follow`.

    The position is checked immediately, not when the first item is read.
    """
    return _followed(Follower(config, thread, after, live=live, raw=raw))


def _followed(follower: Follower) -> Iterator[Followed]:
    """Yield the items that *follower* reads until the thread is over."""
    while True:
        yield from follower.look()
        if follower.over:
            return
        sleep(follower.pause_s())
