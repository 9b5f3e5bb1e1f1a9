"""The live items of a `MemoryStore`.

Live items are what a run shows while its superstep is open, such as tokens of a model. A follower, a reader of them,
notes its interest in a thread. Only then the driver of the thread hands items over, in batches. A batch is an opaque
body with an id and a *place*, a number that grows.
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
    """Followers and batches by thread, of the store with *home*. Several worker threads may use it."""

    def __init__(self, home: Home) -> None:
        self._until: dict[str, float] = {}
        """Thread to the monotonic time at which the interest of its followers ends."""
        self._batches: dict[str, deque[tuple[float, LiveBatch]]] = {}
        """Thread to its batches in order, each with the monotonic time at which it came."""
        self._last = 0
        """Place of the newest batch of all threads."""
        self._lock = OwnLock(home)

    def follow(self, thread: str, for_s: float) -> int:
        """Note interest in *thread* for the next *for_s* seconds, and return the place of its newest batch or 0.

        The follower begins to read after that place.
        """
        with self._lock:
            self._tidy()
            self._until[thread] = max(self._until.get(thread, 0.0), monotonic() + for_s)
            kept = self._batches.get(thread)
            return kept[-1][1].place if kept else 0

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have a follower now. Drivers ask before they collect items."""
        now = monotonic()
        with self._lock:
            return [thread for thread in {*threads} if self._until.get(thread, 0.0) > now]

    def relay(self, thread: str, id: str, body: bytes, forget: int) -> int:
        """Keep a batch of *thread*, and return its place. Batches at the place *forget* and before are deleted.

        By *forget*, the place of an earlier batch or 0, the driver bounds how much is kept of its run.
        """
        with self._lock:
            self._tidy()
            self._last += 1
            kept = self._batches.setdefault(thread, deque())
            kept.append((monotonic(), LiveBatch(self._last, id, body)))
            while kept[0][1].place <= forget:  # ends at the new batch, whose place is greater
                kept.popleft()
            return self._last

    def after(self, thread: str, place: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after *place*, in order."""
        with self._lock:
            return [batch for _, batch in self._batches.get(thread, ()) if batch.place > place][:limit]

    def forget(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*, which were deleted or lost values by an erasure."""
        with self._lock:
            for thread in threads:
                self._batches.pop(thread, None)

    def _tidy(self) -> None:
        """Remove interest that has ended and batches older than `KEPT_S`. Called under the lock."""
        now = monotonic()
        self._until = {thread: until for thread, until in self._until.items() if until > now}
        for thread, kept in list(self._batches.items()):
            while kept and kept[0][0] < now - KEPT_S:
                kept.popleft()
            if not kept:
                del self._batches[thread]
