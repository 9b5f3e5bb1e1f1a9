"""The limit `max_concurrency`: counts the tasks of a run that are in flight, nested graphs included.

The count is checked and incremented atomically, under one lock for the whole run, so that the limit is never exceeded
(rule R8). A *place* is a slot for one task in flight. The `schedule` queues tasks that wait for a place: it calls
`take` before a task starts and `give_back` when it has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from graphrt._engine.task import Task


@final
class ConcurrencyLimit:
    """Counting semaphore for the tasks of one graph, within the limit of the enclosing graph.

    A nested graph runs in the place of its own task. Its first task in flight uses that place, and each additional one
    takes another place from the enclosing graph. So a nested graph can always continue and never waits for a place that
    it holds itself, and no level exceeds its limit (decision 0049).

    Args:
        max_tasks: Maximum number of tasks in flight in this graph and the graphs nested in it. None applies only
            *above*.
        above: Limit of the enclosing graph; None at the top.
    """

    __slots__ = ("_above", "_lock", "_most", "_used", "_waiting")

    def __init__(self, max_tasks: int | None, above: ConcurrencyLimit | None = None) -> None:
        self._most = max_tasks
        self._above = above
        self._used = 0
        """Number of places taken by this graph."""
        self._lock: Lock = Lock() if above is None else above._lock
        """One lock for all limits of the run."""
        self._waiting: dict[Callable[[], None], None] = {} if above is None else above._waiting
        """Callbacks that are called once when a place is given back, in insertion order; shared by all limits of the
        run."""

    def take(self, wake: Callable[[], None]) -> bool:
        """Take a place and return True.

        If none is free, return False and register *wake*. *wake* is called once when a place may be free, on the thread
        that gives it back. It must call `take` again, because others may be faster.
        """
        with self._lock:
            if self._take():
                return True
            self._waiting[wake] = None
            return False

    def _take(self) -> bool:
        """Take a place with the lock held; the first one of a nested graph is the place of its own task."""
        if self._used == self._most:  # always false if the limit is None
            return False
        # An additional task of a nested graph needs a place in each enclosing graph, too.
        if self._used and self._above is not None and not self._above._take():
            return False
        self._used += 1
        return True

    def give_back(self) -> None:
        """Give a place back, and call the waiting callbacks outside the lock."""
        with self._lock:
            limit: ConcurrencyLimit | None = self
            while limit is not None:
                limit._used -= 1
                # Walk up as `_take` did: while other tasks are in flight here, the place counted for the enclosing
                # graph too.
                limit = limit._above if limit._used else None  # the last place belongs to the nested graph's own task
            waiting = list(self._waiting)
            self._waiting.clear()
        for wake in waiting:
            wake()

    def abandon(self) -> None:
        """Give back the places taken from the enclosing graph: the tasks still in flight here were abandoned.

        Called when a superstep was stopped while worker threads still run nodes that cannot be interrupted. They no
        longer count.
        """
        with self._lock:
            # The first place belongs to the nested graph's own task, and the parent gives it back. The outermost graph
            # gives nothing back: a run that stops its tasks ends with this superstep.
            extra = max(0, self._used - 1)
            above, self._above = self._above, None  # abandoned tasks that end later must not give places back again
        if above is not None:
            for _ in range(extra):
                above.give_back()


def inside(limit: ConcurrencyLimit | None, task: Task) -> ConcurrencyLimit | None:
    """Return the limit for the nested graph of *task*, within its parent's *limit*; None if neither has one.

    Drivers call it when they create the driver of a nested graph.
    """
    child = task.node.child
    own = child.limits.max_concurrency if child is not None else None
    return None if own is None and limit is None else ConcurrencyLimit(own, limit)
