"""Several tasks of a superstep under a sync run: the caller runs sync tasks, and worker threads help (rule R19).

The caller takes the first task and drains the queue. Helpers, which are jobs of the runtime's thread pool, drain it
too; each asks for the next one if tasks are left. So short tasks rarely wait for a thread switch, and those that block
overlap. Measured: 3 to 5 us for a task that does nothing, 16 ms for 32 sleeps of 10 ms (decisions 0011 and 0087). Async
tasks run on the private loop. A task passes through a `Rest` timer (backoff), `queue` or `timed`, a thread or the loop,
and `ended`. The caller cannot abandon what it runs itself, so helpers alone run nodes with a timeout (`timed`). If
outcomes are stored as soon as their tasks end (`services.eager`, rule R9), helpers run all tasks: then the caller is
free to store.

The driver calls `start`, `collect`, `stop`, `alone` and `close`, for the effects of the run loop. `Escaped` carries an
exception like Ctrl-C to the caller. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from graphrt._drivers.attempt_times import AttemptTime, ends, is_over, is_timed
from graphrt._drivers.attempts import OUT_OF_GRACE, STOPPED_BESIDE, TIMED_OUT, give_up
from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.failures import Escaped
from graphrt._drivers.invoke import ainvoke, invoke
from graphrt._drivers.retry_waits import Rest
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.thread_pool import waits_for
from graphrt._engine.task import STOPPED, Failed, Stopped, Task, TimedOut
from graphrt._flows.effects import Flow
from graphrt._forks import Home, OwnLock
from graphrt._waits import slice_s

Ended = tuple[Task, int, Any]
"""A task, the number of its execution, and its reply."""


@final
class ParallelTasks:
    """Runs the tasks of one drive, superstep after superstep. *drive* drives a nested graph in the thread of its task.

    `lock` guards everything but `queue`, `timed` and `ended`: deques, whose appends and pops are atomic in CPython.
    """

    def __init__(
        self, services: RunServices, drive: Callable[[Flow, Task], Any], limit: ConcurrencyLimit | None, grace_s: float
    ) -> None:
        self.services = services
        self.drive = drive
        self.limit = limit
        self.grace_s = grace_s
        self.pool = services.pool_source().here()  # inside a job of a pool another one, see `ThreadPool.here`
        self.pool.hold()  # its worker threads stay until `close`
        self.context = contextvars.copy_context()  # the caller's; each node runs in a copy (rule R19)
        self.on_workers = self.context.copy()
        """Context variables for worker threads: what a node starts there must not wait for one of the same pool."""
        self.on_workers.run(waits_for, self.pool)
        self.queue: deque[Task] = deque()
        self.timed: deque[Task] = deque()  # sync tasks with a timeout, which begins when a helper takes the task
        self.ended: deque[Ended] = deque()
        self.bell = threading.Event()
        """Set when a task or helper ended, a place is free or the run halts; the caller waits for it."""
        self.lock = OwnLock(Home("This run"))  # in a forked child it raises, so that no copy of the run waits there
        self.helpers: set[Helper] = set()
        """Helpers that are queued in the pool or running. One that is not in this set any more was abandoned."""
        self.called = False  # whether a helper is queued in the pool, which will ask for the next one itself
        self.refused = False  # whether the system refused to start a worker thread: the caller runs what it may
        self.rests: list[Rest] = []  # backoffs that may still be waiting
        self.starting = 0  # count of async tasks between `queue` and `running`
        self.running: dict[Task, Any] = {}  # async tasks on the private loop, with their `loop_thread.Running` handles
        self.open = 0  # count of tasks that were started and not collected
        self.closing = False  # whether `close` was called: no helper starts any more
        self.stopping = False  # whether a task failed for good on a helper: none starts until the flow has seen it (R9)
        self.wait_s = grace_s  # seconds that `close` waits for busy helpers; 0 after `stop` has waited for so long
        services.control.on_halt.append(self.bell.set)

    def start(self, tasks: Sequence[Task]) -> None:
        """Queue *tasks* after their backoff; those that the caller may run wait for `collect`."""
        self.open += len(tasks)
        for task in tasks:
            wait_s = task.extra.delay_s if task.extra is not None else 0.0
            if wait_s > 0.0:
                task.more().delay_s = 0.0  # so that it is waited for once
                self._after(wait_s, task)
            else:
                self._enqueue(task)
        if self.timed:  # only helpers run these; for the others `collect` asks for helpers
            self.reinforce()

    def _after(self, wait_s: float, task: Task) -> None:
        """Queue *task* after its backoff of *wait_s* seconds, on a timer thread."""

        def wake(failure: BaseException | None) -> None:
            """Queue the task, from the timer thread; *failure* is what the user's `sleep=` raised."""
            with self.lock:  # under which `stop` cancels the timers
                if timer.finished.is_set():  # cancelled at the same moment
                    return
            if failure is None:
                self._enqueue(task)
            else:
                self.ended.append((task, task.execution, Escaped(failure)))
            self.bell.set()

        timer = Rest(self.services, wait_s, wake, self.context.copy())
        timer.start()
        self.rests = [*filter(threading.Thread.is_alive, self.rests), timer]  # without those that are over

    def _enqueue(self, task: Task) -> None:
        """Queue a task, or start an async one; under `max_concurrency` all are queued, and `pop` starts async ones."""
        if task.node.is_async:
            if self.limit is None:
                self._submit(task)
                return
        elif task.node.child is None and is_timed(task):  # a nested graph keeps its timeout by itself
            self.timed.append(task)
            return
        self.queue.append(task)

    def _room(self) -> None:
        """Wake the caller and a helper, because a place of the concurrency limit may be free.

        The limit calls it once, in the thread that gives a place back. That thread does not hold `lock`.
        """
        self.bell.set()
        self.reinforce()

    def collect(self, until: float | None = None) -> list[Ended]:
        """Run tasks until all have ended, one failed, the run halts, or it is *until*; return those that have ended.

        With `services.eager` it only waits, and returns as soon as one has ended. *until* is in monotonic seconds.
        """
        batch: list[Ended] = []
        control, called = self.services.control, False
        self.stopping = False  # the failure that set it was collected, or is in `ended`
        try:
            # A helper notes a failure in `ended` before it sets `stopping`, which may have been just before.
            odd = bool(self.ended) and self._take(batch)
            while not odd:
                if control.halt is not None:
                    self._take(batch)
                    break
                eager = self.services.eager and not self.refused  # helpers run all tasks
                task = None if eager else self.pop()
                if task is not None:
                    if not called:  # once: helpers ask for more of them
                        called = True
                        self.reinforce()
                    batch.append(self._run(task))
                    if batch[-1][2].__class__ in _ODD:
                        self._take(batch)
                        break
                    continue
                self.bell.clear()
                if self._take(batch) or len(batch) >= self.open or (eager and batch):  # a failure, all, or one
                    break
                if control.halt is not None:  # set before the bell was cleared, which would not ring again
                    continue
                if until is not None and monotonic() >= until:
                    break
                if eager or self.timed:
                    self.reinforce()
                    eager = eager and not self.refused
                if not eager and (task := self.pop()) is not None:
                    batch.append(self._run(task))  # a place was given back before the bell was cleared
                    continue
                self.bell.wait(self._wait_s(until))
                self._expire()
        except BaseException:
            self.ended.extendleft(reversed(batch))  # finished tasks keep their outcomes: `stop` returns them
            raise
        self.open -= len(batch)
        return batch

    def _wait_s(self, until: float | None) -> float:
        """Return the seconds until the next timeout or *until*, whichever is first, or a slice if both are later."""
        ends = [until] if until is not None else []
        with self.lock:
            ends += [helper.time.until for helper in self.helpers if helper.time is not None]
        return slice_s(min(ends) - monotonic() if ends else None)

    def _expire(self) -> None:
        """Report tasks whose time is over as timed out, and abandon their worker threads, which no longer count."""
        now = monotonic()
        with self.lock:
            over = [helper for helper in self.helpers if helper.time is not None and helper.time.until <= now]
            for helper in over:
                task = helper.task
                assert task is not None  # noqa: S101 - it has a timeout
                assert helper.time is not None  # noqa: S101
                give_up(task, TIMED_OUT)
                self.ended.append((task, helper.execution, helper.time.reply()))
                self.helpers.discard(helper)
        for helper in over:
            self.pool.abandon(helper)
            self.give_back()  # here, since `end` does not for an abandoned helper

    def _take(self, batch: list[Ended]) -> bool:
        """Move ended tasks into *batch*; return whether one of them failed, so that the flow must see it at once."""
        odd = False
        while self.ended:
            one = self.ended.popleft()
            if one[2].__class__ is Escaped:
                raise one[2].error  # such as Ctrl-C, on a helper or the loop
            batch.append(one)
            odd = odd or one[2].__class__ in _ODD
        return odd

    def stop(self) -> list[Ended]:
        """Cancel async tasks, wait for all at most `grace_s`, and return the replies of those that ended (rule R9)."""
        with self.lock:
            for timer in self.rests:
                timer.cancel()  # no further attempt begins
        self.queue.clear()
        self.timed.clear()
        asked: set[Task] = set()
        batch: list[Ended] = []
        until = monotonic() + self.grace_s
        while True:
            self.bell.clear()
            with self.lock:
                left = self.starting or self.running or any(helper.task is not None for helper in self.helpers)
                running = {task: one for task, one in self.running.items() if task not in asked}
            for task, one in running.items():  # in the loop: a helper may have been starting one when the stop began
                give_up(task, STOPPED_BESIDE)
                one.cancel()
            asked.update(running)
            while self.ended:  # after the count: a task is in `ended` before it is counted off
                one = self.ended.popleft()
                if one[2].__class__ is not Escaped:
                    batch.append(one)
            if not left:
                break
            if monotonic() >= until:
                self.wait_s = 0.0  # `close` need not wait once more
                break
            self.bell.wait(slice_s(until - monotonic()))
        self.open = 0
        self._abandon()
        self.stopping = False
        if self.limit is not None:
            self.limit.abandon()  # abandoned tasks keep no place of enclosing graphs
        return batch

    def _abandon(self) -> None:
        """Abandon the worker threads that run a task. Their outcomes are dropped when they arrive."""
        with self.lock:
            left = {helper for helper in self.helpers if helper.task is not None}
            self.helpers -= left
        for helper in left:
            if helper.task is not None:
                give_up(helper.task, OUT_OF_GRACE)
            self.pool.abandon(helper)

    def alone(self, task: Task) -> Any:
        """Run one sync task that has a timeout, on a worker thread, and wait for it until the timeout at most."""
        execution, until = task.execution, None
        if ends(task):  # that time runs on while the task waits for a worker thread
            until = monotonic() + (task.timeout_s or 0.0)
        self.start((task,))
        while True:
            self.bell.clear()
            batch: list[Ended] = []
            self._take(batch)
            self.open -= len(batch)
            for ended, number, reply in batch:
                if ended is task and number == execution:  # else late, of an earlier attempt
                    return reply
            if self.services.control.halt is not None:
                replies = self.stop()
                return next((one[2] for one in replies if one[0] is task and one[1] == execution), STOPPED)
            with self.lock:  # `pop` takes the task under it
                if until is not None and monotonic() >= until and self.timed:
                    self.timed.clear()  # no helper has taken it, and the deadline is over
                    self.open = 0
                    return TimedOut(task.timeout_s or 0.0)
            self.bell.wait(self._wait_s(until if self.timed else None))
            self._expire()

    def close(self) -> None:
        """Give the worker threads back. An abandoned one ends when its node returns."""
        with self.lock:
            self.closing = True
            queued = {helper for helper in self.helpers if self.pool.withdraw(helper)}
            self.helpers -= queued
        control = self.services.control
        if self.bell.set in control.on_halt:
            control.on_halt.remove(self.bell.set)
        for timer in self.rests:
            timer.cancel()
        # A helper rings the bell when its node ends. The bell is cleared before each look, so that no ring is missed.
        until = monotonic() + self.wait_s
        self.bell.clear()
        while any(helper.task is not None for helper in self.helpers.copy()) and monotonic() < until:
            self.bell.wait(slice_s(until - monotonic()))
            self.bell.clear()
        self._abandon()
        self.pool.release()

    def pop(self, helper: Helper | None = None) -> Task | None:
        """Return the next task for the caller or *helper*, or None; queued async tasks are started on the way."""
        limit = self.limit
        if limit is None and helper is None:  # async tasks are not queued then, see `_enqueue`
            while self.queue and not self.stopping:
                try:
                    task = self.queue.popleft()  # without the lock: atomic
                except IndexError:
                    return None
                if task.ends_s is None or not is_over(task):
                    return task
                self._too_late(task)
            return None
        while True:
            with self.lock:  # checked and counted in one step, so that `stop` and the limit never miss a task
                queue = self.timed if helper is not None and self.timed else self.queue
                held = self.stopping or self.closing or self.services.control.halt is not None
                if not queue or held or (helper is not None and helper not in self.helpers):
                    return None
                if limit is not None and not limit.take(self._room):  # `take` only keeps `_room`: it does not call it
                    return None
                task = queue.popleft()
                over = task.ends_s is not None and is_over(task)
                if not over and not task.node.is_async:
                    if helper is not None:
                        helper.task, helper.execution = task, task.execution
                        if queue is self.timed:
                            helper.time = task.more().time = AttemptTime(task)
                            self.bell.set()  # the caller waits until the first timeout, which may be this one
                    return task
                self.starting += not over
            if over:
                self._too_late(task)
                self.give_back()
                continue
            self._submit(task)
            with self.lock:
                self.starting -= 1
            self.bell.set()

    def _too_late(self, task: Task) -> None:
        """Report a task that was queued until the time of its superstep was over; its node is not called."""
        self.ended.append((task, task.execution, TimedOut(task.timeout_s or 0.0)))
        self.bell.set()

    def _run(self, task: Task) -> Ended:
        """Run a task in the caller, in a copy of its context variables: what the node sets does not leave it (R19)."""
        try:
            return task, task.execution, self.context.copy().run(invoke, self.services, task, self.drive)
        finally:
            if self.limit is not None:
                self.limit.give_back()

    def give_back(self) -> None:
        """Give the place of an ended task back to the concurrency limit, if there is one."""
        if self.limit is not None:
            self.limit.give_back()

    def reinforce(self) -> None:
        """Ask the pool for one more helper, if tasks are queued and none is on its way."""
        with self.lock:
            wanted = (self.queue or self.timed) and not self.called and not self.closing
            if not wanted or len(self.helpers) >= self.pool.most:
                return
            self.called = True
            helper = Helper(self)
            self.helpers.add(helper)
        try:
            self.pool.submit(helper)
        except RuntimeError:  # no thread can be started, for instance while the interpreter exits
            with self.lock:
                self.helpers.discard(helper)
                self.called, self.refused = False, True
            if self.timed:  # the caller cannot run these
                raise

    def end(self, helper: Helper, task: Task, reply: Any) -> None:
        """Take the reply of *task*, on the worker thread of *helper*; an abandoned one is too late."""
        with self.lock:
            late = helper not in self.helpers
            if not late:
                self.ended.append((task, helper.execution, reply))
                if reply.__class__ in _ODD and task.node.policy.retry is None and task.node.on_error is None:
                    self.stopping = True  # the superstep fails: queued tasks must not start (rule R9)
            helper.task = helper.time = None
        if not late:
            self.give_back()
            self.bell.set()
        elif self.services.record is not None and not self.closing:
            self.services.dropped(task)  # journals that the outcome came too late; not after the end of the run

    def _submit(self, task: Task) -> None:
        """Start an async task on the private loop."""
        execution = task.execution
        # None: what drives a nested graph, which no async node is.
        running = self.context.copy().run(self.services.loop().submit, lambda: ainvoke(self.services, task, None))
        with self.lock:
            self.running[task] = running

        def end(result: Any) -> None:
            """Take the reply, on the loop thread; *result* is the `Future` of the coroutine."""
            error = result.exception()
            reply = result.result() if error is None else _escaped(error)
            with self.lock:
                self.ended.append((task, execution, reply))
                self.running.pop(task, None)
            self.give_back()
            self.bell.set()

        running.result.add_done_callback(end)


_ODD: Final = frozenset({Failed, TimedOut, Stopped})
"""Types of replies that the flow must see at once, to end the superstep or retry; `_take` raises an `Escaped`."""


def _escaped(error: BaseException) -> Any:
    """Return the reply for a coroutine that ended with *error*: STOPPED if it was cancelled."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    return STOPPED if isinstance(error, LoopCancelledError) else Escaped(error)


@final
class Helper:
    """Runs tasks of *parallel* on a worker thread, as a `thread_pool.Job`. The lock of *parallel* guards the state."""

    __slots__ = ("_parallel", "execution", "task", "time", "worker")

    def __init__(self, parallel: ParallelTasks) -> None:
        self._parallel = parallel
        self.task: Task | None = None
        """The task that it runs; None between two tasks."""
        self.execution = 0
        """Number of the execution. It tells an abandoned attempt from its retry, which has the same task."""
        self.time: AttemptTime | None = None
        """The time that the task has left; None if nothing cuts it off."""
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
