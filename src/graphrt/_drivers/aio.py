"""The asyncio driver: performs a flow's effects on the running loop. Async nodes are tasks; nothing outlives the drive.

A superstep with one task is awaited in the caller's own task; several sync tasks share a crew with the caller. Sync
nodes that may ask a model run on worker threads: what they wait for, a reply or a budget, may need this loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, final

from graphrt._drivers.acrew import AioCrew
from graphrt._drivers.awaiting import await_
from graphrt._drivers.crew import Crew, Ended
from graphrt._drivers.invoke import afinish, ainvoke, failed, invoke, unstored
from graphrt._drivers.patience import unhurried
from graphrt._drivers.scope import Scope, monotonic
from graphrt._drivers.sync import _SHOWN, SyncDriver, Watcher
from graphrt._engine.task import STOPPED, Failed, Task
from graphrt._engine.trace import Step
from graphrt._flows.effects import Await, Collect, Flow, Now, Publish, Record, Sleep, Stage, Start, Stop, Tell, Time
from graphrt._plan.tables import CALL_ASYNC, CALL_SYNC
from graphrt.events import Entry
from graphrt.limits import Limits


@final
class AioDriver:
    """Drives one run on the running loop, its nested graphs included."""

    __slots__ = ("_acrew", "_crew", "_limits", "scope", "status", "watcher")

    def __init__(self, scope: Scope, limits: Limits, watcher: Watcher | None = None) -> None:
        self.scope = scope
        self.watcher = watcher
        self._limits = limits
        self._crew: Crew | None = None
        self._acrew: AioCrew | None = None
        self.status: str | None = None
        """The result of the flow that `iterate` drove to its end."""

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
                        if plain == CALL_ASYNC and not self.scope.control.watched:
                            reply = await effect.fn(effect.state)
                        elif plain == CALL_SYNC:
                            reply = effect.fn(effect.state)
                        else:
                            reply = await self._run_one(effect)
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
            self.close()

    async def iterate(self, flow: Flow, *, entries: bool) -> AsyncGenerator[Any, None]:
        """Perform the effects of *flow* and yield its Steps, and what else it publishes as (mode, item).

        Leaving early cancels the run. The flow's result is in `status` then.
        """
        try:
            effect = flow.send(None)
            while True:
                reply: Any = None
                try:
                    kind = effect.__class__
                    if kind is Step:
                        yield effect
                        effect = None
                    elif kind is Publish:
                        yield effect.mode, effect.item
                    elif kind is Record:
                        for entry in await self._stored(effect):
                            if entries:
                                yield "events", entry
                    elif kind is Task:
                        reply = await self._run_one(effect)
                    else:
                        reply = await self.perform(effect)
                except GeneratorExit:
                    await self._abandon(flow)
                    raise
                except BaseException as error:  # noqa: BLE001 - the flow records it and raises it again
                    effect = flow.throw(error)
                    continue
                effect = flow.send(reply)
        except StopIteration as stop:
            self.status = stop.value
        finally:
            self.close()

    async def _abandon(self, flow: Flow) -> None:
        self.scope.control.cancel("the step generator was closed")
        try:
            effect = flow.send(None)
            while True:
                effect = flow.send(None if effect.__class__ in _SHOWN else await self.perform(effect))
        except StopIteration:
            return

    def close(self) -> None:
        """End the helpers."""
        if self._crew is not None:
            crew, self._crew = self._crew, None
            crew.close()

    async def perform(self, effect: Any) -> Any:
        """Perform one effect and return its answer."""
        match effect:
            case Start():
                self._start(effect.tasks)
                return None
            case Collect():
                return await self._collect()
            case Stop():
                return await self._stop()
            case Publish():
                if self.watcher is not None:
                    self.watcher(effect.mode, effect.item)
                return None
            case Record():
                if effect.last and self._acrew is not None:
                    await asyncio.sleep(0)  # what came too late is heard of before the run is over
                for entry in await self._stored(effect):
                    if self.watcher is not None:
                        self.watcher("events", entry)
                return None
            case Tell():
                await unhurried(self.scope, self.scope.tell)
                return None
            case Stage():
                await unhurried(self.scope, self.scope.keep, effect.staged)
                return None
            case Now():
                return monotonic()
            case Time():
                return self.scope.clock()
            case Await():
                return await afinish(effect.coroutine)
            case Sleep():
                return await await_(self.scope, effect.seconds)
            case _:
                return await self._run_one(effect)

    async def _stored(self, effect: Record) -> Sequence[Entry]:
        """Write entries, wherever the store wants it, and show them to the sinks here, on the loop."""
        entries = await unhurried(self.scope, self.scope.stored, effect)
        if entries:
            self.scope.show(entries)
        return entries

    # -- one task ------------------------------------------------------------------------------------------------

    async def _run_one(self, task: Task) -> Any:
        node = task.node
        if not node.is_async and node.child is None:
            if task.timeout_s is not None or self._may_wait(task):
                return await self._the_acrew().alone(task)
            return invoke(self.scope, task, self._nested_sync)
        return await self._halting(task)

    async def _halting(self, task: Task) -> Any:
        """Await an async node in the caller's own task; the run's halt cancels it."""
        control = self.scope.control
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
            reply = await ainvoke(self.scope, task, self._nested)
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

    async def _nested(self, flow: Flow) -> Any:
        return await AioDriver(self.scope, self._limits).drive(flow)

    def _nested_sync(self, flow: Flow) -> Any:
        return SyncDriver(self.scope, self._limits).drive(flow)

    # -- several tasks -------------------------------------------------------------------------------------------

    def _start(self, tasks: Sequence[Task]) -> None:
        alone = self._acrew is None and self._limits.max_concurrency is None
        if alone and all(_is_plain_sync(task) and not self._may_wait(task) for task in tasks):
            self._the_crew().start(tasks)  # nobody on the loop waits for them: the caller takes its share
        else:
            self._the_acrew().start(tasks)

    def _may_wait(self, task: Task) -> bool:
        """Whether a sync node may wait for a model, and with it for a place in a budget that this loop gives back."""
        return task.node.wants_context and (self.scope.harness is not None or self.scope.budget is not None)

    async def _collect(self) -> list[Ended]:
        if self._crew is not None and self._crew.open:
            return self._crew.collect()
        batch = await self._the_acrew().collect()
        if not batch and self.scope.control.halt is None:
            raise AssertionError("nothing was started")
        return batch

    async def _stop(self) -> list[Ended]:
        batch: list[Ended] = self._crew.stop() if self._crew is not None else []
        if self._acrew is not None:
            batch += await self._acrew.stop()
            self._acrew = None
        return batch

    def _the_acrew(self) -> AioCrew:
        if self._acrew is None:
            self._acrew = AioCrew(self.scope, self._limits, self._nested_sync, self._nested)
        return self._acrew

    def _the_crew(self) -> Crew:
        if self._crew is None:
            self._crew = Crew(self.scope, self._nested_sync, self._limits.max_concurrency, self._limits.grace_s)
        return self._crew


def _is_plain_sync(task: Task) -> bool:
    node = task.node
    return not node.is_async and node.child is None and task.timeout_s is None


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    """Call *call* on the loop, from any worker thread; a loop that is closed has nobody left who waits."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def _being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _odd_cancel(error: BaseException) -> Failed:
    odd = RuntimeError("the node raised CancelledError, and nobody had cancelled it")
    odd.__cause__ = error
    return Failed(odd)
