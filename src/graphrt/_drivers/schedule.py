"""The schedule of one drive: which tasks may start, which attempts are running, and which have ended. It never waits.

| State of an attempt | Where it is kept |
|---|---|
| resting: its backoff continues | `resting`, with its *timer*, whose `cancel()` ends the wait |
| queued | `queues`, by the place where it is to run |
| flying | `flying`, with its *handle*: what runs it. In `times`, if something cuts it off |
| ended | `ended`, until `take` |
| given up | nowhere: its end comes too late, and its outcome is dropped |

Two performers start and await the scheduled tasks: `parallel_tasks` with threads, for sync runs, and
`async_parallel_tasks` on an event loop. A *key* is (task, number of the execution). The number grows with each attempt,
which distinguishes a late end from a current one. `Ended` is (task, number, reply). This module does not decide any
rule of the graph. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, final

from graphrt._drivers.attempt_times import AttemptTime, is_over, is_timed
from graphrt._drivers.attempts import OUT_OF_GRACE, TIMED_OUT, give_up
from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.failures import Escaped
from graphrt._drivers.invoke import invoke
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._engine.task import Failed, Stopped, Task, TimedOut

Ended = tuple[Task, int, Any]
"""A task, the number of its execution, and its reply."""
Key = tuple[Task, int]
"""A task, and the number of its execution."""
HERE, LOOP, WORKER = range(3)
"""Where a task runs: in the thread that calls `collect`, as an asyncio task, or as a separate job on a worker
thread."""
ODD: Final = frozenset({Failed, TimedOut, Stopped, Escaped})
"""Types of replies that the flow must see at once, because they end the superstep or request another attempt."""
STARTING: Final = object()
"""The handle of an attempt between its queue and its start."""


@final
class Schedule:
    """The states of the attempts of one drive, superstep after superstep.

    Args:
        services: Services of the run.
        limit: Counts the tasks in flight (`max_concurrency`); None without a limit.
        place_of: Returns where to run a task.
        room: Called once when a slot of the limit may be free again, in the thread that gives it back.
        lock: Guards all of this. Only the thread of `collect` takes from the queue HERE, without the lock: operations
            on the ends of a deque are atomic in CPython.
    """

    def __init__(
        self,
        services: RunServices,
        limit: ConcurrencyLimit | None,
        place_of: Callable[[Task], int],
        room: Callable[[], None],
        lock: AbstractContextManager[Any],
    ) -> None:
        self.services = services
        self.limit = limit
        self.place_of = place_of
        self.room = room
        self.lock = lock
        self.resting: dict[Key, Any] = {}
        self.queues: tuple[deque[Task], deque[Task], deque[Task]] = (deque(), deque(), deque())
        self.flying: dict[Key, Any] = {}
        self.times: dict[Key, AttemptTime] = {}
        self.jobs = 0
        """Number of flying attempts with a Job, used to let the runs of a server take turns (decision 0049)."""
        self.ended: deque[Ended] = deque()
        self.held = False
        """True after a reply of a type in `ODD`, and while stopping: no task starts until the flow has processed it
        (R9)."""

    def start(self, tasks: Sequence[Task]) -> list[tuple[Key, float]]:
        """Queue *tasks*. Returns those that must wait first, with their backoff in seconds, for `rested`."""
        rests: list[tuple[Key, float]] = []
        for task in tasks:
            extra = task.extra
            if extra is not None and extra.delay_s > 0.0:
                rests.append(((task, task.execution), extra.delay_s))
                extra.delay_s = 0.0  # so that the backoff is waited for only once
            else:
                self.queues[self.place_of(task)].append(task)
        return rests

    def rested(self, key: Key, failure: BaseException | None = None) -> None:
        """Queue a task whose backoff is over, unless it was cancelled.

        *failure* is the exception that the user's `sleep=` raised.
        """
        with self.lock:
            if self.resting.pop(key, None) is None:
                return
            if failure is None:
                self.queues[self.place_of(key[0])].append(key[0])
            else:
                self.ended.append((*key, Escaped(failure)))
                self.held = True

    def hold(self) -> None:
        """Recompute whether tasks are held back: the reply that held them was taken, or is in `ended`."""
        with self.lock:  # a copy, because worker threads append to it
            self.held = any(ended[2].__class__ in ODD for ended in self.ended)

    def next(self, place: int, handle: Any = None) -> Task | None:
        """Return the next task of *place*, which is in flight from now on; None if none may start.

        Args:
            handle: What runs it; None if the thread of `collect` does, which gives the slot back itself.
        """
        queue, limit = self.queues[place], self.limit
        while queue:
            if handle is None and limit is None:
                try:
                    task = None if self.held else queue.popleft()  # without the lock, for speed
                except IndexError:  # a helper was faster
                    return None
            else:
                with self.lock:  # checked and counted atomically, so that `stop` and the limit never miss a task
                    halted = self.held or self.services.control.halt is not None
                    # `take` only registers `room` and does not call it.
                    if not queue or halted or (limit is not None and not limit.take(self.room)):
                        return None
                    task = queue.popleft()
                    if handle is not None:
                        self.flying[task, task.execution] = handle
                        self.jobs += handle.__class__ is Job
            if task is None or task.ends_s is None or not is_over(task):
                return task
            # Its superstep or run ended while it was queued, so its node is not called.
            timeout = TimedOut(task.timeout_s or 0.0, cut=True)
            if handle is not None:
                self.end(task, task.execution, timeout)
            else:
                self.ended.append((task, task.execution, timeout))
                self.give_back()
        return None

    def end(self, task: Task, execution: int, reply: Any) -> bool:
        """Record the reply of an attempt, from any thread.

        Returns False if it was abandoned, so that the reply is too late.
        """
        with self.lock:
            handle = self.flying.get((task, execution))
            if handle is None:
                return False
            self._landed(task, execution, handle, reply)
        if self.limit is not None:
            self.limit.give_back()
        return True

    def _landed(self, task: Task, execution: int, handle: Any, reply: Any) -> None:
        """Record the reply of an attempt that is no longer flying. Called with the lock held."""
        if self.times:
            self.times.pop((task, execution), None)
        self.jobs -= handle.__class__ is Job
        # Before it is removed from `flying`, because the caller may read without the lock.
        self.ended.append((task, execution, reply))
        if reply.__class__ in ODD:
            self.held = True
        del self.flying[task, execution]

    def give_back(self) -> None:
        """Give the slot of an ended task back to the concurrency limit, if there is one."""
        if self.limit is not None:
            self.limit.give_back()

    def submitted(self, task: Task) -> None:
        """Set the end of the run or superstep for a job, which also applies while it waits for a worker thread."""
        if task.ends_s is not None and task.node.child is None:
            with self.lock:
                self.times[task, task.execution] = AttemptTime(task, begun=False)

    def begun(self, key: Key) -> None:
        """Start the timeout of a job, from its worker thread."""
        time = AttemptTime(key[0])
        with self.lock:
            if key in self.flying:
                self.times[key] = time

    def until(self) -> float | None:
        """Return the time at which the next attempt times out; None if there is none."""
        with self.lock:
            return min((time.until for time in self.times.values()), default=None)

    def expire(self) -> list[Any]:
        """Report and abandon attempts that have timed out. Returns their handles, to be abandoned as well."""
        if not self.times:
            return []
        now, handles = monotonic(), list[Any]()
        with self.lock:
            for key, time in [item for item in self.times.items() if item[1].until <= now]:
                handle = self.flying[key]
                give_up(key[0], TIMED_OUT)
                self._landed(*key, handle, time.reply())
                handles.append(handle)
        for _ in handles:
            self.give_back()
        return handles

    @property
    def is_busy(self) -> bool:
        """True while a started task has not ended."""
        with self.lock:
            return bool(self.flying or self.resting or any(self.queues))

    @property
    def is_due(self) -> bool:
        """True if the flow must process ended tasks before more are started."""
        services = self.services
        return self.held or services.control.halt is not None or (services.eager and bool(self.ended))

    def take(self, batch: list[Ended]) -> None:
        """Move ended tasks into *batch*.

        Raises:
            BaseException: An exception that escaped from a task, such as Ctrl-C. A moved task keeps its outcome, which
                `stop` returns.
        """
        while self.ended:
            ended = self.ended.popleft()
            if ended[2].__class__ is Escaped:
                self.ended.extendleft(reversed(batch))
                batch.clear()
                raise ended[2].error
            batch.append(ended)

    def stop(self) -> list[Any]:
        """Start no more tasks; return the timers of the remaining backoffs, which the caller cancels.

        Called when a run stops early, and when its performer is closed. Flying attempts continue until they end, or
        until `abandon`.
        """
        with self.lock:
            self.held = True
            for queue in self.queues:
                queue.clear()
            rests = list(self.resting.values())
            self.resting.clear()
        return rests

    def abandon(self) -> list[Any]:
        """Abandon the attempts that are still flying after the grace time. Returns their handles."""
        with self.lock:
            for key in self.flying:
                give_up(key[0], OUT_OF_GRACE)
            handles = list(self.flying.values())
            self.flying.clear()
            self.times.clear()
            self.jobs = 0
        return handles

    def close(self) -> None:
        """Drop the references to the performer, so that no reference cycle keeps a run alive."""
        self.place_of, self.room = _nowhere, _nothing

    def stopped(self) -> list[Ended]:
        """Return the outcomes of tasks that ended nevertheless, at the end of a stop."""
        batch = [ended for ended in self.ended if ended[2].__class__ is not Escaped]
        self.ended.clear()
        if self.limit is not None:
            self.limit.abandon()  # abandoned tasks do not occupy slots of enclosing graphs
        return batch


def _nowhere(_task: Task) -> int:
    """Replaces `place_of` of a closed schedule, which starts nothing."""
    return HERE


def _nothing() -> None:
    """Replaces `room` of a closed schedule."""


@final
class Job:
    """One sync task as a job of `ThreadPool`. It runs in a copy of the caller's context variables (rule R19).

    Args:
        schedule: The schedule that records its timeout.
        context: Context variables for the node, used only for this job.
        drive: Drives the flow of a nested graph, if that is the body of the task.
        landed: Called at the end, on the worker thread, when it can take the next job.
    """

    __slots__ = ("_context", "_drive", "_landed", "_schedule", "execution", "reply", "task", "worker")

    def __init__(
        self,
        schedule: Schedule,
        context: contextvars.Context,
        drive: Callable[[Any, Task], Any],
        landed: Callable[[Job], None],
    ) -> None:
        self._schedule = schedule
        self._context = context
        self._drive = drive
        self._landed = landed
        self.task: Task
        """Set by `take`."""
        self.execution = 0
        self.reply: Any = None
        self.worker: threading.Thread | None = None  # set by the pool while the job runs

    def take(self) -> bool:
        """Take the next task for a worker thread; return False if none may start."""
        task = self._schedule.next(WORKER, self)
        if task is None:
            return False
        self.task, self.execution = task, task.execution
        self._schedule.submitted(task)
        return True

    def run(self) -> None:
        """Run the node; called on the worker thread."""
        task = self.task
        if is_timed(task) and task.node.child is None:  # a nested graph enforces its timeout itself
            self._schedule.begun((task, self.execution))
            self._schedule.room()
        try:
            self.reply = self._context.run(invoke, self._schedule.services, task, self._drive)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.reply = Escaped(error)

    def land(self) -> None:
        """Pass on the reply. Called on the worker thread when it can take the next job."""
        self._landed(self)
