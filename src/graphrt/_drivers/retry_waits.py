"""Waits between attempts, in worker threads: in real time, or by the `sleep=` of the runtime. A halt of the run ends them.

Waiting for something else than time (a task, a store, a lock) does not belong here.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, final

from graphrt._drivers.run_services import RunServices


def wait(services: RunServices, seconds: float) -> None:
    """Wait in the caller. What an async `sleep=` returns is awaited on the private loop thread."""
    control, sleep = services.control, services.sleep
    if sleep is not None:
        if control.halt is None:
            made: Any = sleep(seconds)
            if inspect.isawaitable(made):
                _finish(services, made)
        return
    if seconds < 0.01:
        time.sleep(seconds)
        return
    woken = threading.Event()
    control.on_halt.append(woken.set)
    try:
        if control.halt is None:
            woken.wait(seconds)
    finally:
        control.on_halt.remove(woken.set)


def _finish(services: RunServices, made: Awaitable[Any]) -> None:
    from graphrt._drivers.loop_thread import LoopCancelledError

    async def body() -> None:
        await made

    try:
        with suppress(LoopCancelledError):  # the run halts
            services.loop().run(body, services.control)
    finally:
        if inspect.iscoroutine(made):
            made.close()  # cancelled before it began


@final
class Rest(threading.Timer):
    """A Timer that waits as the run does, on a worker thread that sees *context*; *wake* is told how waiting failed."""

    def __init__(
        self,
        services: RunServices,
        seconds: float,
        wake: Callable[[BaseException | None], None],
        context: contextvars.Context,
    ) -> None:
        super().__init__(seconds, wake, (None,))
        self.daemon = True
        self._scope = services
        self._context = context

    def run(self) -> None:
        if self._scope.sleep is None:
            super().run()
            return
        failure: BaseException | None = None
        try:
            self._context.run(wait, self._scope, self.interval)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            failure = error
        halted = failure is None and self._scope.control.halt is not None  # which may have ended the wait
        if not halted and not self.finished.is_set():
            self.function(failure)
