"""`WorkerHealth`: the current and past activity of a worker, as one value for a health check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """A report of a worker at one point in time."""

    state: str
    """`new`, `working`, `draining` or `stopped`."""
    driving: tuple[str, ...]
    """Ids of the threads that it drives now, longest first."""
    free: int
    """Number of further threads that it can take."""
    waiting: int
    """Number of threads that were due at the last poll but exceeded the worker's capacity."""
    ended: int
    """Number of runs that ended without an error since the start: completed, paused, cancelled or handed over."""
    failed: int
    """Number of failed runs."""
    parked: int
    """Number of threads that it parked because their runs died before they stored anything."""
    tasks: tuple[str, ...]
    """Tasks of queues that it runs now, as `thread/task`, longest first."""
    tasks_ended: int
    """Number of queue tasks whose end it has reported."""
    unserved: tuple[str, ...]
    """Names of queues that tasks of its graphs have waited for, and that this worker does not serve."""
    deleted: int
    """Number of old threads that it deleted by its retention rules."""
    unknown: tuple[str, ...]
    """Sorted names of graphs that have due threads but that this worker lacks."""
    refused: tuple[str, ...]
    """Ids of threads of its graphs that it cannot drive, for instance because another version of the graph began them.
    They are tried again later."""
    looked_at: float | None
    """Time of the last poll of the store, in seconds since the epoch; None before the first."""
    trouble: str | None
    """Text of the store's error, if the last poll failed, or a sentence if the store does not answer; else None."""

    @property
    def ok(self) -> bool:
        """Whether it works and reaches its store; the answer for a health check."""
        return self.state == "working" and self.trouble is None
