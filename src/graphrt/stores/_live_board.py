"""The live items of a `MemoryStore`.

Live items are what a run shows while its superstep is open, such as tokens of a model. A follower, a reader of them,
registers its interest in a thread. Only then does the driver of the thread pass items on, in batches. A batch is an
opaque body with an id and a *place*, an increasing number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import final

from graphrt._forks import Home, OwnLock
from graphrt.stores.values import KEPT_S, LiveBatch


@final
class LiveBoard:
    """Followers and batches by thread, for the store with *home*. Thread-safe."""

    def __init__(self, home: Home) -> None:
        self._until: dict[str, float] = {}
        """Maps a thread to the monotonic time at which the interest of its followers ends."""
        self._batches: dict[str, deque[tuple[float, LiveBatch]]] = {}
        """Maps a thread to its batches in order, each with the monotonic time at which it came."""
        self._last = 0
        """Place of the newest batch of all threads."""
        self._lock = OwnLock(home)

    def follow(self, thread: str, for_s: float) -> int:
        """Register interest in *thread* for the next *for_s* seconds, and return the place of its newest batch or 0.

        The follower begins to read after that place.
        """
        with self._lock:
            self._tidy()
            self._until[thread] = max(self._until.get(thread, 0.0), monotonic() + for_s)
            batches = self._batches.get(thread)
            return batches[-1][1].place if batches else 0

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that currently have a follower. Drivers check this before they collect items."""
        now = monotonic()
        with self._lock:
            return [thread for thread in {*threads} if self._until.get(thread, 0.0) > now]

    def relay(self, thread: str, id: str, body: bytes, forget: int) -> int:
        """Store a batch of *thread*, and return its place. Batches up to the place *forget* are deleted.

        The driver uses *forget*, the place of an earlier batch or 0, to bound the stored items of its run.
        """
        with self._lock:
            self._tidy()
            self._last += 1
            batches = self._batches.setdefault(thread, deque())
            batches.append((monotonic(), LiveBatch(self._last, id, body)))
            while batches[0][1].place <= forget:  # ends at the new batch, whose place is greater
                batches.popleft()
            return self._last

    def after(self, thread: str, place: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after *place*, in order."""
        with self._lock:
            return [batch for _, batch in self._batches.get(thread, ()) if batch.place > place][:limit]

    def forget(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*, after a deletion or an erasure of values."""
        with self._lock:
            for thread in threads:
                self._batches.pop(thread, None)

    def _tidy(self) -> None:
        """Remove interest that ended `KEPT_S` ago, and batches of that age from threads without more recent interest.

        Called under the lock.
        """
        cutoff = monotonic() - KEPT_S
        self._until = {thread: until for thread, until in self._until.items() if until > cutoff}
        for thread, batches in list(self._batches.items()):
            if thread in self._until:
                continue
            while batches and batches[0][0] < cutoff:
                batches.popleft()
            if not batches:
                del self._batches[thread]
