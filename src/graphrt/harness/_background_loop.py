"""An asyncio event loop in a dedicated worker thread, callable from any other loop or worker thread.

Adapters need it for libraries that break when several event loops use them. The module starts, feeds and stops the
loop; it does not know what a model, a harness or litellm is.
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
from graphrt._waits import run_until_stopped

T = TypeVar("T")

_log: Final = logging.getLogger("graphrt.harness")
_QUEUE_ITEMS: Final = 32
"""Maximum number of items buffered for the reader of a stream; as many again may be in transit to it."""


class LoopThread:
    """An event loop in one daemon worker thread, started by the first call, and again after a fork or `close()`.

    Args:
        name: Name of the worker thread.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._lock = FreshLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        """Process that started the loop. The child of a fork inherits the object, but not the worker thread."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start *work* on the loop, in a copy of the caller's context; cancelling the future cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def is_here(self) -> bool:
        """Return whether the caller runs on this loop, where waiting for it would be a deadlock."""
        return threading.current_thread() is self._thread

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and return its result; if the caller is cancelled, so is *work*."""
        return await asyncio.wrap_future(self.submit(work))

    async def iterate(self, produce: Callable[[], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Run the generator that *produce* returns on the loop and yield its items on the caller's loop.

        One task drives the generator from start to end, at most 64 items ahead of the reader. If the reader stops or
        is cancelled, that task is cancelled and the generator closed.
        """
        queue: asyncio.Queue[tuple[T] | Exception | None] = asyncio.Queue(_QUEUE_ITEMS)

        async def pump() -> None:
            end: Exception | None = None
            try:
                async with aclosing(produce()) as source:
                    async for item in source:
                        await queue.put((item,))
            except Exception as error:  # noqa: BLE001 - raised again in the reader's loop
                end = error
            await queue.put(end)

        async def take() -> list[tuple[T] | Exception | None]:
            items = [await queue.get()]
            while not queue.empty():  # take everything that is ready, since each hop between the two loops takes time
                items.append(queue.get_nowait())
            return items

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
        """Cancel running work, run *last* on the loop, then stop the loop and its thread.

        Args:
            last: Returns a coroutine that, for instance, closes connections; None if there is nothing to close.
            wait_s: Seconds to wait for this work, and again for the thread.
        """
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or self._pid != os.getpid() or not thread.is_alive():
            return
        with suppress(Exception):  # at process exit no caller is left to handle it
            asyncio.run_coroutine_threadsafe(_finish(last), loop).result(wait_s)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(wait_s)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            loop = self._loop
            if loop is None or self._pid != os.getpid():  # another pid: forked, without the thread that ran the loop
                loop = asyncio.new_event_loop()
                loop.set_exception_handler(_note)
                thread = threading.Thread(target=_serve, args=(loop,), name=self.name, daemon=True)
                try:
                    thread.start()
                except BaseException:  # no memory for a thread: the next call tries again
                    loop.close()
                    raise
                self._thread, self._loop, self._pid = thread, loop, os.getpid()
            return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        run_until_stopped(loop)
    finally:
        loop.close()


async def _finish(last: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if last is not None:
        await last()
    await asyncio.sleep(0)  # transports finish closing in the next iteration of the loop


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of tasks that are never awaited (a library's own) at DEBUG; awaited tasks raise to their caller.

    Only the class of an exception is logged: its text comes from a provider or a library and may contain credentials.
    """
    _log.debug("background loop: %s (%s)", context.get("message"), type(context.get("exception")).__name__)
