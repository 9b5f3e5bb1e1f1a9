"""The limit `max_concurrency`: counts the tasks of a run that are in flight, nested graphs included.

The count is checked and raised in one step, under one lock for the whole run, so that N never means N + 1 (rule R8).
A *place* is the right to have one task in flight. Queueing the tasks that wait for a place belongs to `schedule`, which
calls `take` before a task starts and `give_back` when it has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from graphrt._engine.task import Task


@final
class ConcurrencyLimit:
    """Counting semaphore for the tasks of one graph, inside that of the enclosing graph.

    A nested graph runs in the place of its own task. Its first task in flight uses that place, and each further one
    takes another place from the enclosing graph. So a nested graph can always go on, and never waits for a place that
    it holds itself; at no level do more tasks run than allowed (decision 0049).

    Args:
        most: Tasks of this graph and the graphs nested in it that may be in flight. None leaves it to *above*.
        above: Limit of the enclosing graph; None at the top.
    """

    __slots__ = ("_above", "_lock", "_most", "_used", "_waiting")

    def __init__(self, most: int | None, above: ConcurrencyLimit | None = None) -> None:
        self._most = most
        self._above = above
        self._used = 0
        """Places that are taken by this graph."""
        self._lock: Lock = Lock() if above is None else above._lock
        """One lock for all limits of the run."""
        self._waiting: dict[Callable[[], None], None] = {} if above is None else above._waiting
        """Callbacks to call once when a place is given back, in insertion order; shared by all limits of the run."""

    def take(self, wake: Callable[[], None]) -> bool:
        """Take a place and return True; if none is free, return False and call *wake* once when one may be.

        *wake* is called by the thread that gives a place back, and must call `take` again: others may be faster.
        """
        with self._lock:
            if self._take():
                return True
            self._waiting[wake] = None
            return False

    def _take(self) -> bool:
        """Take a place with the lock held; the first one of a nested graph is the place of its own task."""
        if self._used == self._most:  # never true for None
            return False
        # A further task of a nested graph needs a place of each enclosing graph, too.
        if self._used and self._above is not None and not self._above._take():
            return False
        self._used += 1
        return True

    def give_back(self) -> None:
        """Give a place back, and call the callbacks that wait for one, outside of the lock."""
        with self._lock:
            limit: ConcurrencyLimit | None = self
            while limit is not None:
                limit._used -= 1
                # Go up as `_take` did: while others are in flight here, the place counted for the enclosing graph too.
                limit = limit._above if limit._used else None  # the last place is that of the nested graph's task
            waiting = list(self._waiting)
            self._waiting.clear()
        for wake in waiting:
            wake()

    def abandon(self) -> None:
        """Give the places taken from the enclosing graph back: the tasks still in flight here were abandoned.

        Called when a superstep was stopped, and worker threads still run nodes that nothing can interrupt. They no
        longer count.
        """
        with self._lock:
            # The first place is that of the nested graph's own task, which its parent gives back. At the top nothing is
            # given back: a run that stops its tasks ends with this superstep.
            extra = max(0, self._used - 1)
            above, self._above = self._above, None  # abandoned tasks that end later must not give places back again
        if above is not None:
            for _ in range(extra):
                above.give_back()


def inside(limit: ConcurrencyLimit | None, task: Task) -> ConcurrencyLimit | None:
    """Return the limit for the nested graph of *task*, inside *limit* of its parent; None if neither has one.

    Drivers call it when they make the driver of a nested graph.
    """
    child = task.node.child
    own = child.limits.max_concurrency if child is not None else None
    return None if own is None and limit is None else ConcurrencyLimit(own, limit)
