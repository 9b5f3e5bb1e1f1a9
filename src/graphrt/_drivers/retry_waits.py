"""Waits between two attempts of a task (backoff): in real time, or with the runtime's `sleep=`.

`Runtime(sleep=)` is a function of seconds, sync or async, that replaces real waits, for instance in tests (decision
0040). `wait` blocks a thread, `Rest` is a thread that waits, and `await_` waits on an event loop; asyncio is imported
only there. A halt of the run ends a wait, unless it is inside a sync `sleep=`. This module only waits for time, not for
tasks, stores or locks. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, final

from graphrt._cancellations import unasked, unasked_failure
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._waits import slice_s


def wait(services: RunServices, seconds: float) -> None:
    """Block the caller for *seconds*, or until the run halts. The sync driver performs `Sleep` with this.

    The awaitable of an async `sleep=` is awaited on the private loop thread.

    Raises:
        BaseException: Any exception that `sleep=` raised.
    """
    control, sleep = services.control, services.sleep
    if sleep is not None:
        if control.halt is None:
            try:
                result: Any = sleep(seconds)
                if inspect.isawaitable(result):
                    _finish(services, result)
            except unasked() as error:
                raise unasked_failure(error, "sleep=") from error
        return
    if seconds < 0.01:  # too short to need interruption by a halt; saves creating an Event
        time.sleep(seconds)
        return
    woken = threading.Event()
    control.on_halt.append(woken.set)
    try:
        if control.halt is None:  # it may have been set before the callback was registered
            until = monotonic() + seconds
            while not woken.wait(slice_s(until - monotonic())) and monotonic() < until:
                pass
    finally:
        control.on_halt.remove(woken.set)


def _finish(services: RunServices, awaitable: Awaitable[Any]) -> None:
    """Await *awaitable*, the result of an async `sleep=`, on the private loop thread. A halt of the run cancels it."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    async def body() -> None:
        """Await any awaitable, because the loop thread accepts only coroutines."""
        await awaitable

    try:
        services.loop().run(body, services.control)
    except LoopCancelledError as error:
        if services.control.halt is None:  # otherwise the halt ended the wait
            raise unasked_failure(error, "sleep=") from error
    finally:
        if inspect.iscoroutine(awaitable):
            awaitable.close()  # if it was cancelled before it started, Python would warn that it was never awaited


async def await_(services: RunServices, seconds: float) -> None:
    """Wait *seconds* on the running loop, or until the run halts.

    The asyncio driver performs `Sleep` with this. If the runtime has a `sleep=`, that function does the waiting. A sync
    one is called on a worker thread, so that `time.sleep` does not block the loop. A halt cannot end it, and the run
    continues without it (decision 0040).
    """
    import asyncio

    control, loop = services.control, asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        """End the wait, on the loop."""
        if not woken.done():
            woken.set_result(None)

    def halt() -> None:
        """End the wait, from the thread that halts the run."""
        with suppress(RuntimeError):  # the loop is closed, so the waiting task has ended
            loop.call_soon_threadsafe(ring)

    control.on_halt.append(halt)
    try:
        if control.halt is not None:  # the halt may have come before `halt` was registered
            return
        if services.sleep is None:
            await asyncio.wait([woken], timeout=seconds)
            return
        resting = loop.create_task(rested(services.sleep, seconds))
        try:
            await asyncio.wait([woken, resting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not resting.done():
                resting.cancel()
                await asyncio.wait([resting])
        if not resting.cancelled():
            resting.result()  # re-raises an exception of `sleep=`, which is an error of the caller, not of a node
    finally:
        control.on_halt.remove(halt)


async def rested(sleep: Callable[[float], Any], seconds: float) -> None:
    """Wait by calling *sleep*, the runtime's `sleep=`. Used by `await_`, and for concurrent waits of several tasks.

    A sync function is called on a worker thread, and the result of an async one is awaited.

    Raises:
        RuntimeError: *sleep* raised CancelledError although this asyncio task was not cancelled.
    """
    import asyncio

    from graphrt.harness.tools._invoke import invoke

    try:
        await invoke(sleep, (seconds,), {})
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        raise unasked_failure(error, "sleep=") from error


@final
class Rest(threading.Timer):
    """The wait of one of several tasks before its next attempt, on a separate thread.

    `parallel_tasks` starts one for each waiting task and runs other tasks in the meantime. In real time it is a
    `threading.Timer`; if the runtime has a `sleep=`, its thread calls that in *context*.

    Args:
        services: Provides the `sleep=` and the control object of the run.
        seconds: Length of the wait.
        wake: Called after the wait with None, or with the exception that `sleep=` raised. Not called after `cancel`, or
            if the run halts during a `sleep=`.
        context: Context variables for `sleep=`: a copy of those of the run's caller, used only for this wait.
    """

    def __init__(
        self,
        services: RunServices,
        seconds: float,
        wake: Callable[[BaseException | None], None],
        context: contextvars.Context,
    ) -> None:
        super().__init__(seconds, wake, (None,))  # the Timer calls `wake(None)`
        self.daemon = True  # a `sleep=` that never returns must not keep the interpreter from exiting
        self._scope = services
        self._values = context  # not `_context`: a Thread of Python 3.14 has one, in which it calls `run`

    def run(self) -> None:
        """Wait, then call `wake`; runs on this thread."""
        if self._scope.sleep is None:
            super().run()  # waits in real time, until `cancel` at the latest
            return
        failure: BaseException | None = None
        try:
            self._values.run(wait, self._scope, self.interval)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            failure = error
        # A halt may have ended the wait early. Another attempt must not start then.
        halted = failure is None and self._scope.control.halt is not None
        if not halted and not self.finished.is_set():  # `finished` is set by `cancel`
            self.function(failure)
