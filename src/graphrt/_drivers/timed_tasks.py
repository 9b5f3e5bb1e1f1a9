"""Sync tasks with a timeout under a sync run: each on a worker thread of its own, which is abandoned if it takes too long.

A Python function cannot be stopped: when its time is up the run goes on, and its outcome is dropped when it comes.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, final

from graphrt._drivers.invoke import Escaped, invoke
from graphrt._drivers.run_services import monotonic
from graphrt._engine.task import TimedOut

if TYPE_CHECKING:
    from graphrt._drivers.parallel_tasks import ParallelTasks
    from graphrt._engine.task import Task

MOST: Final = 32
"""Worker threads for timed tasks of one crew at a time, the abandoned ones left aside."""


@final
class TimedTasks:
    """Those of one crew. What it counts is guarded by the crew's lock.

    The crew is passed to each method instead of being stored: a reference cycle would keep the whole run in memory until
    the next garbage collection.
    """

    __slots__ = ("_held", "_running")

    def __init__(self) -> None:
        self._running: dict[Task, tuple[int, float]] = {}
        """Execution, and when it is over."""
        self._held: deque[Task] = deque()
        """Those that wait until one of `_running` ends."""

    def start(self, parallel: ParallelTasks, task: Task) -> None:
        """Run *task*, now or when another one has ended."""
        execution = task.execution
        with parallel.lock:
            if len(self._running) >= MOST:
                self._held.append(task)
                return
            parallel.busy += 1
            self._running[task] = (execution, monotonic() + (task.timeout_s or 0.0))
        context = parallel.context.copy()

        def work() -> None:
            try:
                reply = context.run(invoke, parallel.services, task, parallel.drive)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            with parallel.lock:
                late = self._running.get(task, (None,))[0] != execution
                if not late:
                    parallel.ended.append((task, execution, reply))
                    parallel.busy -= 1
                    del self._running[task]
            if not late:
                self._next(parallel)
                parallel.bell.set()
            elif parallel.services.record is not None and not parallel.closing:
                parallel.services.dropped(task)

        threading.Thread(target=work, name=f"graphrt-{task.node.name}", daemon=True).start()

    def _next(self, parallel: ParallelTasks) -> None:
        parallel.give_back()
        with contextlib.suppress(IndexError):
            self.start(parallel, self._held.popleft())

    def patience(self, parallel: ParallelTasks) -> float | None:
        """Seconds until the next timeout, None if there is none."""
        with parallel.lock:
            if not self._running:
                return None
            return max(0.0, min(until for _, until in self._running.values()) - monotonic())

    def expire(self, parallel: ParallelTasks) -> None:
        """Give up those whose time is over: an abandoned worker thread is none of the tasks in flight."""
        now = monotonic()
        with parallel.lock:
            over = [task for task, (_, until) in self._running.items() if until <= now]
            for task in over:
                execution, _ = self._running.pop(task)
                parallel.busy -= 1
                parallel.ended.append((task, execution, TimedOut(task.timeout_s or 0.0)))
        for _ in over:
            self._next(parallel)

    def hold(self) -> None:
        """Start nothing more."""
        self._held.clear()

    def abandon(self, parallel: ParallelTasks) -> None:
        """Give up all: their outcomes are dropped when they come."""
        with parallel.lock:
            self._running.clear()
