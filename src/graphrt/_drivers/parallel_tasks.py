"""Several tasks of a superstep under a sync run: the caller runs sync tasks, and worker threads help (rule R19).

The caller drains a shared queue. Helper threads join as they get the interpreter, each waking the next. So short tasks
cost no thread switch, and blocking ones overlap. Measured: 0.5 to 1.3 us a task, where an executor costs 5.8, and 32
sleeps of 10 ms end after 10.5 ms. See decision 0011. Helpers end with the run. Async tasks run on the private loop.

If outcomes are stored as soon as their tasks end (`services.eager`, rule R9), helpers run all tasks, so that the caller
is free to store. A task passes through a `Rest` timer (backoff), `queue`, a thread or the loop, and `ended`.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.invoke import Escaped, ainvoke, failed, invoke
from graphrt._drivers.retry_waits import Rest
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.thread_starter import start_soon
from graphrt._drivers.timed_tasks import TimedTasks
from graphrt._engine.task import STOPPED, Failed, Stopped, Task, TimedOut
from graphrt._flows.effects import Flow
from graphrt._plan.tables import CALL_SYNC

MOST_HELPERS: Final = 32
Ended = tuple[Task, int, Any]
"""A task, the number of its execution, and its reply."""


@final
class ParallelTasks:
    """Runs the tasks of one drive, superstep after superstep.

    Counters are guarded by `lock`. `queue` and `ended` are deques, whose appends and pops are atomic in CPython.
    """

    def __init__(
        self, services: RunServices, drive: Callable[[Flow, Task], Any], limit: ConcurrencyLimit | None, grace_s: float
    ) -> None:
        self.services = services
        self.drive = drive
        self.limit = limit
        self.grace_s = grace_s
        self.context = contextvars.copy_context()
        self.queue: deque[Task] = deque()
        self.ended: deque[Ended] = deque()
        self.bell = threading.Event()
        """Set when a task ended, a place is free or the run halts; the caller waits for it."""
        self.work: threading.Semaphore | None = None
        """Idle helpers wait for it; made with the first helper."""
        self.lock = threading.Lock()
        self.helpers: list[threading.Thread] = []
        self.rests: list[Rest] = []
        self.idle = 0
        self.busy = 0
        """Tasks in flight on worker threads, which `stop` waits for."""
        self.open = 0
        """Tasks that were started and not collected."""
        self.running: dict[Task, Any] = {}
        """Async tasks on the private loop, with their `Running` handles."""
        self.timed = TimedTasks()
        self.closing = False
        self.stopping = False
        """A task failed for good on a helper: no more tasks start until the flow has seen it (R9)."""
        self.wait_s = grace_s
        """Seconds that `close` waits for busy helpers; 0 after `stop` has waited for the grace time."""
        services.control.on_halt.append(self.bell.set)

    def start(self, tasks: Sequence[Task]) -> None:
        """Queue *tasks* after their backoff, and wake a helper if there is work for one."""
        self.open += len(tasks)
        ready: list[Task] = []
        for task in tasks:
            if task.extra is None and task.timeout_s is None and not task.node.is_async:
                ready.append(task)
                continue
            wait_s = task.extra.delay_s if task.extra is not None else 0.0
            if wait_s > 0.0:
                task.more().delay_s = 0.0  # so that it is waited for once
                self._after(wait_s, task)
            else:
                self._enqueue(task)
        self.queue.extend(ready)
        if len(self.queue) > 1:
            start_soon(self)

    def _after(self, wait_s: float, task: Task) -> None:
        def wake(failure: BaseException | None) -> None:
            with self.lock:
                if timer.finished.is_set():  # stopped at the same moment
                    return
            if failure is None:
                self._enqueue(task)
            else:
                self.ended.append((task, task.execution, Escaped(failure)))
            self.bell.set()

        timer = Rest(self.services, wait_s, wake, self.context.copy())
        timer.start()
        self.rests = [*filter(threading.Thread.is_alive, self.rests), timer]

    def _enqueue(self, task: Task) -> None:
        """Start a task that runs elsewhere, or queue it; under a limit all are queued, and `_pop` starts them."""
        if self.limit is None and task.node.is_async:
            self._submit(task)
        elif self.limit is None and task.timeout_s is not None and task.node.child is None:
            self.timed.start(self, task)
        else:
            self.queue.append(task)

    def _room(self) -> None:
        """Wake the caller and a helper: a place of the concurrency limit may be free."""
        self.bell.set()
        if self.queue:
            start_soon(self)

    def collect(self, until: float | None = None) -> list[Ended]:
        """Run tasks until all have ended, one failed, the run halts, or it is *until*; return those that have ended.

        With `services.eager` it only waits, and returns as soon as one task has ended.

        Args:
            until: Monotonic time in seconds; None waits without a limit.
        """
        batch: list[Ended] = []
        control = self.services.control
        eager = self.services.eager
        self.stopping = False
        try:
            # A helper notes a failure in `ended` before it sets `stopping`, which may have been just before.
            odd = bool(self.ended) and self._take(batch)
            if self.limit is None and not eager and not odd:
                self._drain(batch)
            while not odd:
                if batch and batch[-1][2].__class__ in _ODD:
                    self._take(batch)
                    break
                if control.halt is not None:
                    self._take(batch)
                    break
                task = None if eager else self._pop(caller=True)
                if task is not None:
                    batch.append(self._run(task))
                    continue
                self.bell.clear()
                if self._take(batch) or len(batch) >= self.open or (eager and batch):
                    break
                if control.halt is not None:  # set before the bell was cleared, which would not ring again
                    continue
                if until is not None and monotonic() >= until:
                    break
                if eager and self.queue:
                    start_soon(self)
                elif self.queue and (task := self._pop(caller=True)) is not None:
                    batch.append(self._run(task))  # a place was given back before the bell was cleared
                    continue
                self.bell.wait(self._wait_s(until))
                self.timed.expire(self)
        except BaseException:
            self.ended.extendleft(reversed(batch))  # finished tasks keep their outcomes: `stop` returns them
            raise
        self.open -= len(batch)
        return batch

    def _wait_s(self, until: float | None) -> float | None:
        """Return the seconds until the next timeout or *until*, whichever is first; None if there is neither."""
        wait = self.timed.wait_s(self)
        if until is None:
            return wait
        left = max(0.0, until - monotonic())
        return left if wait is None else min(left, wait)

    def _drain(self, batch: list[Ended]) -> None:
        """Run queued tasks in the caller until one fails or the queue is empty. No lock: deque.popleft is atomic."""
        popleft, copy = self.queue.popleft, self.context.copy
        services, drive, control = self.services, self.drive, self.services.control
        while control.halt is None and not self.stopping:
            try:
                task = popleft()
            except IndexError:
                return
            execution = task.execution
            if task.plain == CALL_SYNC and not services.timed:
                try:
                    reply = copy().run(task.node.fn, task.state)
                except Exception as error:  # noqa: BLE001 - whatever a node raises is its outcome
                    reply = failed(error)
            else:
                reply = copy().run(invoke, services, task, drive)
            batch.append((task, execution, reply))
            if reply.__class__ in _ODD:
                return

    def _take(self, batch: list[Ended]) -> bool:
        """Move ended tasks into *batch*; return whether one of them failed, so that the flow must see it at once."""
        odd = False
        while self.ended:
            one = self.ended.popleft()
            if one[2].__class__ is Escaped:
                raise one[2].error
            batch.append(one)
            odd = odd or one[2].__class__ in _ODD
        return odd

    def stop(self) -> list[Ended]:
        """Cancel async tasks, wait for all at most `grace_s`, and return the replies of those that ended (rule R9)."""
        with self.lock:
            for timer in self.rests:
                timer.cancel()  # no further attempt begins
        self.queue.clear()
        self.timed.hold()
        asked: set[Task] = set()
        batch: list[Ended] = []
        until = monotonic() + self.grace_s
        while True:
            self.bell.clear()
            with self.lock:
                left = self.busy + len(self.running)
                running = {task: one for task, one in self.running.items() if task not in asked}
            for one in running.values():  # in the loop: a helper may have been starting one when the stop began
                one.cancel()
            asked.update(running)
            while self.ended:  # after the count: a task is in `ended` before it is counted off
                one = self.ended.popleft()
                if one[2].__class__ is not Escaped:
                    batch.append(one)
            if left <= 0:
                break
            if monotonic() >= until:
                self.wait_s = 0.0
                break
            self.bell.wait(until - monotonic())
        self.open = 0
        self.timed.abandon(self)
        self.stopping = False
        if self.limit is not None:
            self.limit.abandon()
        return batch

    def alone(self, task: Task) -> Any:
        """Run one sync task that has a timeout, on a worker thread, and wait for it until the timeout at most."""
        self.open += 1
        if self.limit is not None:
            self.limit.take(self._room)  # there is room: nothing else of this graph is in flight
        self.timed.start(self, task)
        execution = task.execution
        until: float | None = None
        while True:
            for ended, number, reply in self.collect_ready():
                if ended is task and number == execution:
                    return reply
            if self.services.control.halt is not None:
                until = monotonic() + self.grace_s if until is None else until
                if monotonic() >= until:
                    self.timed.abandon(self)
                    return STOPPED
            self.bell.wait(self._wait_s(until))
            self.timed.expire(self)

    def collect_ready(self) -> list[Ended]:
        """Return the tasks that have ended, without waiting."""
        self.bell.clear()
        batch: list[Ended] = []
        self._take(batch)
        self.open -= len(batch)
        return batch

    def close(self) -> None:
        """End the helper threads. An abandoned one ends when its node returns."""
        with self.lock:
            self.closing = True
        control = self.services.control
        if self.bell.set in control.on_halt:
            control.on_halt.remove(self.bell.set)
        for _ in self.helpers:
            if self.work is not None:
                self.work.release()
        for timer in self.rests:
            timer.cancel()
        for helper in self.helpers:
            if helper is not threading.current_thread():
                helper.join(self.wait_s if self.busy else None)

    def _pop(self, *, caller: bool) -> Task | None:
        """Return the next task for this thread, or None; queued tasks that run elsewhere are started on the way."""
        limit = self.limit
        if limit is None and caller:
            if self.stopping:
                return None
            try:
                return self.queue.popleft()
            except IndexError:
                return None
        while True:
            with self.lock:  # checked and counted in one step, so that `stop` and the limit never miss a task
                wanted = self.queue and not self.stopping and self.services.control.halt is None
                if not wanted or (limit is not None and not limit.take(self._room)):
                    if not caller:
                        self.idle += 1
                    return None
                task = self.queue.popleft()
                elsewhere = task.node.is_async or (task.timeout_s is not None and task.node.child is None)
                if elsewhere or not caller:
                    self.busy += 1
            if not elsewhere:
                return task
            if task.node.is_async:
                self._submit(task)
            else:
                self.timed.start(self, task)
            with self.lock:
                self.busy -= 1  # counted this thread while it started the task, which `running` or `timed` counts now
            self.bell.set()

    def _run(self, task: Task) -> Ended:
        execution = task.execution
        try:
            return task, execution, self.context.copy().run(invoke, self.services, task, self.drive)
        finally:
            self.give_back()

    def give_back(self) -> None:
        """Give the place of an ended task back to the concurrency limit, if there is one."""
        if self.limit is not None:
            self.limit.give_back()

    def reinforce(self) -> None:
        """Wake an idle helper, or start one more, if tasks are still queued."""
        with self.lock:
            if self.closing or not self.queue:
                return
            if self.work is None:
                self.work = threading.Semaphore(0)
            if self.idle:
                self.work.release()
                return
            if len(self.helpers) >= MOST_HELPERS:
                return
            helper = threading.Thread(target=self._help, name=f"graphrt-{len(self.helpers)}", daemon=True)
            helper.start()
            self.helpers.append(helper)

    def _help(self) -> None:
        work = self.work
        assert work is not None  # noqa: S101 - made before the first helper
        while not self.closing:
            task = self._pop(caller=False)
            if task is None:
                work.acquire()
                with self.lock:
                    self.idle -= 1
                continue
            if self.queue:
                self.reinforce()
            execution = task.execution
            try:
                reply = self.context.copy().run(invoke, self.services, task, self.drive)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            with self.lock:
                self.ended.append((task, execution, reply))  # before busy: `stop` counts first, then reads `ended`
                self.busy -= 1
                if reply.__class__ in _ODD and task.node.policy.retry is None and task.node.on_error is None:
                    self.stopping = True  # the superstep fails: queued tasks must not start (rule R9)
            self.give_back()
            del task, reply  # an idle helper must not keep them alive
            self.bell.set()

    def _submit(self, task: Task) -> None:
        """Start an async task on the private loop."""
        execution = task.execution
        running = self.context.copy().run(self.services.loop().submit, lambda: ainvoke(self.services, task, None))
        with self.lock:
            self.running[task] = running

        def end(result: Any) -> None:
            error = result.exception()
            reply = result.result() if error is None else _escaped(error)
            with self.lock:
                self.ended.append((task, execution, reply))
                self.running.pop(task, None)
            self.give_back()
            self.bell.set()

        running.result.add_done_callback(end)


_ODD: Final = frozenset({Failed, TimedOut, Stopped})
"""Types of replies that the flow must see at once; an `Escaped` is raised instead."""


def _escaped(error: BaseException) -> Any:
    from graphrt._drivers.loop_thread import LoopCancelledError

    return STOPPED if isinstance(error, LoopCancelledError) else Escaped(error)
