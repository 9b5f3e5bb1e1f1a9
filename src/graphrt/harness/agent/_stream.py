"""Delivery of a run's items: to the stream above it, to the agent's sinks, and as an async generator of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from threading import get_ident
from typing import Any, Final

from graphrt.harness.agent.events import EventSink, SubAgentItem
from graphrt.harness.protocol import AgentReply

__all__ = ["shown", "watched"]

_log: Final = logging.getLogger("graphrt.harness")


def watched(
    show: Callable[[Any], None] | None, sinks: Sequence[EventSink], *, agent: str, below: bool
) -> Callable[[Any], None] | None:
    """Return the function that delivers items of *agent*; None if there is no receiver.

    Args:
        show: Shows an item on the stream above; None if there is no reader.
        sinks: Sinks of the agent.
        agent: Name of the agent.
        below: Whether another agent called this one: its items are then shown inside a SubAgentItem with its name.
    """
    if show is None and not sinks:
        return None

    def emit(item: Any) -> None:
        for sink in sinks:
            try:
                sink(item)
            except Exception:  # noqa: BLE001 - an observer must not break the run
                _log.exception("a sink of agent %r failed", agent)
        if show is not None:
            if not below:
                show(item)
            elif isinstance(item, SubAgentItem):
                show(SubAgentItem(agent=f"{agent}/{item.agent}", item=item.item))
            else:
                show(SubAgentItem(agent=agent, item=item))

    return emit


_END: Final = object()
"""Marks the end of the queue."""


async def shown(
    make_run: Callable[[Callable[[Any], None]], Coroutine[Any, Any, AgentReply]],
) -> AsyncGenerator[Any, None]:
    """Start a run and yield the items that it shows, then its reply.

    Replies of single model calls are left out, since `ModelEnded` reports them. If the reader stops, the run is
    cancelled.

    Args:
        make_run: Makes the run's coroutine from the function that shows an item.
    """
    queue: asyncio.Queue[Any] = asyncio.Queue()
    loop, thread_id = asyncio.get_running_loop(), get_ident()

    def show(item: Any) -> None:
        if get_ident() == thread_id:
            queue.put_nowait(item)
        else:  # a sync tool shows an item from its worker thread
            with suppress(RuntimeError):  # the loop is closed: the reader is gone
                loop.call_soon_threadsafe(queue.put_nowait, item)

    running = asyncio.ensure_future(make_run(show))
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
