"""A job of the thread pool that runs queued tasks of a sync run, one after another, until none is left.

Which task is next, and what its reply means for the superstep, is decided by `parallel_tasks`. There the caller of the
run drains a queue of tasks, and helpers on worker threads drain it too.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, final

from graphrt._drivers.invoke import Escaped, invoke

if TYPE_CHECKING:
    from graphrt._drivers.parallel_tasks import ParallelTasks
    from graphrt._engine.task import Task


@final
class Helper:
    """Runs tasks of *parallel* on a worker thread, as a `thread_pool.Job`. The lock of *parallel* guards the state."""

    __slots__ = ("_parallel", "execution", "task", "until", "worker")

    def __init__(self, parallel: ParallelTasks) -> None:
        self._parallel = parallel
        self.task: Task | None = None
        """The task that it runs; None between two tasks."""
        self.execution = 0
        """Number of the execution. It tells an abandoned attempt from its retry, which has the same task."""
        self.until: float | None = None
        """Monotonic time in seconds at which the task times out; None if it has no timeout."""
        self.worker: threading.Thread | None = None
        """The thread that runs this job; None before and after. Set by the pool."""

    def run(self) -> None:
        """Run tasks until none is left for this helper; called by the pool on a worker thread."""
        parallel = self._parallel
        with parallel.lock:
            parallel.called = False  # this helper has begun, so that another one may be asked for
        while (task := parallel.pop(self)) is not None:
            parallel.reinforce()  # a further helper, if tasks are left
            reply: Any
            try:
                # A copy of the caller's context variables for each task: what a node sets must not reach another one.
                # `drive` drives the flow of a nested graph, if that is the body of the task.
                reply = parallel.on_workers.copy().run(invoke, parallel.services, task, parallel.drive)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            parallel.end(self, task, reply)
            if parallel.pool.crowded:  # the runs of a server take turns: another helper goes on after those that wait
                self.land()  # at once, so that this helper does not count for `reinforce`; the pool calls it again
                parallel.reinforce()
                return

    def land(self) -> None:
        """Leave the helpers of the run, which then no longer waits for this one; called by the pool after `run`.

        `ParallelTasks.reinforce` has added it.
        """
        with self._parallel.lock:
            self._parallel.helpers.discard(self)
