"""A private event loop on a worker thread, which runs async code for sync runs (rule R19).

Started on first use. Only this class has access to the loop: callers pass functions that create coroutines, and wait
for a `concurrent.futures.Future`. So a coroutine that is cancelled before it starts is never created. Running on the
user's loop belongs to `aio`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from graphrt._forks import Home
from graphrt._waits import result_of, run_until_stopped, slice_s

if TYPE_CHECKING:
    from graphrt._drivers.attempts import Attempt
    from graphrt._flows.effects import Control

T = TypeVar("T")
_WAIT_S = 5.0
"""Seconds that `close` waits for cancelled coroutines to clean up."""


@final
class LoopThread:
    """Runs coroutines for callers on other threads."""

    def __init__(self) -> None:
        self._home: Final = Home("This event loop")
        self._home.check()  # the thread runs in this process only, not in a forked child
        self._ready = threading.Event()
        """Set when the loop runs."""
        # Created here, so that an error, such as too many open files, is raised to the caller.
        self._loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        """asyncio tasks of submitted coroutines that have not ended."""
        self._ending: asyncio.Task[None] | None = None
        """The asyncio task that stops the loop; None before `close`."""
        self._thread = threading.Thread(target=self._serve, name="graphrt-loop", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._loop.close()
            raise
        self._ready.wait()

    def _serve(self) -> None:
        """Run the loop until `_stop` stops it; the body of the worker thread."""
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        try:
            run_until_stopped(self._loop)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            self._loop.close()

    def _stop(self) -> None:
        """Cancel all tasks on the loop, including background tasks of nodes, and stop the loop when they have ended.

        Called on the loop by `close`.
        """
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            if not task.cancelling():  # a second cancel would interrupt the cleanup of the first
                task.cancel()

        async def end() -> None:
            """Wait a limited time for the cancelled tasks to clean up, and stop the loop."""
            if tasks:
                await asyncio.wait(tasks, timeout=_WAIT_S)
            self._loop.stop()

        self._ending = self._loop.create_task(end())  # referenced here, because the loop holds its tasks only weakly

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Running:
        """Start the coroutine that *make* creates, in a copy of the caller's context variables, without waiting for it.

        Raises:
            InputError: The loop runs in another process, and this process is its forked child.
        """
        self._home.check()
        running = Running(self._loop)
        context = contextvars.copy_context()

        def start() -> None:
            """Create the asyncio task, on the loop, in *context*."""
            task = self._loop.create_task(_finish(make, running.result))
            running.task = task
            self._tasks.add(task)  # the loop holds its tasks only weakly
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(running.ended)
            if running.cancel_asked:  # cancelled between `submit` and now
                task.cancel()

        self._loop.call_soon_threadsafe(start, context=context)
        return running

    def run(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        control: Control | None = None,
        attempt: Attempt | None = None,
    ) -> T:
        """Run the coroutine that *make* creates, wait for it, and return its result.

        A Ctrl-C during the wait, a halt of *control*, or the abandonment of *attempt* cancels it.

        Raises:
            LoopCancelledError: The coroutine was cancelled.
            BaseException: Any exception that the coroutine raised.
        """
        running = self.submit(make)
        if control is not None:
            control.on_halt.append(running.cancel)
            if control.halt is not None:  # the halt may have come before the callback was registered
                running.cancel()
        if attempt is not None:
            attempt._on_give_up(running.cancel)
        try:
            value: T = result_of(running.result)
            return value
        except BaseException:
            if not running.result.done():  # Ctrl-C in this thread: the coroutine must end before the run does
                running.cancel()
                running.wait()
            raise
        finally:
            if control is not None:
                control.on_halt.remove(running.cancel)

    def close(self) -> None:
        """Cancel running coroutines, stop the loop and end its thread. Does nothing in a forked child."""
        if self._home.elsewhere or not self._thread.is_alive():  # in a forked child, or already closed
            return
        self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:  # a thread cannot join itself
            self._thread.join()


@final
class Running:
    """Handle of a submitted coroutine, for the thread that waits for it. Created only by `LoopThread.submit`."""

    __slots__ = ("_loop", "cancel_asked", "result", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.result: concurrent.futures.Future[Any] = concurrent.futures.Future()
        """Result of the coroutine, or the exception that it raised."""
        self.task: asyncio.Task[Any] | None = None
        """None until the loop has created the task."""
        self.cancel_asked: bool = False
        """True after `cancel` was called; set on the loop."""

    def ended(self, _task: asyncio.Task[Any]) -> None:
        """Set the result of a task that was cancelled before its first step, since `_finish` never ran.

        The asyncio task calls this at its end.
        """
        if not self.result.done():
            self.result.set_exception(LoopCancelledError())

    def cancel(self) -> None:
        """Cancel the coroutine, from any thread. Its result is set after its cleanup."""

        def cancel() -> None:
            """Cancel the asyncio task, on the loop."""
            first, self.cancel_asked = not self.cancel_asked, True
            # If `_stop` has already cancelled the task, a second cancel would interrupt its cleanup. Another call of
            # this method is meant to do that, for instance Ctrl-C after a halt.
            if self.task is not None and not (first and self.task.cancelling()):
                self.task.cancel()

        with contextlib.suppress(RuntimeError):  # the loop is closed, so the coroutine has ended
            self._loop.call_soon_threadsafe(cancel)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the coroutine has ended. Returns False if *timeout_s* elapsed first."""
        until = inf if timeout_s is None else monotonic() + timeout_s
        while not concurrent.futures.wait([self.result], slice_s(until - monotonic())).done:
            if monotonic() >= until:
                return False
        return True


async def _finish(make: Callable[[], Coroutine[Any, Any, Any]], result: concurrent.futures.Future[Any]) -> None:
    """Await the coroutine that *make* creates, and pass its result or exception to the waiting thread in *result*."""
    try:
        value = await make()
    except BaseException as error:  # noqa: BLE001 - it is handed to the waiting worker thread
        result.set_exception(_carried(error))
    else:
        result.set_result(value)


class LoopCancelledError(Exception):
    """The coroutine was cancelled.

    Raised instead of `asyncio.CancelledError`, because the waiting code itself was not cancelled. For most callers it
    means that the run halts.
    """


def _carried(error: BaseException) -> BaseException:
    """Convert the exception that ended the coroutine to the one to raise in the waiting thread."""
    return LoopCancelledError() if isinstance(error, asyncio.CancelledError) else error
