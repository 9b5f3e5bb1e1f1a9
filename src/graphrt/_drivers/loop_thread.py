"""One private event loop on a worker thread, for async code under a sync run. Started at first use."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, final

if TYPE_CHECKING:
    from graphrt._flows.effects import Control

T = TypeVar("T")
_PATIENCE_S = 5.0
"""Seconds that closing waits for cancelled coroutines."""


@final
class LoopThread:
    """Runs coroutines for callers on other worker threads."""

    def __init__(self) -> None:
        self.pid: int = os.getpid()
        """The process that it runs in: after a fork the child has none."""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name="graphrt-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _serve(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            self._loop.close()

    def _stop(self) -> None:
        """Cancel everything on the loop, what nodes left behind included, and stop once it has ended."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            if not task.cancelling():  # one that is already may be cleaning up
                task.cancel()

        async def end() -> None:
            if left:
                await asyncio.wait(left, timeout=_PATIENCE_S)
            self._loop.stop()

        self._ending = self._loop.create_task(end())

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Running:
        """Start the coroutine that *make* makes, in a copy of the caller's context variables."""
        running = Running(self._loop)
        context = contextvars.copy_context()

        def start() -> None:
            if running.result.cancelled():
                return
            task = self._loop.create_task(_finish(make, running.result))
            running.task = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(running.ended)
            if running.cancel_asked:
                task.cancel()

        self._loop.call_soon_threadsafe(start, context=context)
        return running

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], control: Control | None = None) -> T:
        """Run the coroutine that *make* makes, and wait for it; a Ctrl-C meanwhile, or a halt of *control*, cancels it.

        Raises:
            LoopCancelledError: It was cancelled.
        """
        running = self.submit(make)
        if control is not None:
            control.on_halt.append(running.cancel)
            if control.halt is not None:
                running.cancel()
        try:
            value: T = running.result.result()
            return value
        except BaseException:
            if not running.result.done():
                running.cancel()
                running.wait()
            raise
        finally:
            if control is not None:
                control.on_halt.remove(running.cancel)

    def close(self) -> None:
        """Cancel what still runs, and end the worker thread."""
        if not self._thread.is_alive():
            return

        self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()


@final
class Running:
    """A coroutine that was submitted."""

    __slots__ = ("_loop", "cancel_asked", "result", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.result: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.task: asyncio.Task[Any] | None = None
        self.cancel_asked: bool = False

    def ended(self, _task: asyncio.Task[Any]) -> None:
        """A task that was cancelled before its first step never ran: its result comes from here."""
        if not self.result.done():
            self.result.set_exception(LoopCancelledError())

    def cancel(self) -> None:
        """Cancel the coroutine; its result comes all the same."""

        def cancel() -> None:
            first, self.cancel_asked = not self.cancel_asked, True
            # One that the end of the loop has cancelled already may be cleaning up: that is not cut off.
            if self.task is not None and not (first and self.task.cancelling()):
                self.task.cancel()

        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(cancel)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended; False if *timeout_s* passed before."""
        return bool(concurrent.futures.wait([self.result], timeout_s).done)


async def _finish(make: Callable[[], Coroutine[Any, Any, Any]], result: concurrent.futures.Future[Any]) -> None:
    try:
        value = await make()
    except BaseException as error:  # noqa: BLE001 - it is handed to the waiting worker thread
        result.set_exception(_carried(error))
    else:
        result.set_result(value)


class LoopCancelledError(Exception):
    """The coroutine was cancelled; `CancelledError` itself would cancel the future that carries it."""


def _carried(error: BaseException) -> BaseException:
    return LoopCancelledError() if isinstance(error, asyncio.CancelledError) else error
