"""Streams whose items come while a task still runs: the run is driven beside the reader, items go through a queue."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from graphrt._drivers.blocking_calls import call_store

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._flows.effects import Control, Flow

OVER: Final = object()
"""There is nothing more."""


class InFlight(Protocol):
    """What this module needs of a run."""

    services: RunServices
    control: Control

    def flow(self) -> Flow: ...
    def ended(self, status: Any) -> Any: ...
    def broke(self, error: BaseException) -> None: ...


def iterate_live(
    run: InFlight, make_driver: Callable[[Callable[[str, Any], None]], Any], box: list[Any]
) -> Generator[Any, None, None]:
    """Drive *run* on a worker thread and yield (mode, item) as they come; leaving early cancels it.

    Args:
        box: Gets what the run came to.
    """
    items: SimpleQueue[Any] = SimpleQueue()

    def put(mode: str, item: Any) -> None:
        items.put((mode, item))

    run.services.emit = put
    run.control.watched = True  # leaving the stream early cancels the run
    driver = make_driver(put)
    context = contextvars.copy_context()

    def drive() -> Any:
        with run.services.held():
            return driver.drive(run.flow())

    def work() -> None:
        try:
            status = context.run(drive)
            box.append(run.ended(status))
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            run.broke(error)
            items.put(error)
        else:
            items.put(OVER)

    worker = threading.Thread(target=work, name="graphrt-stream", daemon=True)
    worker.start()
    try:
        while True:
            item = items.get()
            if item is OVER:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        run.control.cancel("the stream was closed")
        worker.join()


@final
class LiveItems:
    """Drives *run* in an asyncio task, and has its (mode, item) as they come."""

    __slots__ = ("_begun", "_items", "_run", "_worker", "result")

    def __init__(self, run: InFlight, make_driver: Callable[[Callable[[str, Any], None]], Any]) -> None:
        loop = asyncio.get_running_loop()
        home = threading.get_ident()
        items: asyncio.Queue[Any] = asyncio.Queue()

        def put(mode: str, item: Any) -> None:
            if threading.get_ident() == home:
                items.put_nowait((mode, item))
            else:
                with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                    loop.call_soon_threadsafe(items.put_nowait, (mode, item))

        run.services.emit = put
        run.control.watched = True  # leaving the stream early cancels the run
        self._run = run
        self._items = items
        self._begun = False
        self.result: Any = None
        """What the run came to; None while it goes on, and if it failed."""
        self._worker = loop.create_task(self._work(make_driver(put)))
        self._worker.add_done_callback(self._unrun)

    async def _work(self, driver: Any) -> None:
        run, loop = self._run, asyncio.get_running_loop()
        self._begun = True
        try:
            with run.services.held():
                status = await driver.drive(run.flow())
            self.result = await call_store(run.services, run.ended, status)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            await call_store(run.services, run.broke, error)
            loop.call_soon(self._items.put_nowait, error)  # after what worker threads have put
        else:
            loop.call_soon(self._items.put_nowait, OVER)

    def _unrun(self, _worker: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step has closed nothing."""
        if not self._begun:
            self._begun = True
            self._run.broke(asyncio.CancelledError())
            self._items.put_nowait(OVER)

    async def next(self) -> Any:
        """The next (mode, item), or OVER.

        Raises:
            BaseException: What the run raised.
        """
        item = await self._items.get()
        if isinstance(item, BaseException):
            raise item
        return item

    async def close(self) -> None:
        """End the run and wait until it has ended."""
        self.leave()
        await asyncio.wait([self._worker])

    def leave(self) -> None:
        """End the run; its task does so by itself. From any worker thread."""
        self._run.control.cancel("the stream was closed")
