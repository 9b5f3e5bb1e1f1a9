"""`WorkerHealth`: what a worker does now and has done, as one value for a health check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """A report of a worker at one moment."""

    state: str
    """`new`, `working`, `draining` or `stopped`."""
    driving: tuple[str, ...]
    """Ids of the threads that it drives now, longest first."""
    free: int
    """How many more threads it can take."""
    waiting: int
    """Threads that were due at the last look, and that it had no room for."""
    ended: int
    """Runs that ended without an error since the worker began: completed, paused, cancelled or handed over."""
    failed: int
    """Runs that failed."""
    parked: int
    """Threads that it gave up, because their runs died before they stored anything."""
    tasks: tuple[str, ...]
    """Tasks of queues that it runs now, as `thread/task`, longest first."""
    tasks_ended: int
    """Tasks of queues whose end it has reported."""
    unserved: tuple[str, ...]
    """Names of queues that tasks of its graphs have waited for, and that this worker does not serve."""
    deleted: int
    """Old threads that it deleted by its retention rules."""
    unknown: tuple[str, ...]
    """Names of graphs with threads that are due, and that this worker does not have; in order of their names."""
    refused: tuple[str, ...]
    """Ids of threads of its graphs that it cannot drive, for instance because another version of the graph began them.
    They are looked at again later."""
    looked_at: float | None
    """Time of the last look at the store, in seconds since the epoch; None before the first."""
    trouble: str | None
    """Text of the store's error, if the last look failed; else None."""

    @property
    def ok(self) -> bool:
        """Whether it works and reaches its store: what a health check should answer."""
        return self.state == "working" and self.trouble is None
