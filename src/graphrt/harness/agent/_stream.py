"""A run of an agent as an async generator: its items in order, and its reply last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from threading import get_ident
from typing import Any, Final

from graphrt.harness.protocol import AgentReply

__all__ = ["shown"]

_END: Final = object()
"""Marks the end of the queue."""


async def shown(
    go: Callable[[Callable[[Any], None]], Coroutine[Any, Any, AgentReply]],
) -> AsyncGenerator[Any, None]:
    """Start a run and yield the items that it shows, then its reply.

    Replies of single model calls are left out, since `ModelEnded` reports them. If the reader stops, the run is
    cancelled.

    Args:
        go: Makes the run's coroutine from the function that shows an item.
    """
    queue: asyncio.Queue[Any] = asyncio.Queue()
    loop, here = asyncio.get_running_loop(), get_ident()

    def show(item: Any) -> None:
        if get_ident() == here:
            queue.put_nowait(item)
        else:  # a sync tool shows an item from its worker thread
            with suppress(RuntimeError):  # the loop is closed: the reader is gone
                loop.call_soon_threadsafe(queue.put_nowait, item)

    running = asyncio.ensure_future(go(show))
    running.add_done_callback(lambda _: queue.put_nowait(_END))
    try:
        while (item := await queue.get()) is not _END:
            if not isinstance(item, AgentReply):
                yield item
        yield await running
    finally:
        if not running.done():
            running.cancel()
            with suppress(BaseException):
                await running
        elif not running.cancelled():
            running.exception()  # mark it as retrieved: the reader has left, and asyncio would log it
