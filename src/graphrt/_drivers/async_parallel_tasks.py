"""Several tasks of a superstep under asyncio: async nodes as asyncio tasks, sync nodes on the runtime's worker threads.

A task passes through `_timers` (backoff), `_waiting` or `_for_workers` (queued), `_flying` and `_ended`, from which
`collect` hands it to the flow. All of this state is changed on the loop. Only `_SyncJob.run` runs on a worker thread,
and reports back by `call_soon_threadsafe`; a RuntimeError of that means that the loop is closed, and the run over.

A *key* is (task, execution number); the number grows with each attempt, so that a late end can be told from a current
one. `Escaped` carries an exception like Ctrl-C, which `collect` raises. `Ended` is the tuple (task, execution number,
reply). No rule of the graph is decided here. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, final

from graphrt._drivers.async_retry_waits import rested
from graphrt._drivers.attempt_times import AttemptTime, ends, is_over, is_timed
from graphrt._drivers.attempts import OUT_OF_GRACE, STOPPED_BESIDE, TIMED_OUT, give_up
from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.failures import Escaped
from graphrt._drivers.invoke import ainvoke, invoke
from graphrt._drivers.parallel_tasks import Ended
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.thread_pool import waits_for
from graphrt._engine.task import STOPPED, Failed, Stopped, Task, TimedOut
from graphrt._flows.effects import Flow
from graphrt.limits import Limits

ODD: Final = frozenset({Failed, TimedOut, Stopped, Escaped})
"""Types of replies that the flow must see at once: they end the superstep, or ask for another attempt."""


@final
class _SyncJob:
    """A sync node as a job of `ThreadPool`. It runs in a copy of the caller's context variables (rule R19)."""

    __slots__ = ("_context", "_parallel", "key", "reply", "worker")

    def __init__(self, parallel: AsyncParallelTasks, key: tuple[Task, int]) -> None:
        self._parallel = parallel
        self._context = contextvars.copy_context()
        self._context.run(
            waits_for, parallel.services.pool()
        )  # a run that the node starts must not wait for its worker
        self.key = key
        self.reply: Any = None
        self.worker: threading.Thread | None = None  # set by the pool while the job runs

    def run(self) -> None:
        """Run the node; called on the worker thread."""
        task = self.key[0]
        if is_timed(task):
            task.more().time = AttemptTime(task)
            self._parallel.begun(self.key)
        try:
            self.reply = self._context.run(invoke, self._parallel.services, task, _no_graph)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.reply = Escaped(error)

    def land(self) -> None:
        """Hand the reply over; called on the worker thread when it can take the next job."""
        self._parallel.landed(self.key, self.reply)


@final
class AsyncParallelTasks:
    """Runs the tasks of one drive on the running loop. *nested* drives the flow of a nested graph."""

    # fmt: off
    __slots__ = (
        "_bell", "_ended", "_flying", "_for_workers", "_held", "_landed", "_landing", "_limit", "_limits", "_loop",
        "_nested", "_on_workers", "_timers", "_waiting", "services",
    )
    # fmt: on

    def __init__(
        self,
        services: RunServices,
        limits: Limits,
        nested: Callable[[Flow, Task], Awaitable[Any]],
        limit: ConcurrencyLimit | None,
    ) -> None:
        self.services = services
        self._limits = limits  # for `grace_s` alone
        self._nested = nested
        self._limit = limit  # `max_concurrency`: tasks of the run that may be in flight; None without one
        self._loop = asyncio.get_running_loop()
        self._bell: asyncio.Future[None] | None = None  # what `_wait` awaits now
        self._ended: deque[Ended] = deque()
        self._flying: dict[tuple[Task, int], asyncio.Task[Any] | _SyncJob] = {}
        """(task, execution number) to the asyncio task or the job that runs it."""
        self._on_workers = 0
        """Jobs handed to the pool, at most `pool.most`, so that the runs of a server take turns (decision 0049)."""
        self._timers: dict[tuple[Task, int], asyncio.TimerHandle | asyncio.Task[None]] = {}
        """Backoff before an attempt, or the timeout of a job."""
        self._waiting: deque[Task] = deque()  # queued tasks for the loop
        self._for_workers: deque[Task] = deque()  # queued tasks for worker threads
        self._landed: deque[tuple[tuple[Task, int], Any]] = deque()
        """Jobs that have ended, with their replies; appended by worker threads, taken by `_land` on the loop."""
        self._landing = False  # whether a call of `_land` is scheduled
        self._held = False
        """True after a reply of a type in `ODD`, and while stopping: no task starts until the flow has seen it."""

    def start(self, tasks: Sequence[Task]) -> None:
        """Start *tasks*, or queue them until their backoff is over and `max_concurrency` and the pool allow."""
        for task in tasks:
            if task.extra is None and task.node.is_async:  # the common case of a wide fan-out
                self._waiting.append(task)
                continue
            wait_s = task.extra.delay_s if task.extra is not None else 0.0
            if wait_s > 0.0:
                task.more().delay_s = 0.0  # so that it is waited for once
                key = (task, task.execution)
                self._timers[key] = self._resting(key, wait_s)
            else:
                self._queue(task)
        self._launch()

    def _resting(self, key: tuple[Task, int], wait_s: float) -> asyncio.TimerHandle | asyncio.Task[None]:
        """Start the backoff of a task, in real time or by the runtime's `sleep=`; return what cancels it."""
        sleep = self.services.sleep
        if sleep is None:
            return self._loop.call_later(wait_s, self._rested, key)
        return self._loop.create_task(self._rest(key, sleep, wait_s))

    async def _rest(self, key: tuple[Task, int], sleep: Callable[[float], Any], wait_s: float) -> None:
        """Wait by *sleep*, the runtime's `sleep=`; what it raises ends the run. `stop` cancels this."""
        try:
            await rested(sleep, wait_s)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            del self._timers[key]
            self._ended.append((*key, Escaped(error)))
            self._held = True
            self.ring()
        else:
            self._rested(key)

    def _rested(self, key: tuple[Task, int]) -> None:
        """Queue a task whose backoff is over."""
        del self._timers[key]
        self._queue(key[0])
        self._launch()

    def _queue(self, task: Task) -> None:
        """Queue a task for the place where it runs."""
        if runs_on_worker(task):
            self._for_workers.append(task)
        else:
            self._waiting.append(task)

    def _launch(self) -> None:
        """Start queued tasks while the concurrency limit and the pool allow, unless the run is to halt."""
        if self.services.control.halt is not None:  # set by any thread; the loop may see the end of a job before it
            return
        waiting, limit = self._waiting, self._limit
        while waiting and not self._held and (limit is None or limit.take(self._woken)):  # as `_may_start`
            task = waiting.popleft()
            node, key = task.node, (task, task.execution)
            if is_over(task):  # it waited for its place until the time of its superstep was over
                self._too_late(key)
                continue
            if node.is_async or node.child is not None:
                running = self._flying[key] = self._loop.create_task(self._body(key))
                running.add_done_callback(partial(self._ran, key))
            else:
                self._inline(key)
        if not self._for_workers:
            return
        pool = self.services.pool()
        while self._for_workers and not self._held and self._on_workers < pool.most and self._may_start():
            task = self._for_workers.popleft()
            key = (task, task.execution)
            if is_over(task):
                self._too_late(key)
                continue
            job = _SyncJob(self, key)
            pool.submit(job)
            self._flying[key] = job
            self._on_workers += 1
            if task.timeout_s is not None and ends(task):
                # A deadline runs on while the job waits for a worker thread. A node's own timeout begins in `begun`.
                self._timers[key] = self._loop.call_later(task.timeout_s, self._expire, key)

    def _too_late(self, key: tuple[Task, int]) -> None:
        """Report a task that was queued until the time of its superstep was over; its node is not called."""
        self._end(key, TimedOut(key[0].timeout_s or 0.0))
        self.ring()

    def _may_start(self) -> bool:
        """Take a place of `max_concurrency`, if there is such a limit; return False if none is free."""
        return self._limit is None or self._limit.take(self._woken)

    def _woken(self) -> None:
        """Look for queued tasks once more, since a place may be free; on the loop, where all places are given back."""
        self._loop.call_soon(self._launch)  # not called directly: tasks that end at once would recurse

    def _inline(self, key: tuple[Task, int]) -> None:
        """Run a sync node declared `inline` on the loop."""
        try:
            reply = inline(self.services, key[0])
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            reply = Escaped(error)
        self._end(key, reply)  # not `_post`, which calls `_launch`: thousands of inline tasks must not recurse
        self.ring()

    async def _body(self, key: tuple[Task, int]) -> Any:
        """Run an async node or nested graph, as an asyncio task that never raises; return the reply."""
        try:
            return await ainvoke(self.services, key[0], self._nested)
        except asyncio.CancelledError:  # by `stop`
            return STOPPED
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            return Escaped(error)

    def begun(self, key: tuple[Task, int]) -> None:
        """Start the timeout of a job, from its worker thread: until now the job may have waited for one."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._time, key)

    def landed(self, key: tuple[Task, int], reply: Any) -> None:
        """Report the end of a job, from its worker thread. Jobs that end together wake the loop once."""
        self._landed.append((key, reply))
        if not self._landing:
            self._landing = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._land)

    def _time(self, key: tuple[Task, int]) -> None:
        """Start the timeout of a job that has begun, unless it has ended or a deadline's timer runs already."""
        task = key[0]
        if key not in self._flying or self._held:
            return
        if task.node.policy.idle_timeout_s is not None and key in self._timers:
            self._timers.pop(key).cancel()  # it may be idle before that
        if key not in self._timers:
            self._timers[key] = self._loop.call_later(task.more().time.until - monotonic(), self._expire, key)

    def _land(self) -> None:
        """Take the replies of the jobs that have ended, on the loop."""
        self._landing = False  # before the queue is read: a job that lands from now on schedules another call
        while self._landed:
            key, reply = self._landed.popleft()
            if key in self._flying:
                self._on_workers -= 1
                self._post(key, reply)
            else:
                self.services.dropped(key[0])  # it was abandoned: its outcome is too late, which is journalled

    def _expire(self, key: tuple[Task, int]) -> None:
        """Report a job as timed out, and abandon its worker thread, which no longer counts; or wait on for signs of life."""
        del self._timers[key]
        time: AttemptTime | None = key[0].more().time
        if time is not None and time.until > monotonic():  # it gave one since
            self._timers[key] = self._loop.call_later(time.until - monotonic(), self._expire, key)
            return
        job = self._flying[key]  # there: `_post` cancels the timer of a job that has ended
        if isinstance(job, _SyncJob):
            self._on_workers -= 1
            give_up(key[0], TIMED_OUT)
            self.services.pool().abandon(job)
        self._post(key, TimedOut(key[0].timeout_s or 0.0) if time is None else time.reply())

    def _ran(self, key: tuple[Task, int], running: asyncio.Task[Any]) -> None:
        """Report the end of an asyncio task; one cancelled before its first step never ran `_body`."""
        self._post(key, STOPPED if running.cancelled() else running.result())

    def _post(self, key: tuple[Task, int], reply: Any) -> None:
        """Move a task from `_flying` to `_ended`, once, and start queued ones in its place."""
        if self._flying.pop(key, self) is self:  # not there
            return  # reported already, by a timeout for instance
        if self._timers:
            timer = self._timers.pop(key, None)
            if timer is not None:
                timer.cancel()
        self._end(key, reply)
        if (self._waiting or self._for_workers) and not self._held:
            self._launch()
        if self._held or not self._flying or self.services.eager:
            self.ring()

    def _end(self, key: tuple[Task, int], reply: Any) -> None:
        """Note the reply for `collect`, and give the task's place of `max_concurrency` back."""
        self._ended.append((*key, reply))
        if reply.__class__ in ODD:
            self._held = True
        if self._limit is not None:
            self._limit.give_back()

    def ring(self) -> None:
        """Wake `_wait`; call it on the loop only."""
        bell = self._bell
        if bell is not None and not bell.done():
            bell.set_result(None)

    def _ring_from_anywhere(self) -> None:
        """Wake `_wait` from any thread, when the run is to halt."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ring)

    async def _wait(self, timeout_s: float | None = None) -> None:
        """Wait for `ring`, at most *timeout_s*."""
        self._bell = self._loop.create_future()
        try:
            if timeout_s is None:
                await self._bell
            else:
                await asyncio.wait([self._bell], timeout=timeout_s)
        finally:
            self._bell = None

    async def collect(self, until: float | None = None) -> list[Ended]:
        """Wait until all tasks have ended, one failed, the run halts, or it is *until*; return those that have ended.

        With `services.eager` it returns as soon as one has ended, so that its outcome is stored at once (rule R9).
        *until* is in seconds of the monotonic clock; None waits without a limit.
        """
        control = self.services.control
        eager = self.services.eager
        control.on_halt.append(self._ring_from_anywhere)
        self._launch()  # tasks that were held back until the flow had seen a failure
        try:
            while (
                (self._flying or self._timers or self._waiting or self._for_workers)
                and control.halt is None
                and not (eager and self._ended)
                and not any(one[2].__class__ in ODD for one in self._ended)
            ):
                if until is None:
                    await self._wait()
                elif (left := until - monotonic()) > 0:
                    await self._wait(left)
                else:
                    break
        finally:
            control.on_halt.remove(self._ring_from_anywhere)
        batch: list[Ended] = []
        self._held = False
        while self._ended:
            one = self._ended.popleft()
            if one[2].__class__ is Escaped:
                self._ended.extendleft(reversed(batch))  # finished tasks keep their outcomes: `stop` returns them
                raise one[2].error
            batch.append(one)
        return batch

    async def alone(self, task: Task) -> Any:
        """Run one sync task on a worker thread, and return its reply or STOPPED."""
        execution = task.execution
        self.start((task,))
        while self.services.control.halt is None:
            for ended, number, reply in await self.collect():
                if ended is task and number == execution:
                    return reply
        for ended, number, reply in await self.stop():
            if ended is task and number == execution:
                return reply
        return STOPPED

    async def stop(self) -> list[Ended]:
        """Cancel async tasks and await them, await sync ones for `grace_s`; return the replies of those that ended."""
        self._held = True
        self._waiting.clear()
        self._for_workers.clear()
        for timer in self._timers.values():
            timer.cancel()
        resting = [timer for timer in self._timers.values() if isinstance(timer, asyncio.Task)]
        self._timers.clear()
        if resting:
            await asyncio.wait(resting)
        for key, running in list(self._flying.items()):  # a copy: `_post` removes
            if isinstance(running, asyncio.Task):
                give_up(key[0], STOPPED_BESIDE)
                running.cancel()
            elif self.services.pool().withdraw(running):  # still queued: it never starts (rule R9)
                self._on_workers -= 1
                self._post(key, STOPPED)
        until = monotonic() + self._limits.grace_s
        while self._flying:
            only_jobs = all(isinstance(running, _SyncJob) for running in self._flying.values())
            if only_jobs and monotonic() >= until:
                self._abandon()  # `_land` drops their outcomes when they arrive
                break
            await self._wait(max(0.0, until - monotonic()) if only_jobs else None)  # async ones: no limit
        batch = [one for one in self._ended if one[2].__class__ is not Escaped]
        self._ended.clear()
        if self._limit is not None:
            self._limit.abandon()  # abandoned jobs keep no place of enclosing graphs
        return batch  # `_held` stays true: this object starts nothing any more

    def _abandon(self) -> None:
        """Give up the jobs that still run after the grace time; the pool then counts their threads no more."""
        for job in self._flying.values():
            if isinstance(job, _SyncJob):
                give_up(job.key[0], OUT_OF_GRACE)
                self.services.pool().abandon(job)
        self._flying.clear()


def runs_on_worker(task: Task) -> bool:
    """Return whether *task* runs a sync node that must not block the loop (rule R19)."""
    node = task.node
    return not node.is_async and node.child is None and not node.policy.inline


def inline(services: RunServices, task: Task) -> Any:
    """Run a sync node on the loop. It cannot be interrupted: a timeout is noticed only when it has ended."""
    started = monotonic()
    reply = invoke(services, task, _no_graph)
    if task.timeout_s is not None and monotonic() - started > task.timeout_s:
        return TimedOut(task.timeout_s)
    return reply


def _no_graph(_flow: Flow, task: Task) -> Any:
    """Stand in for what drives nested graphs where only sync nodes are run."""
    raise AssertionError(task)  # nested graphs are driven on the loop
