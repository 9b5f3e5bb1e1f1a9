"""The asyncio driver: performs a flow's effects on the running loop. Async nodes are tasks; nothing outlives the drive.

A superstep with one async task is awaited in the caller's own task. Sync nodes run on worker threads of the runtime's
pool, so that the loop goes on meanwhile, unless they are declared `inline` (rule R19).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, final

from graphrt._drivers.async_parallel_tasks import AsyncParallelTasks, inline
from graphrt._drivers.async_retry_waits import await_
from graphrt._drivers.blocking_calls import call_store
from graphrt._drivers.concurrency_limit import ConcurrencyLimit, inside
from graphrt._drivers.invoke import afinish, ainvoke, failed, unstored
from graphrt._drivers.parallel_tasks import Ended
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._drivers.sync import Watcher
from graphrt._engine.task import STOPPED, Failed, Task
from graphrt._flows.effects import Await, Collect, Flow, Now, Publish, Record, Sleep, Stage, Start, Stop, Tell, Time
from graphrt._plan.tables import CALL_ASYNC, CALL_SYNC
from graphrt.events import Entry
from graphrt.limits import Limits


@final
class AioDriver:
    """Drives one run on the running loop, its nested graphs included."""

    __slots__ = ("_acrew", "_limit", "_limits", "services", "watcher")

    def __init__(
        self,
        services: RunServices,
        limits: Limits,
        watcher: Watcher | None = None,
        *,
        limit: ConcurrencyLimit | None = None,
    ) -> None:
        self.services = services
        self.watcher = watcher
        self._limits = limits
        if limit is None and limits.max_concurrency is not None:
            limit = ConcurrencyLimit(limits.max_concurrency)
        self._limit = limit
        self._acrew: AsyncParallelTasks | None = None

    async def drive(self, flow: Flow) -> Any:
        """Perform the effects of *flow* to its end; returns its result, raises what it raises."""
        send = flow.send
        reply: Any = None
        error: BaseException | None = None
        try:
            while True:
                effect = send(reply) if error is None else flow.throw(error)
                error = None
                try:
                    if effect.__class__ is Task:
                        plain = effect.plain
                        if plain == CALL_ASYNC and not self.services.control.watched:
                            reply = await effect.node.fn(effect.state)
                        elif plain == CALL_SYNC and effect.node.policy.inline:
                            reply = effect.node.fn(effect.state)
                        else:
                            reply = await self.run_one(effect)
                    else:
                        reply = await self.perform(effect)
                except Exception as raised:  # noqa: BLE001 - whatever a node raises is its outcome
                    if effect.__class__ is not Task or unstored(effect, raised):
                        error = raised
                    else:
                        reply = failed(raised)
                except asyncio.CancelledError as raised:
                    if effect.__class__ is Task and not _being_cancelled():
                        reply = _odd_cancel(raised)
                    else:
                        error = raised
                except BaseException as raised:  # noqa: BLE001 - the flow records it and raises it again
                    error = raised
        except StopIteration as stop:
            return stop.value
        finally:
            self._acrew = None  # breaks a reference cycle that would keep the run until a garbage collection

    async def perform(self, effect: Any) -> Any:
        """Perform one effect and return its answer."""
        match effect:
            case Start():
                self._the_acrew().start(effect.tasks)
                return None
            case Collect():
                return await self._collect(effect.until)
            case Stop():
                return await self._stop()
            case Publish():
                show = (
                    self.watcher if self.watcher is not None else self.services.emit
                )  # in a nested graph: the stream's
                if show is not None:
                    show(effect.mode, effect.item)
                return None
            case Record():
                cancelled = await self._hear_the_late() if effect.last else None
                for entry in await self.stored(effect):
                    if self.watcher is not None:
                        self.watcher("events", entry)
                if cancelled is not None:
                    raise cancelled
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
                return await afinish(effect.coroutine)
            case Sleep():
                return await await_(self.services, effect.seconds)
            case _:
                return await self.run_one(effect)

    async def _hear_the_late(self) -> asyncio.CancelledError | None:
        """Hear of what came too late, before the run is over; a cancellation meanwhile waits for the last record."""
        if self._acrew is None:
            return None
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as raised:
            return raised
        return None

    async def stored(self, effect: Record) -> Sequence[Entry]:
        """Write entries, wherever the store wants it, and show them to the sinks here, on the loop."""
        entries = await call_store(self.services, self.services.stored, effect)
        if entries:
            self.services.show(entries)
        return entries

    # -- one task ------------------------------------------------------------------------------------------------

    async def run_one(self, task: Task) -> Any:
        """Run one task and return its reply."""
        node = task.node
        if node.is_async:
            return await self._halting(task)
        if node.child is None:
            return inline(self.services, task) if node.policy.inline else await self._the_acrew().alone(task)
        if self._limit is None:
            return await self._halting(task)
        self._limit.take(_nothing)  # there is room: nothing else of this graph is in flight
        try:
            return await self._halting(task)
        finally:
            self._limit.give_back()

    async def _halting(self, task: Task) -> Any:
        """Await an async node in the caller's own task; the run's halt cancels it."""
        control = self.services.control
        current = asyncio.current_task()
        loop = asyncio.get_running_loop()
        asked = finished = False

        def cancel() -> None:
            nonlocal asked
            if current is not None and not (asked or finished):  # once: what is cancelled may be waiting for its end
                asked = True
                current.cancel()

        def halt() -> None:
            _soon(loop, cancel)

        control.on_halt.append(halt)
        try:
            if control.halt is not None:
                return STOPPED
            reply = await ainvoke(self.services, task, self._nested)
        except asyncio.CancelledError:
            if not asked:
                raise
            reply = STOPPED
        finally:
            finished = True
            control.on_halt.remove(halt)
        if asked and current is not None:
            current.uncancel()
        return reply

    async def _nested(self, flow: Flow, task: Task) -> Any:
        return await AioDriver(self.services, self._limits, limit=inside(self._limit, task)).drive(flow)

    # -- several tasks -------------------------------------------------------------------------------------------

    async def _collect(self, until: float | None) -> list[Ended]:
        batch = await self._the_acrew().collect(until)
        if not batch and until is None and self.services.control.halt is None:
            raise AssertionError("nothing was started")
        return batch

    async def _stop(self) -> list[Ended]:
        if self._acrew is None:
            return []
        batch = await self._acrew.stop()
        self._acrew = None
        return batch

    def _the_acrew(self) -> AsyncParallelTasks:
        if self._acrew is None:
            self._acrew = AsyncParallelTasks(self.services, self._limits, self._nested, self._limit)
        return self._acrew


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    """Call *call* on the loop, from any worker thread; a loop that is closed has nobody left who waits."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def _being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _odd_cancel(error: BaseException) -> Failed:
    odd = RuntimeError("the node raised CancelledError although it had not been cancelled")
    odd.__cause__ = error
    return Failed(odd)


def _nothing() -> None:
    """Nobody waits for the place."""
