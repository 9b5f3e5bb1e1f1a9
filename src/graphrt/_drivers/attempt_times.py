"""Timeouts of node attempts: a fixed timeout, and an idle timeout since the last sign of life.

A sign of life is a call of `ctx.heartbeat`, or anything else that shows progress: `ctx.emit`, the start of an effect, a
piece of a model's reply. The node gives it on its own thread. It only moves `until`, which the driver reads when it
wakes, so that no thread has to be woken. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, final

from graphrt._drivers.run_services import monotonic
from graphrt._engine.task import Task, TimedOut


def is_timed(task: Task) -> bool:
    """Return whether the next attempt of *task* has a time limit."""
    return task.timeout_s is not None or task.ends_s is not None or task.node.policy.idle_timeout_s is not None


def is_over(task: Task) -> bool:
    """Return whether the superstep or run of *task* has run out of time, so that it must no longer start."""
    return task.ends_s is not None and monotonic() >= task.ends_s


@final
class AttemptTime:
    """The remaining time of one attempt. It starts when the node is called.

    Args:
        task: The task. If it has an idle timeout, it gets this object as `Extra.time`, so that its node can give signs
            of life.
        clock: Returns the time in seconds: the monotonic one, or that of an event loop.
        begun: Whether the node is called now. A queued task only has the limits of its superstep and run.
    """

    __slots__ = ("_clock", "_ends_s", "_idle_s", "_is_cut", "_timeout_s", "moved", "until")

    def __init__(self, task: Task, clock: Callable[[], float] = monotonic, *, begun: bool = True) -> None:
        now = clock()
        timeout_s = self._timeout_s = task.timeout_s if begun else None
        idle_s = self._idle_s = task.node.policy.idle_timeout_s if begun else None
        self._clock: Final = clock
        left_s = inf if timeout_s is None else timeout_s
        self._is_cut = False
        if task.ends_s is not None:
            end_s = task.ends_s - (now if clock is monotonic else monotonic())
            if end_s < left_s:
                self._is_cut, left_s = True, end_s
        self._ends_s: Final = now + left_s
        self.until: float = self._ends_s
        """The time at which the attempt is cut off, unless there is another sign of life."""
        self.moved: Callable[[], None] | None = None
        """Called after each sign of life, on the thread that gave it; None if the driver polls `until` itself."""
        if idle_s is not None:
            task.more().time = self
            self.beat()

    def beat(self) -> None:
        """Record a sign of life, from any thread."""
        if self._idle_s is not None:
            self.until = min(self._ends_s, self._clock() + self._idle_s)
            if self.moved is not None:
                self.moved()

    def reply(self) -> TimedOut:
        """Return the reply for an attempt that was cut off at `until`."""
        if self._idle_s is not None and self.until < self._ends_s:
            return TimedOut(self._idle_s, idle=True)
        return TimedOut(self._timeout_s or 0.0, cut=self._is_cut)
