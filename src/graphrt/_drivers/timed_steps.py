"""Consecutive supersteps of one sync task with a timeout, run on one worker thread while the caller watches.

Python cannot stop a sync node, so a node with a timeout runs on a worker thread, and the thread of the run abandons it
when it times out (R8). Two thread switches cost 50 us, ten times as much as a step. So the worker does not pass on each
reply. It continues the flow up to the first effect that the caller has to perform, such as a node without a timeout
(R19).

Only one thread may run the flow at a time. While the flow waits for a node, the attempt is *open*; the side that closes
it decides the outcome. When the node has returned, the worker closes it and continues the flow. When the attempt times
out or the run halts, the caller closes it: the attempt then belongs to the `schedule`, like that of a `Job`, and the
worker ends after it. While no attempt is open, the worker runs the flow, and the caller waits. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from math import inf
from typing import Any, Final, final

from graphrt._drivers.attempt_times import AttemptTime
from graphrt._drivers.failures import Escaped, outcome
from graphrt._drivers.invoke import invoke
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.schedule import Key
from graphrt._drivers.thread_pool import ThreadPool
from graphrt._engine.task import Task
from graphrt._flows.effects import NOW, TELL, Flow
from graphrt._plan.tables import CALL_TIMED


@final
class TimedSteps:
    """A job of `ThreadPool` that runs timed tasks of *flow*, one after another, starting with *task*.

    Args:
        services: Services of the run.
        flow: The run, which waits for the reply of *task*.
        task: The first task.
        context: Context variables for the flow and its nodes, used only for this job. Each node runs in a copy (R19).
        pool: The pool that runs the job.
        bell: Set when the caller has to check the job again.
        landed: Called on the worker thread at the end of an attempt that the caller has closed, as for a `Job`.
    """

    # fmt: off
    __slots__ = (
        "_bell", "_context", "_flow", "_landed", "_open", "_pool", "_services", "attempt", "effect", "error",
        "execution", "reply", "rests", "stops", "task", "wakes_s", "worker",
    )
    # fmt: on

    def __init__(
        self,
        services: RunServices,
        flow: Flow,
        task: Task,
        context: contextvars.Context,
        pool: ThreadPool,
        bell: threading.Event,
        landed: Callable[[TimedSteps], None],
    ) -> None:
        self._services: Final = services
        self._flow: Final = flow
        self._context: Final = context
        self._pool: Final = pool
        self._bell: Final = bell
        self._landed: Final = landed
        key = (task, task.execution)
        self._open: Final = {key: True}
        """The open attempt, if there is one. `pop` of a dict is atomic."""
        self.attempt: tuple[Key, AttemptTime] = key, AttemptTime(task, begun=False)
        """The last attempt that was opened, and the time that it has left."""
        self.wakes_s: float = inf
        """When the caller will check again by itself. An attempt with an earlier timeout rings the bell."""
        self.task: Task = task
        """Execution and reply of the attempt that the worker runs."""
        self.execution: int = task.execution
        self.reply: Any = None
        self.stops: bool = False
        """Whether the caller has asked the worker to pause."""
        self.rests: bool = False
        """Whether the worker has left the flow, which has yielded `effect` or raised `error`."""
        self.effect: Any = None
        self.error: BaseException | None = None
        self.worker: threading.Thread | None = None  # set by the pool while the job runs

    def close(self, key: Key) -> bool:
        """Close the attempt *key*, from any thread. Returns False if it is no longer open."""
        return self._open.pop(key, False)

    def next(self) -> Any:
        """Return the effect that the flow has yielded. Called when the worker has left the flow.

        Raises:
            BaseException: Raised by the flow; StopIteration if it has ended.
        """
        # Avoids a reference cycle through its traceback, which has frames of this job.
        error, self.error = self.error, None
        if error is None:
            return self.effect
        try:
            raise error
        finally:
            del error

    def run(self) -> None:
        """Perform effects; called on the worker thread."""
        self._start_time()
        self._context.run(self._go_on)

    def land(self) -> None:
        """Notify the caller. Called on the worker thread when it can take the next job."""
        if self.rests:
            self._bell.set()
        else:
            self._landed(self)

    def _go_on(self) -> None:
        """Run the task and perform the effects that follow, until the caller has to act or has closed an attempt."""
        services, flow = self._services, self._flow
        effect: Any = self.task
        try:
            while True:
                try:
                    if effect.__class__ is Task:
                        reply = self.reply = self._replied()
                        if not self._open.pop(self.attempt[0], False):
                            return
                        if reply.__class__ is Escaped:
                            raise reply.error
                    else:
                        reply = services.tell() if effect is TELL else monotonic()
                except BaseException as raised:  # noqa: BLE001 - the outcome of the effect, or for the flow
                    reply = outcome(effect, raised, services.control)
                    effect = flow.throw(reply) if isinstance(reply, BaseException) else flow.send(reply)
                else:
                    effect = flow.send(reply)
                if effect.__class__ is Task:
                    # If many jobs wait, the runs of a server take turns, as with `Job` (decision 0049).
                    if effect.plain != CALL_TIMED or self.stops or self._pool.crowded:
                        break
                    self.task, self.execution = effect, effect.execution
                    self._open[effect, effect.execution] = True
                    self._start_time()
                elif self.stops or (effect is not TELL and effect is not NOW):
                    break
            self.effect = effect
        except BaseException as error:  # noqa: BLE001 - `next` raises it in the caller
            self.error = error
        self.rests = True

    def _start_time(self) -> None:
        """Start the time of the open attempt, from the worker thread."""
        time = AttemptTime(self.task)
        self.attempt = (
            (self.task, self.execution),
            time,
        )  # before `wakes_s` is read, so that the caller cannot miss it
        if time.until < self.wakes_s:
            self._bell.set()

    def _replied(self) -> Any:
        """Run the node. Returns its reply, or the exception that escaped from it."""
        try:
            return contextvars.copy_context().run(invoke, self._services, self.task, _no_graph)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that continues with the flow
            return Escaped(error)


def _no_graph(_flow: Flow, task: Task) -> Any:
    """Placeholder for the driver of nested graphs, which never run here."""
    raise AssertionError(task)
