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
    return task.timeout_s is not None or task.ends_s is not None or task.node.policy.idle_timeout_s is not None


def is_over(task: Task) -> bool:
    """Return whether the superstep or run of *task* is over, so that it must not start any more."""
    return task.ends_s is not None and monotonic() >= task.ends_s


@final
class AttemptTime:
    """The time that one attempt has left. It begins when the node is called.

    Args:
        task: The task. If signs of life count, it gets the time as `Extra.time`, for its node to give them.
        clock: Returns the time in seconds: the monotonic one, or that of an event loop.
        begun: Whether the node is called now. One that is queued has the time until its superstep or run is over.
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
        """The moment at which the attempt is cut off, if there is no other sign of life."""
        self.moved: Callable[[], None] | None = None
        """Called after each sign of life, on the thread that gave it; None if the driver looks at `until` by itself."""
        if idle_s is not None:
            task.more().time = self
            self.beat()

    def beat(self) -> None:
        """Note a sign of life, on any thread."""
        if self._idle_s is not None:
            self.until = min(self._ends_s, self._clock() + self._idle_s)
            if self.moved is not None:
                self.moved()

    def reply(self) -> TimedOut:
        """Return the reply for an attempt that was cut off at `until`."""
        if self._idle_s is not None and self.until < self._ends_s:
            return TimedOut(self._idle_s, idle=True)
        return TimedOut(self._timeout_s or 0.0, cut=self._is_cut)
