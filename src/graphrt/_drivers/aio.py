"""The asyncio driver: performs the effects of a flow on the running event loop.

The only async node of a superstep is awaited in the caller's own asyncio task; several run as separate asyncio tasks,
in `async_parallel_tasks`. Sync nodes run on worker threads of the runtime's pool, so that they do not block the loop,
unless they are declared `inline` (rule R19). Before the drive returns, everything that was started has ended, or was
abandoned after the grace time.

If an effect raises, the exception is thrown into the flow (`flow.throw`). An exception of a node is not: it is the
outcome of its task and becomes a `Failed`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Any, final

from graphrt._ambient import SURROUNDINGS, WithoutContext, entered
from graphrt._drivers.async_parallel_tasks import AsyncParallelTasks, inline
from graphrt._drivers.blocking_calls import call_store
from graphrt._drivers.concurrency_limit import ConcurrencyLimit, inside
from graphrt._drivers.failures import outcome
from graphrt._drivers.invoke import afinish, ainvoke
from graphrt._drivers.retry_waits import await_
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.schedule import Ended
from graphrt._drivers.sync import PAUSED
from graphrt._engine.committed import Committed, Uncommitted
from graphrt._engine.task import STOPPED, Task
from graphrt._flows.effects import Await, Collect, Flow, Now, Record, Sleep, Stage, Start, Stop, Tell, Time
from graphrt._flows.live import Live
from graphrt._plan.tables import CALL_ASYNC, CALL_SYNC, CALL_WITH_CONTEXT
from graphrt.limits import Limits


@final
class AioDriver:
    """Drives one run on the running loop. Each nested graph gets its own driver (`_nested`).

    Args:
        services: Clock, store access, worker threads and the rest that the tasks of the run share.
        limits: Limits of the run's outermost graph. A nested driver only uses their `grace_s`; *limit* bounds its tasks
            in flight.
        limit: Counter of tasks in flight; by default a new one if `limits.max_concurrency` is set.
    """

    __slots__ = ("_limit", "_limits", "_parallel", "services")

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
        self._parallel: AsyncParallelTasks | None = None
        """Created for the first superstep with several tasks, or for a sync node; reset to None when it is stopped."""

    async def drive(self, flow: Flow, until: Collection[Any] = ()) -> Any:
        """Perform the effects of *flow* until it ends. Returns its result, the status of the run.

        Args:
            flow: The run.
            until: A queue that `services.reader` fills. As soon as it has an item, PAUSED is returned; another call
                continues the flow.

        Raises:
            BaseException: Any exception that the flow raises.
        """
        send = flow.send
        # Only `invoke` reports attempts to a `RunWatcher` (telemetry) and measures them. If either is needed, nodes are
        # not called here.
        by_invoke = self.services.watcher is not None or self.services.timed
        caller = asyncio.current_task()
        reply: Any = None
        error: BaseException | None = None
        paused = False
        try:
            while True:
                effect = send(reply) if error is None else flow.throw(error)
                error = None
                try:
                    if effect.__class__ is Task:
                        plain = CALL_WITH_CONTEXT if by_invoke else effect.plain
                        # Fast path (decision 0004): call the node here. A run with a thread can be cancelled from
                        # outside (`watched`), so its async nodes go through `_halting`, which cancels them.
                        if plain == CALL_ASYNC and not self.services.control.watched:
                            token = entered(WithoutContext(self.services, effect))
                            try:
                                reply = await effect.node.fn(effect.state)
                            finally:
                                SURROUNDINGS.reset(token)
                        elif plain == CALL_SYNC and effect.node.policy.inline:
                            token = entered(WithoutContext(self.services, effect))
                            try:
                                reply = effect.node.fn(effect.state)
                            finally:
                                SURROUNDINGS.reset(token)
                        else:
                            reply = await self._run_one(effect)
                    else:
                        reply = await self.perform(effect)
                        if until:  # effects that publish items have the answer None, which the next call sends
                            paused = True
                            return PAUSED
                except BaseException as raised:
                    reply = outcome(effect, raised, self.services.control, caller=caller)
                    if isinstance(reply, GeneratorExit):
                        raise  # the coroutine is closed, so effects can no longer be performed
                    if isinstance(reply, BaseException):
                        error = reply
        except StopIteration as stop:
            return stop.value
        finally:
            if not paused and self._parallel is not None:
                self._parallel.schedule.close()
                # Breaks a reference cycle that would keep the run alive until a garbage collection.
                self._parallel = None

    async def perform(self, effect: Any) -> Any:
        """Perform one effect and return its answer, as defined in the effect's docstring."""
        match effect:
            case Start():
                self._get_parallel().start(effect.tasks)
                return None
            case Collect():
                return await self._collect(effect.until)
            case Stop():
                return await self._stop()
            case Committed() | Uncommitted():  # yielded only if there is a reader
                self.services.reader.show(effect)  # type: ignore[union-attr]
                return None
            case Live():
                self.services.show_live(effect)
                return None
            case Record():
                await self._store(effect)
                return None
            case Tell():
                await call_store(self.services, self.services.tell)
                return None
            case Stage():
                await call_store(self.services, self.services.keep, effect.staged)
                return None
            case Now():
                return monotonic()
            case Time():
                return self.services.clock()
            case Await():
                return await afinish(self.services, effect)
            case Sleep():
                return await await_(self.services, effect.seconds)
            case _:  # a Task
                return await self._run_one(effect)

    async def _hear_the_late(self) -> asyncio.CancelledError | None:
        """Yield to the loop once, so that late outcomes of abandoned tasks are recorded before the last record.

        Returns:
            The cancellation that arrived in the meantime, else None. It must be raised after the last record. Otherwise
            that record would be skipped and the thread would stay marked as running.
        """
        if self._parallel is None:
            return None
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as raised:
            return raised
        return None

    async def _store(self, effect: Record) -> None:
        """Write entries, on a worker thread if the store may block, and publish them on the loop.

        They go to the sinks, which are user functions, and to the reader of the run.

        Raises:
            asyncio.CancelledError: The run was cancelled during the wait for late outcomes; everything was written.
        """
        # `last` marks the final commit of the run, after which late outcomes can no longer be recorded.
        cancelled = await self._hear_the_late() if effect.last else None
        entries = await call_store(self.services, self.services.stored, effect)
        if entries:
            self.services.show(entries)
            self.services.read_entries(entries)
        if cancelled is not None:
            raise cancelled

    # -- one task ------------------------------------------------------------------------------------------------

    async def _run_one(self, task: Task) -> Any:
        """Run the only task of a superstep by `invoke` or `ainvoke`, and return its reply."""
        node = task.node
        if node.is_async:
            return await self._halting(task)
        if node.child is None:
            return inline(self.services, task) if node.policy.inline else await self._get_parallel().alone(task)
        if self._limit is None:
            return await self._halting(task)
        # The task of a nested graph takes one slot of `max_concurrency`; its first inner task runs in the same slot.
        self._limit.take(_nothing)  # a slot is free, because no other task of this graph is in flight
        try:
            return await self._halting(task)
        finally:
            self._limit.give_back()

    async def _halting(self, task: Task) -> Any:
        """Await an async node or nested graph in the caller's own asyncio task; a halt of the run cancels it."""
        control = self.services.control
        current = asyncio.current_task()
        loop = asyncio.get_running_loop()
        cancelled = finished = False  # whether `cancel` has cancelled the asyncio task; whether the node has ended

        def cancel() -> None:
            """Cancel the node, on the loop."""
            nonlocal cancelled
            # Only once: a second cancel would interrupt its cleanup.
            if current is not None and not (cancelled or finished):
                cancelled = True
                current.cancel()

        def halt() -> None:
            """Schedule the node's cancellation, from the thread that halts the run."""
            _soon(loop, cancel)

        control.on_halt.append(halt)
        try:
            if control.halt is not None:  # the halt came before `halt` was registered
                return STOPPED
            reply = await ainvoke(self.services, task, self._nested)
        except asyncio.CancelledError:
            if not cancelled:
                raise
            reply = STOPPED
        finally:
            finished = True
            control.on_halt.remove(halt)
        if cancelled and current is not None:
            # This driver requested the cancellation. Without `uncancel()`, `cancelling()` would stay above 0 in the
            # caller's task after the run, and asyncio.timeout() and TaskGroup would take that for a cancellation from
            # outside.
            current.uncancel()
        return reply

    async def _nested(self, flow: Flow, task: Task) -> Any:
        """Drive the flow of the nested graph of *task*, with a concurrency limit within this graph's limit."""
        return await AioDriver(self.services, self._limits, limit=inside(self._limit, task)).drive(flow)

    # -- several tasks -------------------------------------------------------------------------------------------

    async def _collect(self, until: float | None) -> list[Ended]:
        """Perform a `Collect`: return (task, execution, reply) of tasks that have ended."""
        batch = await self._get_parallel().collect(until)
        if not batch and until is None and self.services.control.halt is None:  # otherwise the flow would ask forever
            raise AssertionError("nothing was started")
        return batch

    async def _stop(self) -> list[Ended]:
        """Perform a `Stop`: end the started tasks. Returns those that ended by themselves, as `_collect` does."""
        if self._parallel is None:
            return []
        batch = await self._parallel.stop()
        self._parallel.schedule.close()
        self._parallel = None  # a stopped attempt does not start tasks
        return batch

    def _get_parallel(self) -> AsyncParallelTasks:
        """Return the pool that runs several tasks at once; create it on first use."""
        if self._parallel is None:
            self._parallel = AsyncParallelTasks(self.services, self._limits, self._nested, self._limit)
        return self._parallel


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    """Schedule *call* on the loop, from any thread.

    Does nothing if the loop is closed, because its tasks have ended.
    """
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def _nothing() -> None:
    """Callback for `ConcurrencyLimit.take` if no task waits for a free slot."""
