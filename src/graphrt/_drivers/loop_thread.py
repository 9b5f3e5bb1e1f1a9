"""A private event loop on a worker thread, which runs async code for sync runs (rule R19).

Started at first use. Only this class knows the loop: callers hand in functions that make coroutines, and wait for a
`concurrent.futures.Future`. A coroutine that is cancelled before it starts is thus never made. Running under a loop of
the user's belongs to `aio`. For the terms, see docs/glossary.md.
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
        self._home.check()  # the thread runs in this process, and in no child of it
        self._ready = threading.Event()
        """Set when the loop runs."""
        # Made here: an error, such as of too many open files, is for the caller.
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
        """Cancel all tasks on the loop, also those that nodes left behind, and stop the loop when they have ended.

        Called on the loop, for `close`.
        """
        left = asyncio.all_tasks(self._loop)
        for task in left:
            if not task.cancelling():  # a second cancel would interrupt the cleanup of the first
                task.cancel()

        async def end() -> None:
            """Let the cancelled tasks clean up, for a limited time, and stop the loop."""
            if left:
                await asyncio.wait(left, timeout=_WAIT_S)
            self._loop.stop()

        self._ending = self._loop.create_task(end())  # kept: the loop holds its tasks only weakly

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Running:
        """Start the coroutine that *make* makes, in a copy of the caller's context variables; do not wait for it.

        Raises:
            InputError: The loop runs in another process, of which this one is a forked child.
        """
        self._home.check()
        running = Running(self._loop)
        context = contextvars.copy_context()

        def start() -> None:
            """Make the asyncio task, on the loop, in *context*."""
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
        """Run the coroutine that *make* makes, wait for it, and return its result.

        A Ctrl-C while waiting, a halt of *control*, or giving up *attempt* cancels it.

        Raises:
            LoopCancelledError: The coroutine was cancelled.
            BaseException: What the coroutine raised.
        """
        running = self.submit(make)
        if control is not None:
            control.on_halt.append(running.cancel)
            if control.halt is not None:  # it may have been set before the callback was registered
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
        """Cancel what still runs, stop the loop and end its thread; does nothing in the child of a fork."""
        if self._home.elsewhere or not self._thread.is_alive():  # in the child of a fork, or closed before
            return
        self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:  # a thread cannot join itself
            self._thread.join()


@final
class Running:
    """Handle of a submitted coroutine, for the thread that waits for it; made by `LoopThread.submit` only."""

    __slots__ = ("_loop", "cancel_asked", "result", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.result: concurrent.futures.Future[Any] = concurrent.futures.Future()
        """Result of the coroutine, or what it raised."""
        self.task: asyncio.Task[Any] | None = None
        """None until the loop has made the task."""
        self.cancel_asked: bool = False
        """True after `cancel` was called; set on the loop."""

    def ended(self, _task: asyncio.Task[Any]) -> None:
        """Set the result of a task that was cancelled before its first step, since `_finish` never ran.

        The asyncio task calls this at its end.
        """
        if not self.result.done():
            self.result.set_exception(LoopCancelledError())

    def cancel(self) -> None:
        """Cancel the coroutine, from any thread. Its result is set when its cleanup has ended."""

        def cancel() -> None:
            """Cancel the asyncio task, on the loop."""
            first, self.cancel_asked = not self.cancel_asked, True
            # If `_stop` has cancelled the task already, a second cancel would interrupt its cleanup. A further call of
            # this method does that: Ctrl-C after a halt, for instance.
            if self.task is not None and not (first and self.task.cancelling()):
                self.task.cancel()

        with contextlib.suppress(RuntimeError):  # the loop is closed, so the coroutine has ended
            self._loop.call_soon_threadsafe(cancel)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the coroutine has ended; return False if *timeout_s* passed before."""
        until = inf if timeout_s is None else monotonic() + timeout_s
        while not concurrent.futures.wait([self.result], slice_s(until - monotonic())).done:
            if monotonic() >= until:
                return False
        return True


async def _finish(make: Callable[[], Coroutine[Any, Any, Any]], result: concurrent.futures.Future[Any]) -> None:
    """Await the coroutine that *make* makes, and hand its result or exception to the waiting thread by *result*."""
    try:
        value = await make()
    except BaseException as error:  # noqa: BLE001 - it is handed to the waiting worker thread
        result.set_exception(_carried(error))
    else:
        result.set_result(value)


class LoopCancelledError(Exception):
    """The coroutine was cancelled.

    Raised in place of `asyncio.CancelledError`, since the waiting code was not cancelled itself. Most callers take it
    as the sign that the run halts.
    """


def _carried(error: BaseException) -> BaseException:
    """Return the exception to raise in the waiting thread for one that ended the coroutine."""
    return LoopCancelledError() if isinstance(error, asyncio.CancelledError) else error
