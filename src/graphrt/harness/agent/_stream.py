"""A run as a stream: what it shows, in order, and its reply last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from threading import get_ident
from typing import Any, Final

from graphrt.harness.protocol import AgentReply

__all__ = ["shown"]

_END: Final = object()


async def shown(
    go: Callable[[Callable[[Any], None]], Coroutine[Any, Any, AgentReply]],
) -> AsyncGenerator[Any, None]:
    """Run what *go* makes of a function that shows items, and yield those items, the reply last.

    Replies of single model calls are left out: `ModelEnded` tells of them. If the reader stops, the run is cancelled.
    """
    queue: asyncio.Queue[Any] = asyncio.Queue()
    loop, here = asyncio.get_running_loop(), get_ident()

    def show(item: Any) -> None:
        if get_ident() == here:
            queue.put_nowait(item)
        else:  # a sync tool tells from its worker thread
            with suppress(RuntimeError):  # nobody watches any more: the loop is closed
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
            running.exception()  # a reader that has left does not hear of it
