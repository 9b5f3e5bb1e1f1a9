"""When an attempt of a node is cut off: at the end of its timeout, or if it gives no sign of life for too long.

A sign of life is a call of `ctx.heartbeat`, and all that shows progress anyway: `ctx.emit`, an effect that
starts, a piece of a model's reply. The node gives it on its own thread, and the driver looks at `until` when it wakes: a
sign only moves that moment on, so that nothing has to be woken. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, final

from graphrt._drivers.run_services import monotonic
from graphrt._engine.task import Task, TimedOut


def is_timed(task: Task) -> bool:
    """Return whether the attempt of *task* that is due may be cut off."""
    return task.timeout_s is not None or task.node.policy.idle_timeout_s is not None


def is_over(task: Task) -> bool:
    """Return whether the time of the superstep of *task* is over, so that it must not start any more."""
    return task.ends_s is not None and monotonic() >= task.ends_s


def ends(task: Task) -> bool:
    """Return whether the run of *task*, or its superstep, ends at some time, whether or not its node was called by then."""
    limits = task.engine.limits
    return limits.deadline_s is not None or limits.step_timeout_s is not None


@final
class AttemptTime:
    """The time that one attempt has left. It begins when the node is called.

    Args:
        task: The task.
        clock: Returns the time in seconds: the monotonic one, or that of an event loop.
        begun: Whether the node is called now, and not only queued, so that it may give signs of life.
    """

    __slots__ = ("_beat_s", "_clock", "_ends_s", "_idle_s", "_timeout_s", "moved")

    def __init__(self, task: Task, clock: Callable[[], float] = monotonic, *, begun: bool = True) -> None:
        self._clock: Final = clock
        self._timeout_s: Final = task.timeout_s
        self._idle_s: Final = task.node.policy.idle_timeout_s if begun else None
        self._beat_s = clock()
        left_s = inf if task.timeout_s is None else task.timeout_s
        if task.ends_s is not None:  # it may have waited for a worker thread or a place
            left_s = min(left_s, max(0.0, task.ends_s - monotonic()))
        self._ends_s: Final = self._beat_s + left_s
        self.moved: Callable[[], None] | None = None
        """Called after each sign of life, on the thread that gave it; None if the driver looks at `until` by itself."""

    @property
    def until(self) -> float:
        """The moment at which the attempt is cut off, if there is no other sign of life."""
        return self._ends_s if self._idle_s is None else min(self._ends_s, self._beat_s + self._idle_s)

    def beat(self) -> None:
        """Note a sign of life, on any thread."""
        if self._idle_s is not None:
            self._beat_s = self._clock()
            if self.moved is not None:
                self.moved()

    def reply(self) -> TimedOut:
        """Return the reply for an attempt that was cut off at `until`."""
        if self._idle_s is not None and self._beat_s + self._idle_s < self._ends_s:
            return TimedOut(self._idle_s, idle=True)
        return TimedOut(self._timeout_s or 0.0)  # not None here: else the attempt was cut off for being idle
