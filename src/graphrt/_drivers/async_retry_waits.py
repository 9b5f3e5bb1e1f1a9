"""Waits between attempts on an event loop. `retry_waits` does the same in worker threads, without importing asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from graphrt._drivers.run_services import RunServices
from graphrt.harness.agent._retry_waits import slept


async def await_(services: RunServices, seconds: float) -> None:
    """Wait on the running loop. A sync `sleep=` is called on a worker thread, so that it holds up nothing else."""
    control, loop = services.control, asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        if not woken.done():
            woken.set_result(None)

    def halt() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ring)

    control.on_halt.append(halt)
    try:
        if control.halt is not None:
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
            resting.result()
    finally:
        control.on_halt.remove(halt)


async def rested(sleep: Callable[[float], Any], seconds: float) -> None:
    """Wait by *sleep*. One that is cancelled by itself, and not by us, has waited long enough."""
    try:
        await slept(sleep, seconds)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
