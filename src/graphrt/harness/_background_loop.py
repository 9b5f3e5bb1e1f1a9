"""One event loop in a worker thread of its own, and the way there from any other loop.

Needed by adapters of libraries that break when several event loops use them. Loops, tasks and their end live here;
nothing here knows what a model, a harness or litellm is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import Any, Final, TypeVar

from graphrt._forks import FreshLock

T = TypeVar("T")

_log: Final = logging.getLogger("graphrt.harness")
_QUEUE_ITEMS: Final = 32
"""Most items that wait for the reader of a stream; as many again may be on their way to it."""


class LoopThread:
    """One event loop in one daemon worker thread, started by the first call, again after a fork or `close()`.

    Args:
        name: Name of the worker thread.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._lock = FreshLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start *work* on the loop; cancelling the future cancels it there. It sees the caller's context variables."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def is_here(self) -> bool:
        """Whether the caller is on this loop, which it must not wait for."""
        return threading.current_thread() is self._thread

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and wait for it; if the caller is cancelled, so is *work*."""
        return await asyncio.wrap_future(self.submit(work))

    async def iterate(self, produce: Callable[[], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Run the generator that *produce* makes on the loop and yield its items here.

        One task drives it from its first item to its last, at most 64 items ahead of the reader. If the reader stops
        or is cancelled, that task is cancelled and the generator closed.
        """
        queue: asyncio.Queue[tuple[T] | Exception | None] = asyncio.Queue(_QUEUE_ITEMS)

        async def pump() -> None:
            end: Exception | None = None
            try:
                async with aclosing(produce()) as source:
                    async for item in source:
                        await queue.put((item,))
            except Exception as error:  # noqa: BLE001 - raised where the reader is
                end = error
            await queue.put(end)

        async def take() -> list[tuple[T] | Exception | None]:
            taken = [await queue.get()]
            while not queue.empty():  # what is there comes along: each way between the loops takes a while
                taken.append(queue.get_nowait())
            return taken

        pumping = self.submit(pump())
        try:
            while True:
                for item in await self.call(take()):
                    if isinstance(item, Exception):
                        raise item
                    if item is None:
                        return
                    yield item[0]
        finally:
            pumping.cancel()

    def close(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None, *, wait_s: float = 2.0) -> None:
        """Cancel what runs, run *last* on the loop, and end both; the next call starts a new loop."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or self._pid != os.getpid() or not thread.is_alive():
            return
        with suppress(Exception):  # at the end of the process there is nobody to tell
            asyncio.run_coroutine_threadsafe(_finish(last), loop).result(wait_s)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(wait_s)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            loop = self._loop
            if loop is None or self._pid != os.getpid():
                loop = asyncio.new_event_loop()
                loop.set_exception_handler(_note)
                self._thread = threading.Thread(target=_serve, args=(loop,), name=self.name, daemon=True)
                self._loop, self._pid = loop, os.getpid()
                self._thread.start()
            return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _finish(last: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if last is not None:
        await last()
    await asyncio.sleep(0)  # transports close in the iteration after


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody awaits (a library's own tasks) quietly; what is awaited raises where it is awaited.

    Only the kind of an exception is told: its text is a provider's or a library's, and may contain credentials.
    """
    _log.debug("background loop: %s (%s)", context.get("message"), type(context.get("exception")).__name__)
