"""Several tasks under asyncio: async ones are asyncio tasks, sync ones beside them run on worker threads.

Everything it starts has ended, or is abandoned past the grace time, before the drive goes on. It knows no rule of the
graph: it starts, waits, stops and hands over replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, final

from graphrt._drivers.awaiting import rested
from graphrt._drivers.crew import MOST_HELPERS, Ended, Escaped
from graphrt._drivers.invoke import ainvoke, invoke
from graphrt._drivers.scope import Scope, monotonic
from graphrt._engine.task import STOPPED, Failed, Stopped, Task, TimedOut
from graphrt._flows.effects import Flow
from graphrt.limits import Limits

ODD: Final = frozenset({Failed, TimedOut, Stopped, Escaped})
"""Replies that the flow must see at once."""


@final
class AioCrew:
    """Runs the tasks of one drive on the running loop."""

    __slots__ = (
        "_anested",
        "_bell",
        "_ended",
        "_flying",
        "_limits",
        "_loop",
        "_nested",
        "_scope",
        "_threads",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        scope: Scope,
        limits: Limits,
        nested: Callable[[Flow], Any],
        anested: Callable[[Flow], Awaitable[Any]],
    ) -> None:
        self._scope = scope
        self._limits = limits
        self._nested = nested
        self._anested = anested
        self._loop = asyncio.get_running_loop()
        self._bell: asyncio.Future[None] | None = None
        self._ended: deque[Ended] = deque()
        self._flying: dict[tuple[Task, int], asyncio.Task[None] | None] = {}
        """Task and execution to the asyncio task that runs it; None for one on a worker thread."""
        self._threads = 0
        self._timers: dict[tuple[Task, int], asyncio.TimerHandle | asyncio.Task[None]] = {}
        self._waiting: deque[Task] = deque()

    def start(self, tasks: Sequence[Task]) -> None:
        """Start *tasks*, or let them wait until `max_concurrency` allows."""
        for task in tasks:
            wait_s = task.extra.delay_s if task.extra is not None else 0.0
            if wait_s > 0.0:
                task.more().delay_s = 0.0
                key = (task, task.execution)
                self._timers[key] = self._resting(key, wait_s)
            else:
                self._waiting.append(task)
        self._launch()

    def _resting(self, key: tuple[Task, int], wait_s: float) -> asyncio.TimerHandle | asyncio.Task[None]:
        sleep = self._scope.sleep
        if sleep is None:
            return self._loop.call_later(wait_s, self._rested, key)
        return self._loop.create_task(self._rest(key, sleep, wait_s))

    async def _rest(self, key: tuple[Task, int], sleep: Callable[[float], Any], wait_s: float) -> None:
        try:
            await rested(sleep, wait_s)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            del self._timers[key]
            self._ended.append((*key, Escaped(error)))
            self.ring()
        else:
            self._rested(key)

    def _rested(self, key: tuple[Task, int]) -> None:
        del self._timers[key]
        self._waiting.append(key[0])
        self._launch()

    def _launch(self) -> None:
        limit = self._limits.max_concurrency
        for _ in range(len(self._waiting)):
            if limit is not None and len(self._flying) >= limit:
                return
            task = self._waiting.popleft()
            if task.node.is_async or task.node.child is not None:
                key = (task, task.execution)
                running = self._flying[key] = self._loop.create_task(self._body(key))
                running.add_done_callback(partial(self._unrun, key))
            elif self._threads < MOST_HELPERS:
                self._on_thread(task)
            else:
                self._waiting.append(task)

    async def _body(self, key: tuple[Task, int]) -> None:
        try:
            reply = await ainvoke(self._scope, key[0], self._anested)
        except asyncio.CancelledError:
            reply = STOPPED
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            reply = Escaped(error)
        self._post(key, reply)

    def _on_thread(self, task: Task) -> None:
        key = (task, task.execution)
        self._flying[key] = None
        self._threads += 1
        if task.timeout_s is not None:
            self._timers[key] = self._loop.call_later(task.timeout_s, self._expire, key)
        context = contextvars.copy_context()

        def work() -> None:
            try:
                reply = context.run(invoke, self._scope, task, self._nested)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                reply = Escaped(error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._off_thread, key, reply)

        threading.Thread(target=work, name=f"graphrt-{task.node.name}", daemon=True).start()

    def _off_thread(self, key: tuple[Task, int], reply: Any) -> None:
        if key in self._flying:
            self._threads -= 1
            self._post(key, reply)
            return
        task = key[0]
        self._scope.dropped(task)
        self._launch()

    def _expire(self, key: tuple[Task, int]) -> None:
        """The attempt took too long: the run goes on, its worker thread is abandoned."""
        del self._timers[key]
        self._threads -= 1  # an abandoned one takes no place from those that wait
        self._post(key, TimedOut(key[0].timeout_s or 0.0))

    def _unrun(self, key: tuple[Task, int], _task: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step never ran its body: its end is posted here."""
        self._post(key, STOPPED)

    def _post(self, key: tuple[Task, int], reply: Any) -> None:
        if self._flying.pop(key, self) is self:
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._ended.append((*key, reply))
        if reply.__class__ not in ODD:
            self._launch()
        if reply.__class__ in ODD or not self._flying or self._scope.eager:
            self.ring()

    def ring(self) -> None:
        """Wake up who waits, on the loop."""
        bell = self._bell
        if bell is not None and not bell.done():
            bell.set_result(None)

    def _ring_from_anywhere(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ring)

    async def _wait(self, timeout_s: float | None = None) -> None:
        self._bell = self._loop.create_future()
        try:
            if timeout_s is None:
                await self._bell
            else:
                await asyncio.wait([self._bell], timeout=timeout_s)
        finally:
            self._bell = None

    async def collect(self) -> list[Ended]:
        """Wait until all started tasks have ended, one failed, or the run is to halt.

        An eager run waits for the first that ends; others that ended meanwhile come along.
        """
        control = self._scope.control
        eager = self._scope.eager
        control.on_halt.append(self._ring_from_anywhere)
        self._launch()
        try:
            while (
                (self._flying or self._timers or self._waiting)
                and control.halt is None
                and not (eager and self._ended)
                and not any(one[2].__class__ in ODD for one in self._ended)
            ):
                await self._wait()
        finally:
            control.on_halt.remove(self._ring_from_anywhere)
        batch: list[Ended] = []
        while self._ended:
            one = self._ended.popleft()
            if one[2].__class__ is Escaped:
                self._ended.extendleft(reversed(batch))  # what finished keeps its outcome: the stop collects it
                raise one[2].error
            batch.append(one)
        return batch

    async def alone(self, task: Task) -> Any:
        """Run one sync task that has a timeout or may wait for the loop, on a worker thread."""
        execution = task.execution
        self.start((task,))
        while self._scope.control.halt is None:
            for ended, number, reply in await self.collect():
                if ended is task and number == execution:
                    return reply
        for ended, number, reply in await self.stop():
            if ended is task and number == execution:
                return reply
        return STOPPED

    async def stop(self) -> list[Ended]:
        """Cancel async tasks and await them; await sync ones for the grace time; return what ended all the same."""
        self._waiting.clear()
        for timer in self._timers.values():
            timer.cancel()
        resting = [timer for timer in self._timers.values() if isinstance(timer, asyncio.Task)]
        self._timers.clear()
        if resting:
            await asyncio.wait(resting)
        for running in self._flying.values():
            if running is not None:
                running.cancel()
        until = monotonic() + self._limits.grace_s
        while self._flying:
            only_threads = all(running is None for running in self._flying.values())
            if only_threads and monotonic() >= until:
                self._flying.clear()  # abandoned: their outcomes are dropped when they come
                break
            await self._wait(max(0.0, until - monotonic()) if only_threads else None)
        batch = [one for one in self._ended if one[2].__class__ is not Escaped]
        self._ended.clear()
        return batch
