"""`afollow`: followers on event loops, which share one poll of the store while they wait.

A follower that has read everything waits for *news*: another entry, or live items. The watch of its store, a worker
thread, polls at once for all followers whose pause is over (`Store.news`). Followers with news read in the same thread,
and then their event loops are woken, because passing a call to another thread and its result back costs more CPU time
than a read. If the reads take long, the remaining followers read in their own calls. So a thousand idle followers cost
about eight calls a second in total, plus one every few seconds that renews their interest in live items.

A pause may end after half its length, which synchronizes followers that started to wait at different times, and their
polls with those for mail. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt._journal.mail_watch import MailWatch, watch_of
from graphrt._runs.following import AFTER_LIVE_S, Follower
from graphrt._runs.live_feed import INTEREST_S, LiveFeed
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import Call, longer
from graphrt.stores.protocol import Store
from graphrt.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    import asyncio  # else imported by those who have an event loop

T = TypeVar("T")

_EARLY: Final = 0.5
"""Fraction of its pause by which a follower may be polled early."""
_LOOKS_S: Final = 0.02
"""Seconds after which no further follower looks in the thread of the watch, so that those that read much do not hold
up the others."""
_SOONEST_S: Final = 0.002
"""Minimum number of seconds between two polls of a watch."""


@final
class AsyncFollowing(Generic[T]):
    """Iterates over the entries of a thread on an event loop, and over its live items; see `Runtime.afollow`.

    A cancelled read loses no items: the next one continues. Two reads must not continue at the same time.
    """

    def __init__(self, config: RunConfig, thread: str, after: int | str, call: Call, *, live: bool, raw: bool) -> None:
        self._config = config
        self._call = call
        self._make = partial(Follower, config, thread, after, live=live, raw=raw)
        self._follower: Follower | None = None
        self._items: deque[Any] = deque()
        """Items read but not yet returned."""
        self._is_over = False
        self._looking = Lock()
        """Held during a poll, since a cancelled caller may read again while the poll of its watch is still running."""

    def __aiter__(self) -> te.Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> T:
        """Return the next item as soon as it is available.

        Raises:
            StopAsyncIteration: The run has ended, and all was returned.
            InputError: There is no such thread or position.
            StoreError: The store cannot be read.
        """
        while not self._items:
            if self._is_over:
                raise StopAsyncIteration
            follower = self._follower
            if follower is None or not (pause_s := follower.pause_s()) or not await self._waited(follower, pause_s):
                await self._call(self._look)
        item: T = self._items.popleft()
        return item

    async def _waited(self, follower: Follower, pause_s: float) -> bool:
        """Wait for news; return whether the watch has polled, so that the reader need not."""
        from asyncio import get_running_loop

        store, thread = the_store(self._config), follower.thread
        while isinstance(store, StoreWrapper):  # the tenants of a store are asked for together
            thread, store = store.inner_id(thread), store.store
        future = get_running_loop().create_future()
        news = watch_of(store).readers(_News)
        return await news.looked(_Wait(follower, thread, self._try_to_look, future), pause_s)

    def _look(self) -> None:
        """Look at the store. Items are kept here after they are read, since the caller may be cancelled meanwhile."""
        with self._looking:
            self._looked()

    def _try_to_look(self) -> bool:
        """Look, and return whether that was possible: not after an error, which the reader's own look raises."""
        if not self._looking.acquire(blocking=False):  # its reader was cancelled, and reads again
            return False
        try:
            self._looked()
        except Exception:  # noqa: BLE001 - see above
            return False
        else:
            return True
        finally:
            self._looking.release()

    def _looked(self) -> None:
        if self._follower is None:
            self._follower = self._make()
        self._items += self._follower.look()
        self._is_over = self._is_over or self._follower.over

    def ready(self) -> list[T]:
        """Return the items that were read together with the last one, 0 or more in order; they are not returned again.

        So a reader that passes items on can pass on together those that came together.
        """
        items = [*self._items]
        self._items.clear()
        return items

    async def aclose(self) -> None:
        """End the iteration."""
        self._is_over = True
        self._items.clear()


_Future: TypeAlias = "asyncio.Future[bool]"


@final
class _Wait:
    """A follower that waits for news.

    Args:
        follower: The follower.
        thread: Id of its thread, in the innermost store.
        look: Has it look at the store, and returns whether it could.
        future: Is done when it has looked, or is to look by itself.
    """

    __slots__ = ("follower", "future", "look", "thread")

    def __init__(self, follower: Follower, thread: str, look: Callable[[], bool], future: _Future) -> None:
        self.follower: Follower = follower
        self.thread: str = thread
        self.look: Callable[[], bool] = look
        self.future: _Future = future


@final
class _Group:
    """Followers that wait in step.

    Those with the longest pause soon form one group, which costs as much as a single follower.

    Args:
        pause_s: Seconds that they wait.
        now: Monotonic time at which they start waiting.
    """

    __slots__ = ("due_at", "has_lookers", "known", "pause_s", "renew_at", "waits")

    def __init__(self, pause_s: float, now: float) -> None:
        self.pause_s: float = pause_s
        self.due_at: float = now + pause_s
        self.waits: set[_Wait] = set()
        self.known: dict[str, tuple[int, int]] | None = None
        """The positions that the followers know, as `Store.news` takes them; None if they have to be read from them."""
        self.has_lookers: bool = False
        """Whether one of them polls by itself, regardless of the store."""
        self.renew_at: float = inf
        """The earliest time at which one of them must renew its interest in live items."""

    def read(self) -> dict[str, tuple[int, int]]:
        """Return the positions that the followers know."""
        if self.known is None:
            self.known, self.renew_at, self.has_lookers = {}, inf, False
            for wait in self.waits:
                if (position := wait.follower.known()) is not None:
                    other = self.known.get(wait.thread, position)
                    self.known[wait.thread] = min(position[0], other[0]), min(position[1], other[1])
                else:
                    self.has_lookers = True
                if wait.follower.feed is not None:
                    self.renew_at = min(self.renew_at, wait.follower.feed.renew_at)
        return self.known

    def join(self, other: _Group) -> None:
        """Add the followers of *other*, which wait equally long."""
        self.waits |= other.waits
        self.due_at = min(self.due_at, other.due_at)
        self.known = None
        other.waits = set()

    def taken(self, news: set[str] | None) -> set[_Wait]:
        """Remove and return the followers of the threads *news* (None for all) and those that poll themselves."""
        if news is not None and not self.has_lookers and news.isdisjoint(self.read()):
            return set()
        waits = {wait for wait in self.waits if news is None or wait.thread in news or wait.follower.known() is None}
        if waits:
            self.waits -= waits
            self.known = None
        return waits


@final
class _News:
    """The followers that wait for news of one store, on all event loops of this process.

    Implements `_journal.mail_watch.Readers`.

    Args:
        watch: Its worker thread polls for them.
    """

    def __init__(self, watch: MailWatch) -> None:
        self._watch = watch
        self._changed = watch.changed
        self._groups: list[_Group] = []
        """The waiting followers. The longest pause has few groups, and each follower that had news begins in a
        separate group."""
        self._soonest_at = -inf
        """Monotonic time of the earliest next poll."""

    async def looked(self, wait: _Wait, pause_s: float) -> bool:
        """Wait until a follower has polled the store; False if it must poll itself, for instance if the store fails."""
        group = _Group(pause_s, time.monotonic())
        group.waits.add(wait)
        with self._changed:
            self._groups.append(group)
            self._watch.poll_by(group.due_at)
        try:
            return await wait.future
        finally:
            if wait.future.cancelled():  # its reader has left
                with self._changed:
                    for other in self._groups:
                        if wait in other.waits:
                            other.waits.discard(wait)
                            other.known = None

    def due_at(self, handed_over_at: float) -> float:
        """Return the monotonic time of the next poll; see `_journal.mail_watch.Readers`."""
        times = (
            max(group.due_at, handed_over_at) if group.pause_s >= AFTER_LIVE_S else group.due_at
            for group in self._groups
            if group.waits
        )
        return max(self._soonest_at, min(times, default=inf))

    def look(self, store: Store) -> None:
        """Poll for the followers whose pause is over, or nearly, and wake those with news.

        If the store fails, each polls itself.
        """
        now = time.monotonic()
        news: set[str] | None = None
        with self._changed:
            self._groups = [group for group in self._groups if group.waits]
            work = [group for group in self._groups if group.due_at - group.pause_s * _EARLY <= now]
            if not work:
                return
            known = work[0].read() if len(work) == 1 else _merged([group.read() for group in work])
            feeds = self._feeds() if min(group.renew_at for group in work) <= now else ()
        with suppress(Exception):
            if feeds:
                _renew(store, feeds)
            news = store.news(known)
        woken = self._wait_on(work, news)
        until = time.monotonic() + _LOOKS_S
        done: defaultdict[Any, list[tuple[_Future, bool]]] = defaultdict(list)
        for wait in woken:
            if wait.future.done():  # its reader has left
                continue
            is_in_time = news is not None and time.monotonic() < until
            done[wait.future.get_loop()].append((wait.future, is_in_time and wait.look()))
        for loop, futures in done.items():
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_wake, futures)
        self._soonest_at = time.monotonic() + _SOONEST_S

    def _feeds(self) -> list[tuple[str, LiveFeed]]:
        """Return the followed live items, each with its thread, to renew the interest in them."""
        for group in self._groups:
            group.known = None  # the places may change
        waits = [wait for group in self._groups for wait in group.waits]
        return [(wait.thread, wait.follower.feed) for wait in waits if wait.follower.feed is not None]

    def _wait_on(self, due: list[_Group], news: set[str] | None) -> list[_Wait]:
        """Remove and return the followers of *due* with *news*, None for all; the others wait on, for longer."""
        woken: list[_Wait] = []
        with self._changed:
            now = time.monotonic()
            for group in due:
                woken += group.taken(news)
                group.pause_s = longer(group.pause_s)
                group.due_at = now + group.pause_s
            first_of: dict[float, _Group] = {}
            for group in self._groups:
                first = first_of.setdefault(group.pause_s, group)
                if first is not group and group.waits:
                    first.join(group)
        return woken


def _wake(futures: list[tuple[_Future, bool]]) -> None:
    """Wake the readers of followers; called on their event loop."""
    for future, has_looked in futures:
        if not future.done():  # else its reader has left
            future.set_result(has_looked)


def _merged(groups: Iterable[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return, for each thread, the earliest position known to a follower."""
    known: dict[str, tuple[int, int]] = {}
    for positions in groups:
        for thread, position in positions.items():
            other = known.get(thread, position)
            known[thread] = position if position == other else (min(position[0], other[0]), min(position[1], other[1]))
    return known


def _renew(store: Store, feeds: Iterable[tuple[str, LiveFeed]]) -> None:
    """Renew the interest of *feeds*, each with the id of its thread in *store*."""
    places = store.follow_live({thread for thread, _ in feeds}, for_s=INTEREST_S)
    for thread, feed in feeds:
        feed.renewed(places[thread])
