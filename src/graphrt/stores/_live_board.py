"""The live items of a `MemoryStore`, and its methods for them; see `Relaying`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import final

from graphrt._forks import FreshLock
from graphrt.stores.ids import check_id
from graphrt.stores.live import KEPT_S, Batch


@final
class LiveBoard:
    """Followers and batches by thread. Several worker threads may use it."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        """Thread to the monotonic time at which the interest of its followers ends."""
        self._batches: dict[str, deque[tuple[float, Batch]]] = {}
        self._last = 0
        self._lock = FreshLock()

    def follow(self, thread: str, for_s: float) -> int:
        """See `Relaying.follow_live`."""
        with self._lock:
            self._tidy()
            self._until[thread] = max(self._until.get(thread, 0.0), monotonic() + for_s)
            kept = self._batches.get(thread)
            return kept[-1][1].place if kept else 0

    def followed(self, threads: Iterable[str]) -> list[str]:
        """See `Relaying.followed`."""
        now = monotonic()
        with self._lock:
            return [thread for thread in {*threads} if self._until.get(thread, 0.0) > now]

    def relay(self, thread: str, id: str, body: bytes, forget: int) -> int:
        """See `Relaying.relay`."""
        with self._lock:
            self._tidy()
            self._last += 1
            kept = self._batches.setdefault(thread, deque())
            kept.append((monotonic(), Batch(self._last, id, body)))
            while kept[0][1].place <= forget:
                kept.popleft()
            return self._last

    def after(self, thread: str, place: int, limit: int) -> list[Batch]:
        """See `Relaying.relayed`."""
        with self._lock:
            return [batch for _, batch in self._batches.get(thread, ()) if batch.place > place][:limit]

    def forget(self, threads: Iterable[str]) -> None:
        """See `Relaying.forget_live`."""
        with self._lock:
            for thread in threads:
                self._batches.pop(thread, None)

    def _tidy(self) -> None:
        now = monotonic()
        self._until = {thread: until for thread, until in self._until.items() if until > now}
        for thread, kept in list(self._batches.items()):
            while kept and kept[0][0] < now - KEPT_S:
                kept.popleft()
            if not kept:
                del self._batches[thread]


class Relaying:
    """The base class of `MemoryStore` with the methods of `Relaying`."""

    _board: LiveBoard

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note that a follower reads live items. See `Relaying.follow_live`."""
        return self._board.follow(check_id(thread), for_s)

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have a follower. See `Relaying.followed`."""
        return self._board.followed(threads)

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items. See `Relaying.relay`."""
        return self._board.relay(check_id(thread), id, body, forget)

    def relayed(self, thread: str, *, after: int, limit: int) -> list[Batch]:
        """Return batches of live items. See `Relaying.relayed`."""
        return self._board.after(check_id(thread), after, limit)

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete batches of live items. See `Relaying.forget_live`."""
        self._board.forget(threads)
