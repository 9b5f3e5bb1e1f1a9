"""`afollow`: followers on an event loop, and one look at the store for all of them that wait.

A follower that has read everything waits for *news*: another entry, or live items. The watch of its store and event loop
asks for all followers whose pause is over in one call (`Store.news`), on a worker thread, and wakes those with news. So
a thousand followers to whom nothing happens cost some ten calls a second in all, and one every few seconds that renews
their interest in live items.

A pause may end a quarter early: this brings followers into step that began to wait at different times. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt._runs.following import Follower
from graphrt._runs.live_feed import INTEREST_S, LiveFeed
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import Call, longer
from graphrt.stores.protocol import Store
from graphrt.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    import asyncio  # else imported by those who have an event loop

T = TypeVar("T")

_EARLY: Final = 0.25
"""Part of its pause by which a follower may be asked for early."""
_SOONEST_S: Final = 0.002
"""Seconds between two looks of a watch at least."""


@final
class AsyncFollowing(Generic[T]):
    """Iterates over the entries of a thread on an event loop, and over its live items; see `Runtime.afollow`.

    A read that is cancelled loses nothing: the next one goes on. Two reads must not go on at the same time.
    """

    def __init__(self, config: RunConfig, thread: str, after: int | str, call: Call, *, live: bool) -> None:
        self._config = config
        self._call = call
        self._make = partial(Follower, config, thread, after, live=live)
        self._follower: Follower | None = None
        self._items: deque[Any] = deque()
        """What was read and not returned yet."""
        self._is_over = False

    def __aiter__(self) -> te.Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> T:
        """Return the next item, as soon as it is there.

        Raises:
            StopAsyncIteration: The run has ended, and all was returned.
            InputError: There is no such thread or position.
            StoreError: The store cannot be read.
        """
        while not self._items:
            if self._is_over:
                raise StopAsyncIteration
            if self._follower is not None:
                await _news(the_store(self._config), self._follower, self._call)
            await self._call(self._look)
        item: T = self._items.popleft()
        return item

    def _look(self) -> None:
        """Look at the store. What is read is kept here, since the caller may be cancelled meanwhile."""
        if self._follower is None:
            self._follower = self._make()
        self._items += self._follower.look()
        self._is_over = self._is_over or self._follower.over

    def ready(self) -> list[T]:
        """Return the items that were read together with the last one, 0 or more in order; they are not returned again.

        A reader that passes items on can so pass on together what came together.
        """
        items = [*self._items]
        self._items.clear()
        return items

    async def aclose(self) -> None:
        """End the iteration."""
        self._is_over = True
        self._items.clear()


class _Wait(NamedTuple):
    """A follower that waits for news."""

    follower: Follower
    thread: str
    """Id of its thread in the innermost store."""


_Future: TypeAlias = "asyncio.Future[None]"


@final
class _Group:
    """Followers that wait in step: those with the longest pause are soon in one group, which costs as one of them does.

    Args:
        pause_s: How long they wait.
        now: Time of the event loop, at which they begin to.
    """

    __slots__ = ("due_at", "has_lookers", "known", "pause_s", "renew_at", "waits")

    def __init__(self, pause_s: float, now: float) -> None:
        self.pause_s: float = pause_s
        self.due_at: float = now + pause_s
        self.waits: dict[_Future, _Wait] = {}
        """The followers, by the future that is done when the follower is to look."""
        self.known: dict[str, tuple[int, int]] | None = None
        """What the followers know, as `Store.news` takes it; None if that is to be read from them."""
        self.has_lookers: bool = False
        """Whether one of them looks by itself, whatever the store says."""
        self.renew_at: float = inf
        """The first time at which one of them is to note its interest in live items again."""

    def read(self) -> dict[str, tuple[int, int]]:
        """Return what the followers know."""
        if self.known is None:
            self.known, self.renew_at, self.has_lookers = {}, inf, False
            for wait in self.waits.values():
                if (one := wait.follower.known()) is not None:
                    other = self.known.get(wait.thread, one)
                    self.known[wait.thread] = min(one[0], other[0]), min(one[1], other[1])
                else:
                    self.has_lookers = True
                if wait.follower.feed is not None:
                    self.renew_at = min(self.renew_at, wait.follower.feed.renew_at)
        return self.known

    def remove(self, future: _Future) -> None:
        """Remove a follower, if it is here."""
        if self.waits.pop(future, None) is not None:
            self.known = None

    def join(self, other: _Group) -> None:
        """Take the followers of *other*, which wait as long."""
        self.waits |= other.waits
        self.due_at = min(self.due_at, other.due_at)
        self.known = None
        other.waits = {}

    def wake(self, news: set[str] | None) -> None:
        """Wake the followers of the threads *news*, None for all, and those that look by themselves."""
        if news is not None and not self.has_lookers and news.isdisjoint(self.read()):
            return
        for future, wait in [*self.waits.items()]:
            if news is None or wait.thread in news or wait.follower.known() is None:
                self.remove(future)
                if not future.done():  # else its reader leaves
                    future.set_result(None)


@final
class _NewsWatch:
    """The followers that wait for news of one store on one event loop.

    Args:
        store: The store, without the wrappers around it.
        call: Makes a call that may block.
        loop: The event loop.
        over: Called when nothing waits any more.
    """

    def __init__(self, store: Store, call: Call, loop: asyncio.AbstractEventLoop, over: Callable[[], Any]) -> None:
        self._store = store
        self._call = call
        self._loop = loop
        self._over = over
        self._groups: list[_Group] = []
        """What waits; the longest pause has few groups, and each follower that had news begins with one of its own."""
        self._timer: asyncio.TimerHandle | None = None
        """Begins the next look."""
        self._looking: asyncio.Task[None] | None = None
        """The look that goes on."""

    async def wait(self, follower: Follower, thread: str, pause_s: float) -> None:
        """Wait until *follower* is to look at the store."""
        future: _Future = self._loop.create_future()
        group = _Group(pause_s, self._loop.time())
        group.waits[future] = _Wait(follower, thread)
        self._groups.append(group)
        self._arm()
        try:
            await future
        finally:
            for one in self._groups:
                one.remove(future)
            self._groups = [one for one in self._groups if one.waits]
            if not self._groups:
                if self._timer is not None:
                    self._timer.cancel()
                self._over()

    def _arm(self) -> None:
        """Have the next look begin when the first pause is over."""
        if self._looking is not None or not self._groups:
            return
        at = max(min(group.due_at for group in self._groups), self._loop.time() + _SOONEST_S)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        # Else the look would have the context variables of the follower that came by chance.
        self._timer = self._loop.call_at(at, self._begin, context=Context())

    def _begin(self) -> None:
        """Begin to look for the followers whose pauses are over."""
        self._timer = None
        now = self._loop.time()
        due = [group for group in self._groups if group.due_at - group.pause_s * _EARLY <= now]
        if due:
            self._looking = self._loop.create_task(self._look(due))
        else:
            self._arm()

    async def _look(self, due: list[_Group]) -> None:
        """Look for *due*, and wake those with news. If the store fails, all are: their own looks raise its error."""
        news: set[str] | None = None
        try:
            with suppress(Exception):
                known = due[0].read() if len(due) == 1 else _merged([group.read() for group in due])
                if min(group.renew_at for group in due) <= monotonic():
                    waits = [wait for group in self._groups for wait in group.waits.values()]
                    feeds = [(wait.thread, wait.follower.feed) for wait in waits if wait.follower.feed is not None]
                    for group in self._groups:
                        group.known = None  # the places may change
                    await self._call(partial(_renew, self._store, feeds))
                news = await self._call(partial(self._store.news, known))
        finally:
            self._looking = None
            self._wait_on(due, news)
            self._arm()

    def _wait_on(self, due: list[_Group], news: set[str] | None) -> None:
        """Wake the followers of *due* with *news*, None for all; the others wait on, for longer."""
        now = self._loop.time()
        for group in due:
            group.wake(news)
            group.pause_s = longer(group.pause_s)
            group.due_at = now + group.pause_s
        first_of: dict[float, _Group] = {}
        for group in self._groups:
            first = first_of.setdefault(group.pause_s, group)
            if first is not group and group.waits:
                first.join(group)
        self._groups = [group for group in self._groups if group.waits]


def _merged(several: list[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return for each thread the least that a follower knows."""
    known: dict[str, tuple[int, int]] = {}
    for some in several:
        for thread, one in some.items():
            other = known.get(thread, one)
            known[thread] = one if one == other else (min(one[0], other[0]), min(one[1], other[1]))
    return known


def _renew(store: Store, feeds: list[tuple[str, LiveFeed]]) -> None:
    """Note the interest of *feeds* again, each with the id of its thread in *store*."""
    places = store.follow_live({thread for thread, _ in feeds}, for_s=INTEREST_S)
    for thread, feed in feeds:
        feed.renewed(places[thread])


_watches: Final[dict[tuple[Any, Store], _NewsWatch]] = {}
"""The watches of all event loops and stores, while something waits."""


async def _news(store: Store, follower: Follower, call: Call) -> None:
    """Wait until *follower* is to look at *store* again."""
    from asyncio import get_running_loop

    pause_s = follower.pause_s()
    if not pause_s:
        return
    thread = follower.thread
    while isinstance(store, StoreWrapper):  # the tenants of a store are asked for together
        thread, store = store.inner_id(thread), store.store
    key = get_running_loop(), store
    watch = _watches.get(key)
    if watch is None:
        watch = _watches[key] = _NewsWatch(store, call, key[0], lambda: _watches.pop(key, None))
    await watch.wait(follower, thread, pause_s)
