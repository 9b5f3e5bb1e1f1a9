"""Several tasks of a superstep in a sync run: the caller runs sync tasks, assisted by worker threads (rule R19).

The caller takes the first task and drains the queue. Helpers, which are jobs of the runtime's thread pool, drain it
too; each helper requests another one if tasks are left. So short tasks rarely wait for a thread switch, and blocking
tasks overlap. Measured: 3 to 5 us for a task that does nothing, 16 ms for 32 sleeps of 10 ms (decisions 0011 and 0087).
Async tasks run on the private loop. A node with a timeout is a separate job, because the caller cannot abandon a node
that it runs itself. If outcomes are stored as soon as their tasks end (`services.eager`, rule R9), helpers run all
other tasks, so that the caller is free to store. The `schedule` holds the attempts that may start, and their outcomes.

The driver calls `start`, `collect`, `stop`, `alone` and `close` to perform the effects of the run loop. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, final

from graphrt._drivers.attempt_times import AttemptTime, is_timed
from graphrt._drivers.attempts import STOPPED_BESIDE, give_up
from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.failures import Escaped
from graphrt._drivers.invoke import ainvoke, invoke
from graphrt._drivers.retry_waits import Rest
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.schedule import HERE, LOOP, ODD, STARTING, WORKER, Ended, Job, Key, Schedule
from graphrt._drivers.thread_pool import waits_for
from graphrt._drivers.timed_steps import TimedSteps
from graphrt._engine.task import STOPPED, Task
from graphrt._flows.effects import Flow
from graphrt._forks import Home, OwnLock
from graphrt._waits import slice_s


@final
class ParallelTasks:
    """Runs the tasks of one drive, superstep after superstep. *drive* drives a nested graph in the thread of its task."""

    def __init__(
        self, services: RunServices, drive: Callable[[Flow, Task], Any], limit: ConcurrencyLimit | None, grace_s: float
    ) -> None:
        self.services = services
        self.drive = drive
        self.grace_s = grace_s
        self.pool = services.pool_source().here()  # inside a job of a pool, a different one: see `ThreadPool.here`
        self.pool.hold()  # keeps its worker threads until `close`
        self.context = contextvars.copy_context()  # the caller's; each node runs in a copy (rule R19)
        self.on_workers = self.context.copy()
        """Context variables for worker threads: a run that a node starts there must not wait for a thread of the same
        pool."""
        self.on_workers.run(waits_for, self.pool)
        self.bell = threading.Event()
        """Set, from any thread, when something happens that the caller may be waiting for."""
        # In a forked child the lock raises, so that a copy of the run does not wait there.
        self.schedule = Schedule(services, limit, self._place, self._more, OwnLock(Home("This run")))
        self.helpers: set[Helper] = set()
        """Helpers that are queued in the pool or running. A helper that was removed from this set was abandoned."""
        self.called = False  # whether a helper is queued in the pool; it will request the next one itself
        # Whether the system refused to start a worker thread: the caller then runs the tasks that it may run.
        self.refused = False
        self.closing = False  # whether `close` was called, after which no task starts
        self.stuck = False  # whether a worker thread is still inside the flow, so that no other thread may use it
        self.wait_s = (
            grace_s  # seconds that `close` waits for busy worker threads; 0 if `stop` has already waited that long
        )
        services.control.on_halt.append(self.bell.set)

    def _place(self, task: Task) -> int:
        """Return where to run *task*. A nested graph enforces its timeout itself."""
        node = task.node
        if node.is_async:
            return LOOP
        return WORKER if is_timed(task) and node.child is None else HERE

    def start(self, tasks: Sequence[Task]) -> None:
        """Queue *tasks*, some after their backoff. Those that the caller may run wait for `collect`."""
        schedule = self.schedule
        for key, wait_s in schedule.start(tasks):

            def wake(failure: BaseException | None, key: tuple[Task, int] = key) -> None:
                """Queue the task, from the timer thread. *failure* is the exception that the user's `sleep=` raised."""
                schedule.rested(key, failure)
                self._more()

            timer = schedule.resting[key] = Rest(self.services, wait_s, wake, self.context.copy())
            timer.start()
        self._launch()

    def _more(self) -> None:
        """Check for tasks to start, from any thread, and wake the caller."""
        self._launch()
        if self.schedule.queues[HERE]:
            self.reinforce()
        self.bell.set()

    def _launch(self) -> None:
        """Start queued async tasks and jobs as far as the concurrency limit and the pool allow, from any thread."""
        schedule = self.schedule
        while schedule.queues[LOOP] and (task := schedule.next(LOOP, STARTING)) is not None:
            self._submit(task)
        while schedule.queues[WORKER] and schedule.jobs < self.pool.most and not self.closing:
            job = Job(schedule, self.on_workers.copy(), self.drive, self._landed)
            if not job.take():
                break
            try:
                self.pool.submit(job)
            except BaseException:  # no thread can be started and the caller cannot run it, or Ctrl-C
                schedule.end(job.task, job.execution, STOPPED)
                raise

    def _landed(self, job: Job | TimedSteps) -> None:
        """Record the reply of a job, on its worker thread."""
        if self.schedule.end(job.task, job.execution, job.reply):
            self._more()
        elif self.services.record is not None and not self.closing:
            self.services.dropped(job.task)  # journals that the outcome came too late, unless the run has ended

    def _submit(self, task: Task) -> None:
        """Start an async task on the private loop."""
        schedule, execution = self.schedule, task.execution
        # None, because an async node is never a nested graph that needs a driver.
        running = self.context.copy().run(self.services.loop().submit, lambda: ainvoke(self.services, task, None))
        with schedule.lock:
            schedule.flying[task, execution] = running
        self.bell.set()  # `stop` may be waiting for it, to cancel it

        def end(result: Any) -> None:
            """Record the reply, on the loop thread. *result* is the `Future` of the coroutine."""
            error = result.exception()
            schedule.end(task, execution, result.result() if error is None else _escaped(error))
            self._more()

        running.result.add_done_callback(end)

    def collect(self, until: float | None = None) -> list[Ended]:
        """Run tasks until all have ended, one failed, the run halts or *until* is reached.

        Returns the ended tasks. With `services.eager` it only waits, and returns as soon as one task has ended. *until*
        is in monotonic seconds.
        """
        batch: list[Ended] = []
        schedule, control, called = self.schedule, self.services.control, False
        limit = schedule.limit
        schedule.hold()
        self._launch()
        try:
            while True:
                self.bell.clear()
                helped = self.services.eager and not self.refused  # helpers run all tasks
                while not (helped or schedule.held) and control.halt is None:
                    task = schedule.next(HERE)
                    if task is None:
                        break
                    if not called:  # only once: helpers request further helpers themselves
                        called = True
                        self.reinforce()
                    try:
                        # Run in a copy of the caller's context variables, so that changes by the node stay inside it
                        # (R19).
                        reply = self.context.copy().run(invoke, self.services, task, self.drive)
                    finally:
                        if limit is not None:
                            limit.give_back()
                    batch.append((task, task.execution, reply))
                    if reply.__class__ in ODD:
                        schedule.held = True
                if schedule.is_due or not schedule.is_busy or (until is not None and monotonic() >= until):
                    break
                if schedule.queues[HERE]:
                    self.reinforce()
                self.bell.wait(self._wait_s(until))
                self._expire()
            schedule.take(batch)
        except BaseException:
            schedule.ended.extendleft(reversed(batch))  # finished tasks keep their outcomes: `stop` returns them
            raise
        return batch

    def _wait_s(self, until: float | None) -> float:
        """Return the seconds until the next timeout or *until*, but at most one slice."""
        ends = [end for end in (until, self.schedule.until()) if end is not None]
        return slice_s(max(0.0, min(ends) - monotonic()) if ends else None)

    def _expire(self) -> None:
        """Abandon the worker threads of attempts that have timed out. They no longer count."""
        for job in self.schedule.expire():
            self.pool.abandon(job)

    def stop(self) -> list[Ended]:
        """Cancel async tasks, wait up to `grace_s` for all tasks, and return the replies of ended ones (rule R9)."""
        schedule = self.schedule
        for timer in schedule.stop():
            timer.cancel()  # no further attempt begins
        stopped: set[Any] = set()
        until = monotonic() + self.grace_s
        while schedule.flying:
            self.bell.clear()
            with schedule.lock:
                flying = [
                    attempt
                    for attempt in schedule.flying.items()
                    if attempt[1] not in stopped and attempt[1] is not STARTING
                ]
            for (task, execution), handle in flying:
                stopped.add(handle)
                if isinstance(handle, (Job, TimedSteps)):
                    if self.pool.withdraw(handle):  # still queued: it never starts (rule R9)
                        schedule.end(task, execution, STOPPED)
                elif not isinstance(handle, Helper):
                    give_up(task, STOPPED_BESIDE)
                    handle.cancel()
            if not schedule.flying:
                break
            if monotonic() >= until:
                self.wait_s = 0.0  # so that `close` does not wait again
                break
            self.bell.wait(slice_s(until - monotonic()))
        self._abandon()
        return schedule.stopped()

    def _abandon(self) -> None:
        """Abandon the worker threads that run a task. Their outcomes are discarded when they arrive."""
        for handle in self.schedule.abandon():
            if isinstance(handle, Helper):
                self.helpers.discard(handle)
            if isinstance(handle, (Helper, Job, TimedSteps)):
                self.pool.abandon(handle)

    def alone(self, task: Task) -> Any:
        """Run one sync task with a timeout on a worker thread, and wait for it no longer than the timeout."""
        self.start((task,))
        return self._awaited(task, task.execution)

    def _awaited(self, task: Task, execution: int) -> Any:
        """Wait for the end of the only attempt, no longer than its timeout, and return its reply."""
        while self.services.control.halt is None:
            for ended, number, reply in self.collect():
                if ended is task and number == execution:  # otherwise it is a late reply of an earlier attempt
                    return reply
        return next((outcome[2] for outcome in self.stop() if outcome[0] is task and outcome[1] == execution), STOPPED)

    def watch(self, flow: Flow, task: Task) -> Any:
        """Run *task*, for which *flow* waits, and the timed tasks that follow it, on a worker thread.

        Returns:
            The `TimedSteps` if its worker has left the flow; else the reply of an abandoned task, for which the flow is
            waiting.
        """
        control, bell = self.services.control, self.bell
        steps = TimedSteps(self.services, flow, task, self.on_workers.copy(), self.pool, bell, self._landed)
        self.pool.submit(steps)
        try:
            while not steps.rests:
                bell.clear()
                steps.wakes_s = inf  # cleared before `attempt` is read
                key, time = steps.attempt
                left_s = max(0.0, time.until - monotonic())
                if not left_s or control.halt is not None:
                    if self._taken(steps, key, time):
                        break
                else:
                    steps.wakes_s = time.until
                if not steps.rests:
                    bell.wait(slice_s(left_s or None))
            else:
                return steps
        except BaseException:  # Ctrl-C, which the caller then throws into the flow
            self._halt(steps)
            raise
        return self._awaited(*steps.attempt[0])  # so that a Ctrl-C in the meantime finds the flow suspended

    def _taken(self, steps: TimedSteps, key: Key, time: AttemptTime) -> bool:
        """Close an attempt of *steps*, and hand it over to the schedule. Returns False if it is no longer open."""
        schedule = self.schedule
        with schedule.lock:  # so that `_landed` finds it there
            if not steps.close(key):
                return False
            schedule.flying[key], schedule.times[key] = steps, time
        if schedule.limit is not None:
            schedule.limit.take(self.bell.set)  # a slot is free, because no other task of this graph is in flight
        return True

    def _halt(self, steps: TimedSteps) -> None:
        """Wait up to `grace_s` until no thread runs the flow of *steps*, so that an error can be thrown into it."""
        steps.stops, steps.wakes_s = True, inf
        until = monotonic() + self.grace_s
        while not (steps.rests or self._taken(steps, *steps.attempt)):
            if monotonic() >= until:  # a router, reducer or commit that takes longer
                self.stuck = True
                self.pool.abandon(steps)
                return
            self.bell.wait(slice_s(until - monotonic()))
            self.bell.clear()

    def close(self) -> None:
        """Release the worker threads. An abandoned one ends when its node returns."""
        self.closing = True
        schedule = self.schedule
        for timer in schedule.stop():
            timer.cancel()
        with schedule.lock:
            self.helpers -= {helper for helper in self.helpers if self.pool.withdraw(helper)}
        control = self.services.control
        if self.bell.set in control.on_halt:
            control.on_halt.remove(self.bell.set)
        # The bell is cleared before each check, so that no ring is missed.
        until = monotonic() + self.wait_s
        self.bell.clear()
        while schedule.flying and monotonic() < until:
            self.bell.wait(slice_s(until - monotonic()))
            self.bell.clear()
        self._abandon()
        schedule.close()
        self.pool.release()

    def reinforce(self) -> None:
        """Request one more helper from the pool if tasks are queued for the caller and no helper is pending."""
        with self.schedule.lock:
            is_needed = self.schedule.queues[HERE] and not self.called and not self.closing
            if not is_needed or len(self.helpers) >= self.pool.most:
                return
            self.called = True
            helper = Helper(self)
            self.helpers.add(helper)
        try:
            self.pool.submit(helper)
        except RuntimeError:  # no thread can be started, for instance while the interpreter exits
            with self.schedule.lock:
                self.helpers.discard(helper)
                self.called, self.refused = False, True


def _escaped(error: BaseException) -> Any:
    """Return the reply for a coroutine that ended with *error*: STOPPED if it was cancelled."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    return STOPPED if isinstance(error, LoopCancelledError) else Escaped(error)


@final
class Helper:
    """Runs tasks of *parallel* alongside the caller, on a worker thread, as a `thread_pool.Job`."""

    __slots__ = ("_parallel", "worker")

    def __init__(self, parallel: ParallelTasks) -> None:
        self._parallel = parallel
        self.worker: threading.Thread | None = None
        """The thread that runs this job; None before and after. Set by the pool."""

    def run(self) -> None:
        """Run tasks until none is left for this helper. Called by the pool on a worker thread."""
        parallel = self._parallel
        schedule = parallel.schedule
        parallel.called = False  # this helper has started, so another one may be requested
        while self in parallel.helpers and not parallel.closing:
            task = schedule.next(HERE, self)
            if task is None:
                return
            execution = task.execution
            parallel.reinforce()  # a further helper, if tasks are left
            reply: Any
            try:
                # Each task gets a copy of the caller's context variables, so that changes by a node do not affect other
                # tasks.
                reply = parallel.on_workers.copy().run(invoke, parallel.services, task, parallel.drive)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            if schedule.end(task, execution, reply):
                parallel.bell.set()
            elif parallel.services.record is not None and not parallel.closing:
                parallel.services.dropped(task)  # as for a job
            # The runs of a server take turns: another helper continues after the waiting ones.
            if parallel.pool.crowded:
                self.land()  # immediately, so that this helper does not count for `reinforce`; the pool calls it again
                parallel.reinforce()
                return

    def land(self) -> None:
        """Leave the helpers of the run, which then no longer waits for this one. Called by the pool after `run`."""
        with self._parallel.schedule.lock:
            self._parallel.helpers.discard(self)
