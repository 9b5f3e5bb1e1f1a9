"""Waits between two attempts of a task (backoff): in real time, or by the runtime's `sleep=`.

`Runtime(sleep=)` is a function of seconds, sync or async, that replaces real waits, for instance in tests (decision
0040). `wait` blocks a thread, `Rest` is a thread that waits, and `await_` waits on an event loop; asyncio is imported
only there. A halt of the run ends a wait, except for one that is inside a sync `sleep=`. Waiting for anything but time,
such as a task, a store or a lock, does not belong here. For the terms, see docs/glossary.md.
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
    """Block the caller for *seconds*, or until the run halts; the sync driver performs `Sleep` by this.

    The awaitable of an async `sleep=` is awaited on the private loop thread.

    Raises:
        BaseException: What `sleep=` raised.
    """
    control, sleep = services.control, services.sleep
    if sleep is not None:
        if control.halt is None:
            try:
                made: Any = sleep(seconds)
                if inspect.isawaitable(made):
                    _finish(services, made)
            except unasked() as error:
                raise unasked_failure(error, "sleep=") from error
        return
    if seconds < 0.01:  # so short that a halt need not end it: saves making an Event
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


def _finish(services: RunServices, made: Awaitable[Any]) -> None:
    """Await *made*, which an async `sleep=` returned, on the private loop thread; a halt of the run cancels it."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    async def body() -> None:
        """Await any awaitable: the loop thread takes coroutines only."""
        await made

    try:
        services.loop().run(body, services.control)
    except LoopCancelledError as error:
        if services.control.halt is None:  # else the halt has ended the wait
            raise unasked_failure(error, "sleep=") from error
    finally:
        if inspect.iscoroutine(made):
            made.close()  # if it was cancelled before it began, Python would warn that it was never awaited


async def await_(services: RunServices, seconds: float) -> None:
    """Wait *seconds* on the running loop, or until the run halts; the asyncio driver performs `Sleep` by this.

    With a `sleep=` of the runtime, that function makes the wait. A sync one is called on a worker thread, so that
    `time.sleep` blocks no loop; a halt cannot end it, and the run goes on without it (decision 0040).
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
        with suppress(RuntimeError):  # the loop is closed, and the waiting task with it
            loop.call_soon_threadsafe(ring)

    control.on_halt.append(halt)
    try:
        if control.halt is not None:  # it may have been set before `halt` was registered
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
            resting.result()  # raises what `sleep=` raised: an error of the caller, not of a node
    finally:
        control.on_halt.remove(halt)


async def rested(sleep: Callable[[float], Any], seconds: float) -> None:
    """Wait by calling *sleep*, the runtime's `sleep=`; for `await_`, and for waits of several tasks at once.

    `invoke` calls a sync one on a worker thread, and awaits what an async one returns.

    Raises:
        RuntimeError: It raised CancelledError although this asyncio task was not cancelled.
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
    """The wait of one of several tasks before its next attempt, on a thread of its own.

    `parallel_tasks` starts one for each task that is to wait, and runs other tasks meanwhile. It is a `threading.Timer`
    in real time; with a `sleep=` of the runtime, its thread calls that in *context*.

    Args:
        services: Has the `sleep=` and the control of the run.
        seconds: Length of the wait.
        wake: Called after the wait with None, or with what `sleep=` raised. Not called after `cancel`, or if the run
            halts during a `sleep=`.
        context: Context variables for `sleep=`: a copy of those of the run's caller, made for this wait alone.
    """

    def __init__(
        self,
        services: RunServices,
        seconds: float,
        wake: Callable[[BaseException | None], None],
        context: contextvars.Context,
    ) -> None:
        super().__init__(seconds, wake, (None,))  # the Timer calls `wake(None)`
        self.daemon = True  # a `sleep=` that never returns must not keep the interpreter from its exit
        self._scope = services
        self._context = context

    def run(self) -> None:
        """Wait, then call `wake`; runs on this thread."""
        if self._scope.sleep is None:
            super().run()  # waits in real time; `cancel` ends that
            return
        failure: BaseException | None = None
        try:
            self._context.run(wait, self._scope, self.interval)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            failure = error
        # A halt may have ended the wait early: another attempt must not begin then.
        halted = failure is None and self._scope.control.halt is not None
        if not halted and not self.finished.is_set():  # `finished` is set by `cancel`
            self.function(failure)
