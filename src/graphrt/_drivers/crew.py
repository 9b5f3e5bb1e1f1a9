"""Worker threads that help the caller with several sync tasks (rule R19), and the tasks it runs on the private loop.

The caller drains a shared queue; helpers join it as they get the interpreter, each waking the next, so that short
tasks cost no switch of worker threads and blocking ones overlap. Helpers end with the run. Where outcomes are to be
stored the moment their tasks end (rule R9), helpers run everything, and the caller is free to store.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from graphrt._drivers.ignite import ignite
from graphrt._drivers.invoke import ainvoke, failed, invoke
from graphrt._drivers.scope import Scope, monotonic
from graphrt._drivers.waiting import Rest
from graphrt._engine.task import STOPPED, Failed, Stopped, Task, TimedOut
from graphrt._flows.effects import Flow
from graphrt._plan.tables import CALL_SYNC

MOST_HELPERS: Final = 32
Ended = tuple[Task, int, Any]


@final
class Escaped:
    """A helper's task raised what is no Exception; the caller raises it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


@final
class Crew:
    """Runs the tasks of one drive, superstep after superstep."""

    def __init__(self, scope: Scope, drive: Callable[[Flow], Any], limit: int | None, grace_s: float) -> None:
        self.scope = scope
        self.drive = drive
        self.limit = limit
        self.grace_s = grace_s
        self.context = contextvars.copy_context()
        self.queue: deque[Task] = deque()
        self.ended: deque[Ended] = deque()
        self.bell = threading.Event()
        """Set when something ended, or the run halts."""
        self.work: threading.Semaphore | None = None
        self.lock = threading.Lock()
        self.helpers: list[threading.Thread] = []
        self.idle = 0
        self.busy = 0
        """Tasks in flight, counted only where `limit` is set."""
        self.open = 0
        """Tasks that were started and not collected."""
        self.running: dict[Task, Any] = {}
        """Async tasks on the private loop."""
        self.guarded: dict[Task, tuple[int, float]] = {}
        """Sync tasks with a timeout: attempt, and when it is over."""
        self.closing = False
        self.stopping = False
        """Something odd ended: helpers take nothing more until the flow has seen it."""
        self.patience_s = grace_s
        """Seconds that `close` waits for busy helpers; none once a stop has waited."""
        scope.control.on_halt.append(self.bell.set)

    # -- effects -------------------------------------------------------------------------------------------------

    def start(self, tasks: Sequence[Task]) -> None:
        """Make *tasks* ready to run."""
        self.open += len(tasks)
        ready: list[Task] = []
        for task in tasks:
            if task.extra is None and task.timeout_s is None and not task.node.is_async:
                ready += (task,)
                continue
            wait_s = task.extra.delay_s if task.extra is not None else 0.0
            if wait_s > 0.0:
                task.more().delay_s = 0.0
                self._after(wait_s, task)
            else:
                self._enqueue(task)
        self.queue.extend(ready)
        if len(self.queue) > 1:
            ignite(self)

    def _after(self, wait_s: float, task: Task) -> None:
        def wake(failure: BaseException | None) -> None:
            if failure is None:
                self._enqueue(task)
            else:
                self.ended.append((task, task.execution, Escaped(failure)))
            self.bell.set()

        timer = Rest(self.scope, wait_s, wake, self.context.copy())
        timer.start()
        self.helpers.append(timer)

    def _enqueue(self, task: Task) -> None:
        if self.limit is None and task.node.is_async:
            self._submit(task)
        elif self.limit is None and task.timeout_s is not None and task.node.child is None:
            self._guard(task)
        else:
            self.queue.append(task)

    def collect(self) -> list[Ended]:
        """Run and wait until all started tasks have ended, one failed, or the run is to halt.

        An eager run waits for the first that ends; others that ended meanwhile come along.
        """
        batch: list[Ended] = []
        control = self.scope.control
        eager = self.scope.eager
        self.stopping = False
        try:
            if self.limit is None and not eager:
                self._drain(batch)
            while True:
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
                if control.halt is not None:  # set before the bell was cleared: it would not ring again
                    continue
                if eager and self.queue:
                    ignite(self)
                if eager or not (self.queue and self._may_run()):
                    self.bell.wait(self._patience())
                self._expire()
        except BaseException:
            self.ended.extendleft(reversed(batch))  # what finished keeps its outcome: the stop collects it
            raise
        self.open -= len(batch)
        return batch

    def _drain(self, batch: list[Ended]) -> None:
        """Run what is queued, one after another, until something odd comes of it: the caller's own share."""
        popleft, copy, control = self.queue.popleft, self.context.copy, self.scope.control
        while control.halt is None:
            try:
                task = popleft()
            except IndexError:
                return
            execution = task.execution
            if task.plain == CALL_SYNC and not self.scope.timed:
                try:
                    reply = copy().run(task.fn, task.state)
                except Exception as error:  # noqa: BLE001 - whatever a node raises is its outcome
                    reply = failed(error)
            else:
                reply = copy().run(invoke, self.scope, task, self.drive)
            batch.append((task, execution, reply))
            if reply.__class__ in _ODD:
                return

    def _take(self, batch: list[Ended]) -> bool:
        """Move what ended into *batch*; True if something of it cannot wait."""
        odd = False
        while self.ended:
            one = self.ended.popleft()
            if one[2].__class__ is Escaped:
                raise one[2].error
            batch.append(one)
            odd = odd or one[2].__class__ in _ODD
        return odd

    def stop(self) -> list[Ended]:
        """Cancel what runs, wait for it, and return what ended all the same."""
        self.queue.clear()
        for running in list(self.running.values()):
            running.cancel()
        batch: list[Ended] = []
        until = monotonic() + self.grace_s
        while True:
            self.bell.clear()
            with self.lock:
                left = self.busy + len(self.running)
            while self.ended:  # after the count: what ended before it is not missed
                one = self.ended.popleft()
                if one[2].__class__ is not Escaped:
                    batch.append(one)
            if left <= 0:
                break
            if monotonic() >= until:
                self.patience_s = 0.0
                break
            self.bell.wait(until - monotonic())
        self.open = 0
        self.guarded.clear()
        self.stopping = False
        return batch

    def alone(self, task: Task) -> Any:
        """Run one sync task that has a timeout, on a worker thread, and wait for it no longer than that."""
        self.open += 1
        self._guard(task)
        execution = task.execution
        until: float | None = None
        while True:
            for ended, number, reply in self.collect_ready():
                if ended is task and number == execution:
                    return reply
            if self.scope.control.halt is not None:
                until = monotonic() + self.grace_s if until is None else until
                if monotonic() >= until:
                    self.guarded.pop(task, None)  # abandoned: its outcome is dropped when it comes
                    return STOPPED
            patience = self._patience()
            if until is not None:
                patience = min(until - monotonic(), patience) if patience is not None else until - monotonic()
            self.bell.wait(patience)
            self._expire()

    def collect_ready(self) -> list[Ended]:
        """What has ended by now, without waiting."""
        self.bell.clear()
        batch: list[Ended] = []
        self._take(batch)
        self.open -= len(batch)
        return batch

    def close(self) -> None:
        """End the helpers. Abandoned ones end when their node returns."""
        with self.lock:
            self.closing = True
        control = self.scope.control
        if self.bell.set in control.on_halt:
            control.on_halt.remove(self.bell.set)
        for _ in self.helpers:
            if self.work is not None:
                self.work.release()
        for helper in self.helpers:
            if isinstance(helper, threading.Timer):
                helper.cancel()
            elif helper is not threading.current_thread():
                helper.join(self.patience_s if self.busy else None)

    # -- running -------------------------------------------------------------------------------------------------

    def _may_run(self) -> bool:
        return self.limit is None or self.busy < self.limit

    def _pop(self, *, caller: bool) -> Task | None:
        if self.limit is not None or not caller:
            with self.lock:
                if not self.queue or not self._may_run():
                    return None
                if self.stopping or self.scope.control.halt is not None:
                    return None
                task = self.queue.popleft()
                if task.node.is_async or (task.timeout_s is not None and task.node.child is None):
                    launch = self._submit if task.node.is_async else self._guard
                else:
                    self.busy += 1
                    return task
            launch(task)
            return self._pop(caller=caller)
        try:
            return self.queue.popleft()
        except IndexError:
            return None

    def _run(self, task: Task) -> Ended:
        execution = task.execution
        try:
            return task, execution, self.context.copy().run(invoke, self.scope, task, self.drive)
        finally:
            if self.limit is not None:
                with self.lock:
                    self.busy -= 1

    def reinforce(self) -> None:
        """Let one more helper join, if there is still work for it."""
        with self.lock:
            if self.closing or not self.queue:
                return
            if self.work is None:
                self.work = threading.Semaphore(0)
            if self.idle:
                self.work.release()
                return
            if len(self.helpers) >= min(MOST_HELPERS, self.limit or MOST_HELPERS):
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
                with self.lock:
                    self.idle += 1
                work.acquire()
                with self.lock:
                    self.idle -= 1
                continue
            if self.queue:
                self.reinforce()
            execution = task.execution
            try:
                reply = self.context.copy().run(invoke, self.scope, task, self.drive)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            with self.lock:
                self.ended.append((task, execution, reply))  # kept first, then not busy any more
                self.busy -= 1
                if reply.__class__ in _ODD and task.node.policy.retry is None and task.node.on_error is None:
                    self.stopping = True  # the superstep fails: what is queued must not start
            del task, reply
            self.bell.set()

    def _submit(self, task: Task) -> None:
        execution = task.execution
        running = self.context.copy().run(self.scope.loop().submit, lambda: ainvoke(self.scope, task, None))
        with self.lock:
            self.running[task] = running
            if self.limit is not None:
                self.busy += 1

        def end(result: Any) -> None:
            error = result.exception()
            reply = result.result() if error is None else _escaped(error)
            with self.lock:
                self.ended.append((task, execution, reply))
                self.running.pop(task, None)
                if self.limit is not None:
                    self.busy -= 1
            self.bell.set()

        running.result.add_done_callback(end)

    # -- timeouts of sync tasks ----------------------------------------------------------------------------------

    def _guard(self, task: Task) -> None:
        """Run *task* on a worker thread of its own, which is abandoned if it takes too long."""
        execution = task.execution
        with self.lock:
            self.busy += 1
            self.guarded[task] = (execution, monotonic() + (task.timeout_s or 0.0))
        context = self.context.copy()

        def work() -> None:
            try:
                reply = context.run(invoke, self.scope, task, self.drive)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            with self.lock:
                late = self.guarded.get(task, (None,))[0] != execution
                if not late:
                    self.ended.append((task, execution, reply))
                    self.busy -= 1
                    del self.guarded[task]
            if not late:
                self.bell.set()
            elif self.scope.record is not None and not self.closing:
                self.scope.dropped(task)

        threading.Thread(target=work, name=f"graphrt-{task.node.name}", daemon=True).start()

    def _patience(self) -> float | None:
        """Seconds until the next timeout, None if there is none."""
        with self.lock:
            if not self.guarded:
                return None
            return max(0.0, min(until for _, until in self.guarded.values()) - monotonic())

    def _expire(self) -> None:
        now = monotonic()
        with self.lock:
            over = [task for task, (_, until) in self.guarded.items() if until <= now]
            for task in over:
                execution, _ = self.guarded.pop(task)
                self.busy -= 1
                self.ended.append((task, execution, TimedOut(task.timeout_s or 0.0)))


_ODD: Final = frozenset({Failed, TimedOut, Stopped})


def _escaped(error: BaseException) -> Any:
    from graphrt._drivers.loop_thread import LoopCancelledError

    return STOPPED if isinstance(error, LoopCancelledError) else Escaped(error)
