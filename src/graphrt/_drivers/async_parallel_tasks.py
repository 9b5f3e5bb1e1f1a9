"""Several tasks of a superstep under asyncio: async nodes as asyncio tasks, sync nodes on the runtime's worker threads.

The `schedule` decides which tasks may start, and holds their outcomes. Tasks are started only on the loop; a job ends
on its worker thread, which wakes the loop. A RuntimeError from `call_soon_threadsafe` means that the loop is closed and
the run is over. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, final

from graphrt._drivers.attempt_times import AttemptTime
from graphrt._drivers.attempts import STOPPED_BESIDE, give_up
from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.failures import Escaped
from graphrt._drivers.invoke import ainvoke, invoke
from graphrt._drivers.retry_waits import rested
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.schedule import HERE, LOOP, STARTING, WORKER, Ended, Job, Key, Schedule
from graphrt._drivers.thread_pool import waits_for
from graphrt._engine.task import STOPPED, Task
from graphrt._flows.effects import Flow
from graphrt.limits import Limits


@final
class AsyncParallelTasks:
    """Runs the tasks of one drive on the running loop. *nested* drives the flow of a nested graph."""

    __slots__ = ("_awaking", "_bell", "_limits", "_loop", "_nested", "schedule", "services")

    def __init__(
        self,
        services: RunServices,
        limits: Limits,
        nested: Callable[[Flow, Task], Awaitable[Any]],
        limit: ConcurrencyLimit | None,
    ) -> None:
        self.services = services
        self._limits = limits  # used only for `grace_s`
        self._nested = nested
        self._loop = asyncio.get_running_loop()
        self._bell: asyncio.Future[None] | None = None  # the future that `_wait` awaits
        self._awaking = False  # whether a call of `_awake` is scheduled
        self.schedule = Schedule(services, limit, _place, self._more, threading.RLock())

    def start(self, tasks: Sequence[Task]) -> None:
        """Start *tasks*, or queue them until their backoff, `max_concurrency` and the pool allow it."""
        for key, wait_s in self.schedule.start(tasks):
            self.schedule.resting[key] = self._resting(key, wait_s)
        self._launch()

    def _resting(self, key: Key, wait_s: float) -> asyncio.TimerHandle | asyncio.Task[None]:
        """Start the backoff of a task, in real time or with the runtime's `sleep=`.

        Returns its timer.
        """
        sleep = self.services.sleep
        if sleep is None:
            return self._loop.call_later(wait_s, self._rested, key)
        return self._loop.create_task(self._rest(key, sleep, wait_s))

    async def _rest(self, key: Key, sleep: Callable[[float], Any], wait_s: float) -> None:
        """Wait with *sleep*, the runtime's `sleep=`.

        An exception that it raises ends the run. `stop` cancels the wait.
        """
        try:
            await rested(sleep, wait_s)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            self._rested(key, error)
        else:
            self._rested(key)

    def _rested(self, key: Key, failure: Exception | None = None) -> None:
        """Queue a task whose backoff is over."""
        self.schedule.rested(key, failure)
        self._awake()

    def _launch(self) -> None:
        """Start queued tasks while the concurrency limit and the pool allow, unless the run is to halt."""
        schedule = self.schedule
        here, loop_tasks, for_workers = schedule.queues
        while loop_tasks and (task := schedule.next(LOOP, STARTING)) is not None:
            key = (task, task.execution)
            running = schedule.flying[key] = self._loop.create_task(self._body(key))
            running.add_done_callback(partial(self._ran, key))
        while here and (task := schedule.next(HERE, STARTING)) is not None:
            self._inline(task)
        if not for_workers:
            return
        pool = self.services.pool()
        while for_workers and schedule.jobs < pool.most:
            context = contextvars.copy_context()
            context.run(waits_for, pool)  # a run started by the node must not wait for the node's own worker thread
            job = Job(schedule, context, _no_graph, self._landed)
            if not job.take():
                return
            pool.submit(job)

    def _inline(self, task: Task) -> None:
        """Run a sync node declared `inline` on the loop."""
        execution = task.execution
        try:
            reply = inline(self.services, task)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            reply = Escaped(error)
        self.schedule.end(task, execution, reply)  # `_launch` continues with the next task, without recursion
        self.ring()

    async def _body(self, key: Key) -> Any:
        """Run an async node or nested graph, as an asyncio task that never raises; return the reply."""
        try:
            return await ainvoke(self.services, key[0], self._nested)
        except asyncio.CancelledError:  # by `stop`
            return STOPPED
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            return Escaped(error)

    def _ran(self, key: Key, running: asyncio.Task[Any]) -> None:
        """Report the end of an asyncio task; one cancelled before its first step never ran `_body`."""
        schedule = self.schedule
        schedule.end(*key, STOPPED if running.cancelled() else running.result())
        if any(schedule.queues) and not schedule.held:
            self._launch()
        if schedule.held or not schedule.flying or self.services.eager:
            self.ring()

    def _landed(self, job: Job) -> None:
        """Record the reply of a job, on its worker thread."""
        if self.schedule.end(job.task, job.execution, job.reply):
            self._more()
        else:  # it was abandoned: journal that its outcome is late, on the loop like all entries
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.services.dropped, job.task)

    def _more(self) -> None:
        """Check for tasks to start, and wake `_wait`, from any thread. Simultaneous calls wake the loop only once."""
        if not self._awaking:
            self._awaking = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._awake)

    def _awake(self) -> None:
        """Start all tasks that may start, and wake `_wait`, on the loop."""
        self._awaking = False  # reset first, so that later changes schedule another call
        self._launch()
        self.ring()

    def ring(self) -> None:
        """Wake `_wait`. Must be called on the loop."""
        bell = self._bell
        if bell is not None and not bell.done():
            bell.set_result(None)

    async def _wait(self, until: float | None = None) -> None:
        """Wait for `ring`, until the next attempt times out or *until* at the latest."""
        self._bell = self._loop.create_future()
        moments = [moment for moment in (until, self.schedule.until()) if moment is not None]
        try:
            if moments:
                await asyncio.wait([self._bell], timeout=max(0.0, min(moments) - monotonic()))
            else:
                await self._bell
        finally:
            self._bell = None
        for job in self.schedule.expire():
            self.services.pool().abandon(job)

    async def collect(self, until: float | None = None) -> list[Ended]:
        """Wait until all tasks have ended, one failed, the run halts or *until* is reached. Returns the ended tasks.

        With `services.eager` it returns as soon as one has ended, so that its outcome is stored at once (rule R9).
        *until* is in seconds of the monotonic clock; None waits without a limit.
        """
        schedule, control = self.schedule, self.services.control
        schedule.hold()
        control.on_halt.append(self._more)
        self._launch()  # tasks that were held back until the flow had processed a failure
        try:
            while schedule.is_busy and not schedule.is_due and (until is None or monotonic() < until):
                await self._wait(until)
        finally:
            control.on_halt.remove(self._more)
        batch: list[Ended] = []
        schedule.take(batch)
        return batch

    async def alone(self, task: Task) -> Any:
        """Run one sync task on a worker thread, and return its reply or STOPPED."""
        execution = task.execution
        self.start((task,))
        while self.services.control.halt is None:
            for ended, number, reply in await self.collect():
                if ended is task and number == execution:
                    return reply
        return next(
            (outcome[2] for outcome in await self.stop() if outcome[0] is task and outcome[1] == execution), STOPPED
        )

    async def stop(self) -> list[Ended]:
        """Cancel and await async tasks, and await sync ones for up to `grace_s`.

        Returns the replies of those that ended.
        """
        schedule, pool = self.schedule, self.services.pool
        rests = schedule.stop()
        for timer in rests:
            timer.cancel()
        resting: list[asyncio.Task[Any]] = [timer for timer in rests if isinstance(timer, asyncio.Task)]
        if resting:
            await asyncio.wait(resting)
        with schedule.lock:
            flying = list(schedule.flying.items())
        for key, handle in flying:
            if isinstance(handle, asyncio.Task):
                give_up(key[0], STOPPED_BESIDE)
                handle.cancel()
            elif pool().withdraw(handle):  # still queued: it never starts (rule R9)
                schedule.end(*key, STOPPED)
        until = monotonic() + self._limits.grace_s
        while schedule.flying:
            only_jobs = not any(isinstance(handle, asyncio.Task) for handle in list(schedule.flying.values()))
            if only_jobs and monotonic() >= until:
                for job in schedule.abandon():
                    pool().abandon(job)
                break
            await self._wait(until if only_jobs else None)  # async tasks: without a time limit
        return schedule.stopped()  # no more tasks start, because the schedule is held


def _place(task: Task) -> int:
    """Return where to run *task*: a sync node must not block the loop, unless it is declared `inline` (R19)."""
    node = task.node
    if node.is_async or node.child is not None:
        return LOOP
    return HERE if node.policy.inline else WORKER


def inline(services: RunServices, task: Task) -> Any:
    """Run a sync node on the loop. It cannot be interrupted: a timeout is noticed only when it has ended."""
    time = AttemptTime(task)
    reply = invoke(services, task, _no_graph)
    return time.reply() if monotonic() > time.until else reply


def _no_graph(_flow: Flow, task: Task) -> Any:
    """Placeholder for the driver of nested graphs where only sync nodes run."""
    raise AssertionError(task)  # nested graphs are driven on the loop
