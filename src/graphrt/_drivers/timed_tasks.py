"""Sync tasks with a timeout under a sync run: each runs on a worker thread of its own.

A Python function cannot be stopped from outside. When its time is up, the worker thread is abandoned and the run goes
on. The late outcome is dropped, with an `OutcomeDropped` event if the run keeps a journal (rule R9).
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
"""Most worker threads for timed tasks of one `ParallelTasks` at a time; abandoned ones do not count."""


@final
class TimedTasks:
    """The timed tasks of one `ParallelTasks`, guarded by its lock.

    The `ParallelTasks` is passed to each method and not stored: a reference cycle would keep the whole run in memory
    until the next garbage collection.
    """

    __slots__ = ("_held", "_running")

    def __init__(self) -> None:
        self._running: dict[Task, tuple[int, float]] = {}
        """Task to its execution number and the monotonic time in seconds at which it times out."""
        self._held: deque[Task] = deque()
        """Tasks that wait for one of `_running` to end, because `MOST` are running."""

    def start(self, parallel: ParallelTasks, task: Task) -> None:
        """Run *task* now, or as soon as another one has ended if `MOST` are running. The timeout begins with it."""
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
            # The execution number tells an abandoned attempt from its retry, which has the same task.
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

        # Daemon: an abandoned node that never returns must not keep the process from exiting.
        threading.Thread(target=work, name=f"graphrt-{task.node.name}", daemon=True).start()

    def _next(self, parallel: ParallelTasks) -> None:
        """Give back the place of a task that ended, and start one that waits for a worker thread."""
        parallel.give_back()
        with contextlib.suppress(IndexError):
            self.start(parallel, self._held.popleft())

    def wait_s(self, parallel: ParallelTasks) -> float | None:
        """Return the seconds until the next timeout, or None if no task is running."""
        with parallel.lock:
            if not self._running:
                return None
            return max(0.0, min(until for _, until in self._running.values()) - monotonic())

    def expire(self, parallel: ParallelTasks) -> None:
        """Report tasks whose time is over as timed out, and abandon their worker threads, which no longer count."""
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
        """Drop the tasks that wait for a worker thread: the superstep stops."""
        self._held.clear()

    def abandon(self, parallel: ParallelTasks) -> None:
        """Abandon all worker threads; their outcomes are dropped when they arrive."""
        with parallel.lock:
            self._running.clear()
