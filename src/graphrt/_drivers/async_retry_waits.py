"""Waits between two attempts of a task (backoff), on an event loop; under `arun` only.

`retry_waits` is the counterpart for threads, without asyncio. The user may replace real time by `Runtime(sleep=)`, for
instance in tests. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from graphrt._cancellations import unasked_failure
from graphrt._drivers.run_services import RunServices
from graphrt.harness.tools._invoke import invoke


async def await_(services: RunServices, seconds: float) -> None:
    """Wait *seconds* on the running loop, or until the run halts; the asyncio driver performs `Sleep` by this.

    With a `sleep=` of the runtime, that function makes the wait. A sync one is called on a worker thread, so that
    `time.sleep` blocks no loop; a halt cannot end it, and the run goes on without it (decision 0040).
    """
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
    try:
        await invoke(sleep, (seconds,), {})
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        raise unasked_failure(error, "sleep=") from error
