"""The sync driver: performs the effects of a flow in the caller's thread.

Several tasks of a superstep are passed to `ParallelTasks`, which uses worker threads as helpers. A sync node with a
timeout runs on a worker thread, which continues the flow up to the next effect that it cannot perform itself
(`timed_steps`). Async nodes run on the private loop thread of the run while the caller waits, even if the caller is
inside a running loop (rule R19).

If an effect raises, the exception is thrown into the flow (`flow.throw`). An exception of a node is not: it is the
outcome of its task and becomes a `Failed`. Warnings find the running task through the names `effect`, `task` and
`services` in the frames of drivers (`_ambient.running`). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, final

from graphrt._ambient import SURROUNDINGS, Surroundings, WithoutContext, surroundings
from graphrt._drivers.concurrency_limit import ConcurrencyLimit, inside
from graphrt._drivers.failures import outcome
from graphrt._drivers.invoke import finish, invoke
from graphrt._drivers.parallel_tasks import ParallelTasks
from graphrt._drivers.retry_waits import wait
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.timed_steps import TimedSteps
from graphrt._engine.committed import Committed, Uncommitted
from graphrt._engine.task import Task
from graphrt._flows.effects import (
    TELL,
    Await,
    Collect,
    Flow,
    Now,
    Record,
    Sleep,
    Stage,
    Start,
    Stop,
    Tell,
    Time,
)
from graphrt._flows.live import Live
from graphrt._plan.tables import CALL_TIMED
from graphrt.limits import Limits

PAUSED: Final = object()
"""Returned by `drive` instead of a status if the flow has not ended and its reader has items."""


@final
class SyncDriver:
    """Drives one run in the caller's thread. Each nested graph gets its own driver (`nested`).

    Args:
        services: Clock, store access, private loop and the rest that the tasks of the run share.
        limits: Limits of the run's outermost graph. A nested driver only uses their `grace_s`; *limit* bounds its tasks
            in flight.
        limit: Counter of tasks in flight; by default a new one if `limits.max_concurrency` is set.
    """

    __slots__ = ("_around", "_inside", "_limit", "_limits", "_parallel", "_plain", "services")

    def __init__(
        self,
        services: RunServices,
        limits: Limits,
        *,
        limit: ConcurrencyLimit | None = None,
    ) -> None:
        self.services = services
        self._limits = limits
        if limit is None and limits.max_concurrency is not None:
            limit = ConcurrencyLimit(limits.max_concurrency)
        self._limit = limit
        self._parallel: ParallelTasks | None = None
        """Created for the first superstep with several tasks or with a timeout."""
        self._plain = WithoutContext(services)
        """Stands for the node that `drive` calls itself, so that code in it that has no Context, such as an agent, finds
        its task. One object for all of them, to save time."""
        self._around: Surroundings | None = None
        """The surroundings of the last call of `drive`, and the same with `_plain` in them."""
        self._inside = Surroundings()

    def drive(self, flow: Flow, until: Collection[Any] = ()) -> Any:
        """Perform the effects of *flow* until it ends. Returns its result, the status of the run.

        Args:
            flow: The run.
            until: A queue that `services.reader` fills. As soon as it has an item, PAUSED is returned; another call
                continues the flow.

        Raises:
            BaseException: Any exception that the flow raises.
        """
        send, services = flow.send, self.services
        plain = self._plain
        ambient = surroundings()
        if ambient is not self._around:  # else the last call was for the same reader
            self._around, self._inside = ambient, ambient.replaced(node=plain)
        token = SURROUNDINGS.set(self._inside)
        # 1 is CALL_SYNC: a sync node without context, timeout and cache (decision 0004) is called here, without
        # `invoke`. Not with a `RunWatcher` (`services.watcher`), because only `invoke` reports attempts to it.
        direct_call = 1 if services.watcher is None else None
        timed, paused = services.timed, False
        reads = until != ()  # the run then continues at the pace of its reader
        reply: Any = None
        try:
            effect = send(None)
            while True:
                try:
                    if effect.__class__ is Task and effect.plain == direct_call:
                        plain.task = effect
                        started = monotonic() if timed else 0.0
                        try:
                            reply = effect.node.fn(effect.state)
                        finally:
                            plain.task = None
                        if timed:  # steps show durations
                            effect.duration_s = monotonic() - started
                    elif effect is TELL:  # tested before `perform`, because it follows each plain superstep
                        reply = services.tell()
                    elif effect.__class__ is Committed:  # yielded only if there is a reader
                        reply = services.reader.show(effect)  # type: ignore[union-attr]
                        if until:
                            paused = True
                            return PAUSED
                    elif effect.__class__ is Task and effect.plain == CALL_TIMED and not reads:
                        reply = self._parallel_tasks().watch(flow, effect)
                    else:
                        reply = self.perform(effect)
                        if until:  # effects that publish items have the answer None, which the next call sends
                            paused = True
                            return PAUSED
                except BaseException as error:
                    reply = outcome(effect, error, services.control)
                    if isinstance(reply, BaseException):
                        if self._parallel is not None and self._parallel.stuck:  # a worker thread runs the flow
                            raise
                        effect = flow.throw(reply)
                        continue
                effect = reply.next() if reply.__class__ is TimedSteps else send(reply)
        except StopIteration as stop:
            return stop.value
        finally:
            SURROUNDINGS.reset(token)
            if self._parallel is not None and not paused:
                parallel, self._parallel = self._parallel, None
                parallel.close()  # releases its worker threads

    def perform(self, effect: Any) -> Any:
        """Perform one effect and return its answer, as defined in the effect's docstring."""
        kind = effect.__class__
        if kind is Task:
            return self._run_one(effect)
        if kind is Tell:
            return self.services.tell()
        if kind is Collect:
            return self._parallel_tasks().collect(effect.until)
        if kind is Start:
            return self._parallel_tasks().start(effect.tasks)
        if kind is Record:
            self.services.written(effect)
            return None
        if kind is Uncommitted:
            self.services.reader.show(effect)  # type: ignore[union-attr]
            return None
        if kind is Live:
            self.services.show_live(effect)
            return None
        if kind is Stage:
            self.services.keep(effect.staged)
            return None
        if kind is Stop:
            return self._parallel.stop() if self._parallel is not None else []  # nothing was started
        if kind is Now:
            return monotonic()
        if kind is Time:
            return self.services.clock()
        if kind is Sleep:
            wait(self.services, effect.seconds)
            return None
        if kind is Await:
            return finish(self.services, effect)
        raise AssertionError(effect)

    def _parallel_tasks(self) -> ParallelTasks:
        """Return the pool that runs several tasks at once; create it on first use."""
        if self._parallel is None:
            self._parallel = ParallelTasks(self.services, self.nested, self._limit, self._limits.grace_s)
        return self._parallel

    def nested(self, flow: Flow, task: Task) -> Any:
        """Drive the flow of the nested graph of *task*, with its own helpers and a limit within this graph's limit.

        `invoke` calls it for a task whose node is a compiled graph.
        """
        return SyncDriver(self.services, self._limits, limit=inside(self._limit, task)).drive(flow)

    def _run_one(self, task: Task) -> Any:
        """Run the only task of a superstep in the caller; a sync node with a timeout runs on a worker thread."""
        node = task.node
        if task.plain == CALL_TIMED:
            return self._parallel_tasks().alone(task)
        if self._limit is None or node.child is None:
            return invoke(self.services, task, self.nested)
        # The task of a nested graph takes one slot of `max_concurrency`; its first inner task runs in the same slot.
        self._limit.take(_nothing)  # a slot is free, because no other task of this graph is in flight
        try:
            return invoke(self.services, task, self.nested)
        finally:
            self._limit.give_back()


def _nothing() -> None:
    """Callback for `ConcurrencyLimit.take` if no task waits for a free slot."""
