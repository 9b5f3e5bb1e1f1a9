"""Calls of a store under asyncio: made on a worker thread, and always awaited to their end.

If the asyncio task is cancelled during a commit, the call is still awaited, and the cancellation is raised afterwards.
Otherwise the run would not know whether the commit happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from graphrt._drivers.run_services import RunServices

T = TypeVar("T")


async def call_store(services: RunServices, call: Callable[..., T], *args: object) -> T:
    """Run *call*, which uses the run's store, and return its result. Runs on a worker thread if the store may block.

    A store may block if it waits for a disk or a network (`services.blocking`).
    """
    if not services.blocking:
        return call(*args)
    return await in_executor(call, *args)


async def in_executor(call: Callable[..., T], *args: object) -> T:
    """Run *call* on a worker thread and wait for its end, even if this task is cancelled in the meantime.

    Raises:
        CancelledError: This task was cancelled. The call has ended, and its result is discarded.
        BaseException: Any exception that *call* raised.
    """
    loop = asyncio.get_running_loop()
    # The loop's default executor, which nodes never use: slow nodes must not delay a commit (decision 0049).
    running = loop.run_in_executor(None, call, *args)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # retrieved, because asyncio would otherwise log "exception was never retrieved"
        raise cancelled
    return running.result()
