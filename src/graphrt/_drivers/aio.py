"""The asyncio driver: performs a flow's effects on the running loop. Async nodes are tasks; nothing outlives the drive.

A superstep with one task is awaited in the caller's own task; several sync tasks share a crew with the caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, final

from graphrt._drivers.crew import Crew, Ended, Escaped
from graphrt._drivers.invoke import afinish, ainvoke, failed, invoke
from graphrt._drivers.scope import Scope, monotonic
from graphrt._drivers.sync import _SHOWN, SyncDriver, Watcher
from graphrt._engine.task import STOPPED, Failed, Stopped, Task, TimedOut
from graphrt._engine.trace import Step
from graphrt._flows.effects import Await, Collect, Flow, Now, Publish, Record, Sleep, Start, Stop
from graphrt._plan.tables import CALL_ASYNC, CALL_SYNC
from graphrt.limits import Limits


@final
class AioDriver:
    """Drives one run on the running loop, its nested graphs included."""

    __slots__ = (
        "_bell",
        "_crew",
        "_ended",
        "_limits",
        "_open",
        "_running",
        "_waiting",
        "scope",
        "status",
        "watcher",
    )

    def __init__(self, scope: Scope, limits: Limits, watcher: Watcher | None = None) -> None:
        self.scope = scope
        self.watcher = watcher
        self._limits = limits
        self._crew: Crew | None = None
        self._bell: asyncio.Future[None] | None = None
        self._ended: deque[Ended] = deque()
        self._running: dict[Task, asyncio.Task[Any]] = {}
        self._waiting: deque[Task] = deque()
        """Started, and held back by max_concurrency."""
        self._open = 0
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
                except Exception as raised:
                    if effect.__class__ is not Task:
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
                        for entry in self.scope.write(effect.logged):
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
                self._written(effect)
                return None
            case Now():
                return monotonic()
            case Await():
                return await afinish(effect.coroutine)
            case Sleep():
                return await self._sleep(effect.seconds)
            case _:
                return await self._run_one(effect)

    # -- one task ------------------------------------------------------------------------------------------------

    async def _run_one(self, task: Task) -> Any:
        node = task.node
        if not node.is_async and node.child is None:
            if task.timeout_s is not None:
                return await asyncio.get_running_loop().run_in_executor(None, self._the_crew().alone, task)
            reply = invoke(self.scope, task, self._nested_sync)
            return reply
        return await self._halting(task)

    async def _halting(self, task: Task) -> Any:
        """Await an async node in the caller's own task; the run's halt cancels it."""
        control = self.scope.control
        current = asyncio.current_task()
        loop = asyncio.get_running_loop()
        asked = finished = False

        def cancel() -> None:
            nonlocal asked
            if current is not None and not finished:
                asked = True
                current.cancel()

        def halt() -> None:
            loop.call_soon_threadsafe(cancel)

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
        self._open += len(tasks)
        mixed = any(task.node.is_async or task.node.child is not None for task in tasks)
        if not mixed and not self._running and self._limits.max_concurrency is None:
            self._the_crew().start(tasks)
            return
        limit = self._limits.max_concurrency
        for task in tasks:
            if limit is not None and len(self._running) >= limit:
                self._waiting.append(task)
            else:
                self._launch(task)

    def _launch(self, task: Task) -> None:
        self._running[task] = asyncio.get_running_loop().create_task(self._body(task, task.attempt))

    async def _body(self, task: Task, attempt: int) -> None:
        reply: Any
        try:
            wait_s = task.extra.delay_s if task.extra is not None else 0.0
            if wait_s > 0.0:
                task.more().delay_s = 0.0
                await asyncio.sleep(wait_s)
            if task.node.is_async or task.node.child is not None:
                reply = await ainvoke(self.scope, task, self._nested)
            else:
                reply = await self._on_worker(task)
        except asyncio.CancelledError:
            reply = STOPPED
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            reply = Escaped(error)
        self._ended.append((task, attempt, reply))
        self._running.pop(task, None)
        if reply.__class__ not in _ODD:
            self._launch_waiting()
        bell = self._bell
        if bell is not None and not bell.done() and (not self._running or reply.__class__ in _ODD):
            bell.set_result(None)

    def _launch_waiting(self) -> None:
        limit = self._limits.max_concurrency
        while self._waiting and (limit is None or len(self._running) < limit):
            self._launch(self._waiting.popleft())

    async def _on_worker(self, task: Task) -> Any:
        """Run a sync task beside async ones on a worker thread, so that the loop goes on."""
        if task.timeout_s is not None:
            # A crew of its own: several of these wait at the same time.
            crew = Crew(self.scope, self._nested_sync, None, self._limits.grace_s)
            try:
                return await asyncio.to_thread(crew.alone, task)
            finally:
                crew.close()
        return await asyncio.to_thread(invoke, self.scope, task, self._nested_sync)

    async def _collect(self) -> list[Ended]:
        if self._crew is not None and self._crew.open:
            batch = self._crew.collect()
            self._open -= len(batch)
            return batch
        batch = []
        control = self.scope.control
        loop = asyncio.get_running_loop()

        def halt() -> None:
            loop.call_soon_threadsafe(_ring, self._bell)

        control.on_halt.append(halt)
        self._launch_waiting()
        try:
            while self._running and control.halt is None and not any(e[2].__class__ in _ODD for e in self._ended):
                self._bell = loop.create_future()
                await self._bell
        finally:
            self._bell = None
            control.on_halt.remove(halt)
        while self._ended:
            one = self._ended.popleft()
            if one[2].__class__ is Escaped:
                self._ended.extendleft(reversed(batch))
                raise one[2].error
            batch.append(one)
        self._open -= len(batch)
        return batch

    async def _stop(self) -> list[Ended]:
        self._waiting.clear()
        batch: list[Ended] = self._crew.stop() if self._crew is not None else []
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        batch += [one for one in self._ended if one[2].__class__ is not Escaped]
        self._ended.clear()
        self._open = 0
        return batch

    async def _sleep(self, seconds: float) -> None:
        control = self.scope.control
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def halt() -> None:
            loop.call_soon_threadsafe(_ring, woken)

        control.on_halt.append(halt)
        try:
            if control.halt is None:
                await asyncio.wait([woken], timeout=seconds)
        finally:
            control.on_halt.remove(halt)

    def _written(self, effect: Record) -> None:
        for entry in self.scope.write(effect.logged):
            if self.watcher is not None:
                self.watcher("events", entry)

    def _the_crew(self) -> Crew:
        if self._crew is None:
            self._crew = Crew(self.scope, self._nested_sync, self._limits.max_concurrency, self._limits.grace_s)
        return self._crew


_ODD = frozenset({Failed, TimedOut, Stopped, Escaped})


def _ring(bell: asyncio.Future[None] | None) -> None:
    if bell is not None and not bell.done():
        bell.set_result(None)


def _being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _odd_cancel(error: BaseException) -> Failed:
    odd = RuntimeError("the node raised CancelledError, and nobody had cancelled it")
    odd.__cause__ = error
    return Failed(odd)
