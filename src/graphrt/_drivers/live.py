"""Streams whose items come while a task still runs: the run is driven beside the reader, items go through a queue."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from graphrt._drivers.patience import unhurried

if TYPE_CHECKING:
    from graphrt._drivers.scope import Scope
    from graphrt._flows.effects import Control, Flow

_END = object()


class InFlight(Protocol):
    """What this module needs of a run."""

    scope: Scope
    control: Control

    def flow(self) -> Flow: ...
    def ended(self, status: Any) -> Any: ...
    def broke(self, error: BaseException) -> None: ...


def iterate_live(run: InFlight, make_driver: Callable[[Callable[[str, Any], None]], Any]) -> Generator[Any, None, None]:
    """Drive *run* on a worker thread and yield (mode, item) as they come; leaving early cancels it."""
    items: SimpleQueue[Any] = SimpleQueue()

    def put(mode: str, item: Any) -> None:
        items.put((mode, item))

    run.scope.emit = put
    run.control.watched = True  # leaving the stream early cancels the run
    driver = make_driver(put)
    context = contextvars.copy_context()

    def drive() -> Any:
        with run.scope.held():
            return driver.drive(run.flow())

    def work() -> None:
        try:
            status = context.run(drive)
            run.ended(status)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            run.broke(error)
            items.put(error)
        else:
            items.put(_END)

    worker = threading.Thread(target=work, name="graphrt-stream", daemon=True)
    worker.start()
    try:
        while True:
            item = items.get()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        run.control.cancel("the stream was closed")
        worker.join()


async def aiterate_live(
    run: InFlight, make_driver: Callable[[Callable[[str, Any], None]], Any]
) -> AsyncGenerator[Any, None]:
    """Drive *run* in an asyncio task and yield (mode, item) as they come; leaving early cancels it."""
    loop = asyncio.get_running_loop()
    home = threading.get_ident()
    items: asyncio.Queue[Any] = asyncio.Queue()

    def put(mode: str, item: Any) -> None:
        if threading.get_ident() == home:
            items.put_nowait((mode, item))
        else:
            loop.call_soon_threadsafe(items.put_nowait, (mode, item))

    run.scope.emit = put
    run.control.watched = True  # leaving the stream early cancels the run
    driver = make_driver(put)

    async def work() -> None:
        try:
            with run.scope.held():
                status = await driver.drive(run.flow())
            await unhurried(run.scope, run.ended, status)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            await unhurried(run.scope, run.broke, error)
            loop.call_soon(items.put_nowait, error)  # after what worker threads have put
        else:
            loop.call_soon(items.put_nowait, _END)

    worker = loop.create_task(work())
    try:
        while True:
            item = await items.get()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        run.control.cancel("the stream was closed")
        await asyncio.wait([worker])
