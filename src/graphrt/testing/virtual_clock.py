"""`VirtualClock`: time that passes only when a test or a sleeping run advances it."""

from __future__ import annotations

import math
from typing import final

from graphrt._forks import FreshLock
from graphrt.errors._codes.arguments import INVALID_ARGUMENT


@final
class VirtualClock:
    """A clock whose waits take no time: pass it as both `clock=` and `sleep=` of `Runtime`.

        clock = VirtualClock()
        record(graph, input, clock=clock, sleep=clock.sleep)
        assert clock.slept == [1.0, 2.0]

    Calling it returns the time; `sleep` advances it. Thread-safe.

    Args:
        start: Seconds since the epoch at which it begins.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = _seconds("VirtualClock(start=)", start)
        self._lock = FreshLock()
        self.slept: list[float] = []
        """Each wait in seconds, in the order of the calls."""

    def __call__(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the time by *seconds*, and record the wait.

        Raises:
            InputError: *seconds* is negative, infinite or not a number.
        """
        seconds = _seconds("VirtualClock.sleep()", seconds)
        with self._lock:
            self._now += seconds
            self.slept.append(seconds)

    def advance(self, seconds: float) -> None:
        """Advance the time by *seconds*, as if it had passed outside the run.

        Raises:
            InputError: *seconds* is negative, infinite or not a number.
        """
        seconds = _seconds("VirtualClock.advance()", seconds)
        with self._lock:
            self._now += seconds

    def __repr__(self) -> str:
        return f"VirtualClock({self._now!r}, slept={self.slept!r})"


def _seconds(call: str, seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise INVALID_ARGUMENT(
            argument=f"The seconds of {call}",
            value=seconds,
            wanted="a number of seconds, 0 or more: time never goes back",
        )
    return float(seconds)
