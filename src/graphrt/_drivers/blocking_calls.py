"""Waiting for a store under asyncio: on a worker thread, and to the end.

A cancelled asyncio task does not leave a commit half heard of: what was asked of the store is waited for, and only then
the cancellation goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from graphrt._drivers.run_services import RunServices

T = TypeVar("T")


async def call_store(services: RunServices, call: Callable[..., T], *args: object) -> T:
    """What *call* returns; made on a worker thread if the run's store may block."""
    if not services.blocking:
        return call(*args)
    return await in_executor(call, *args)


async def in_executor(call: Callable[..., T], *args: object) -> T:
    """Call *call* on a worker thread and wait for its end, also when this task is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(None, call, *args)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # heard of, so that asyncio does not complain
        raise cancelled
    return running.result()
