"""A run as a stream: what it shows, in order, and its reply last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
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
    running = asyncio.ensure_future(go(queue.put_nowait))
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
