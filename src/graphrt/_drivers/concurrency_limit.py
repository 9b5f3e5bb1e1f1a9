"""The bound `max_concurrency`: counts the tasks of a run that are in flight, nested graphs included.

Whether a task may start is decided and counted in one step, under one lock for the whole run: N never means N + 1.
Who waits for a place, and how, is the crews' affair.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from graphrt._engine.task import Task


@final
class ConcurrencyLimit:
    """Places for the tasks of one graph, inside those of the graph around it.

    A nested graph runs in the place of its own task. Its first task in flight uses that place, each further one needs
    another from above: so a nested graph never waits while it holds what others wait for, and at no level more tasks
    run than allowed.

    Args:
        most: Tasks of this graph, and of those nested in it, that may be in flight. None leaves it to *above*.
        above: Of the graph around this one.
    """

    __slots__ = ("_above", "_lock", "_most", "_used", "_waiting")

    def __init__(self, most: int | None, above: ConcurrencyLimit | None = None) -> None:
        self._most = most
        self._above = above
        self._used = 0
        self._lock: Lock = Lock() if above is None else above._lock
        self._waiting: dict[Callable[[], None], None] = {} if above is None else above._waiting
        """Whom to call when a place is given back, once; one collection for the whole run."""

    def take(self, wake: Callable[[], None]) -> bool:
        """Take a place; if there is none, *wake* is called once when one may be free."""
        with self._lock:
            if self._take():
                return True
            self._waiting[wake] = None
            return False

    def _take(self) -> bool:
        if self._used == self._most:
            return False
        if self._used and self._above is not None and not self._above._take():
            return False
        self._used += 1
        return True

    def give_back(self) -> None:
        """Give a place back, and wake who waits for one."""
        with self._lock:
            limit: ConcurrencyLimit | None = self
            while limit is not None:
                limit._used -= 1
                limit = limit._above if limit._used else None
            waiting = list(self._waiting)
            self._waiting.clear()
        for wake in waiting:
            wake()

    def abandon(self) -> None:
        """Give back what is held from above: what is still in flight here was given up, and counts no more."""
        with self._lock:
            extra = max(0, self._used - 1)
            above, self._above = self._above, None
        if above is not None:
            for _ in range(extra):
                above.give_back()


def inside(limit: ConcurrencyLimit | None, task: Task) -> ConcurrencyLimit | None:
    """The limit of the nested graph of *task*, within that of its parent."""
    child = task.node.child
    own = child.limits.max_concurrency if child is not None else None
    return None if own is None and limit is None else ConcurrencyLimit(own, limit)
