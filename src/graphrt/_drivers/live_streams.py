"""Streams of the modes `custom`, `messages` and `live`, whose items come while a task is still running.

The run is driven on a worker thread or in an asyncio task of its own, and its items go through a queue to the reader.
This is the one exception to "a superstep with one task runs in the caller" (decision 0011). Streams of other modes are
driven by their reader: see `SyncDriver.iterate` and `async_iteration`.

An item is a pair (mode, item). Nodes put items of these three modes into the stream themselves, by the function that
`services.read` was given; the driver puts those of all other modes. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from graphrt._drivers.blocking_calls import call_store
from graphrt._waits import item_of

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._flows.effects import Control, Flow

OVER: Final = object()
"""Queued after the last item of a run that did not fail, or that was cancelled before it began."""


class LiveRun(Protocol):
    """An opened run: the part of `_runs.active_run.ActiveRun` that this module uses. It must be closed in any case."""

    services: RunServices
    control: Control

    def flow(self) -> Flow:
        """Return the run as a flow of effects."""
        ...

    def ended(self, status: Any) -> Any:
        """Close a run that did not fail, and return its result.

        Args:
            status: What the flow returned: `completed`, `interrupted`, `cancelled`, or `running` if it was handed over.
        """
        ...

    def broke(self, error: BaseException) -> None:
        """Close a run that ended without a status; *error* is what its reader gets."""
        ...


def iterate_live(
    run: LiveRun, make_driver: Callable[[Callable[[str, Any], None]], Any], box: list[Any], *, tasks: bool
) -> Generator[Any, None, None]:
    """Drive *run* on a worker thread and yield (mode, item) as they come; the body of a sync stream.

    Closing the generator early cancels the run.

    Args:
        run: The run, opened and not started.
        make_driver: Makes the driver from the function that takes its (mode, item).
        box: The result of the run is appended to it at the end.
        tasks: Whether items of the mode `live` are read.

    Raises:
        BaseException: What the run raised.
    """
    items: SimpleQueue[Any] = SimpleQueue()

    def put(mode: str, item: Any) -> None:
        """Queue an item, from any thread."""
        items.put((mode, item))

    run.services.read(put, tasks=tasks)
    run.control.watched = True  # leaving the stream early cancels the run
    driver = make_driver(put)
    context = contextvars.copy_context()  # of the caller: nodes see its variables, as in a run without a stream

    def drive() -> Any:
        """Drive the run with the context variables of its `models=` and `sleep=` (`held`); return its status."""
        with run.services.held():
            return driver.drive(run.flow())

    def work() -> None:
        """Drive the run, close it, and queue how it ended; the body of the worker thread."""
        try:
            status = context.run(drive)
            box.append(run.ended(status))
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            run.broke(error)  # before the reader gets the error, and may begin another run on the thread
            items.put(error)
        else:
            items.put(OVER)

    worker = threading.Thread(target=work, name="graphrt-stream", daemon=True)
    try:
        worker.start()
    except BaseException as error:  # no memory for a thread: the run is over before it began
        run.broke(error)
        raise
    try:
        while True:
            item = item_of(items)
            if item is OVER:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        run.control.cancel("the stream was closed")  # without effect if the run has ended
        worker.join()


@final
class LiveItems:
    """Drives *run* in an asyncio task of its own, and queues its (mode, item) for one reader; for an async stream.

    Args:
        run: The run, opened and not started.
        make_driver: Makes the driver from the function that takes its (mode, item).
        tasks: Whether items of the mode `live` are read.
    """

    __slots__ = ("_begun", "_items", "_run", "_worker", "result")

    def __init__(self, run: LiveRun, make_driver: Callable[[Callable[[str, Any], None]], Any], *, tasks: bool) -> None:
        loop = asyncio.get_running_loop()
        home = threading.get_ident()
        items: asyncio.Queue[Any] = asyncio.Queue()

        def put(mode: str, item: Any) -> None:
            """Queue an item, from any thread: the queue itself may be used on the loop's thread only."""
            if threading.get_ident() == home:
                items.put_nowait((mode, item))
            else:
                with suppress(RuntimeError):  # the loop is closed, and the reader with it
                    loop.call_soon_threadsafe(items.put_nowait, (mode, item))

        run.services.read(put, tasks=tasks)
        run.control.watched = True  # leaving the stream early cancels the run
        self._run = run
        self._items = items
        self._begun = False
        """True once `_work` has begun, because it closes the run from then on."""
        self.result: Any = None
        """Result of the run; None until it has ended, and if it failed."""
        self._worker = loop.create_task(self._work(make_driver(put)))
        self._worker.add_done_callback(self._unrun)

    async def _work(self, driver: Any) -> None:
        """Drive the run, close it, and queue how it ended; the body of the asyncio task."""
        run, loop = self._run, asyncio.get_running_loop()
        self._begun = True
        try:
            with run.services.held():
                status = await driver.drive(run.flow())
            self.result = await call_store(run.services, run.ended, status)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            await call_store(run.services, run.broke, error)
            # By call_soon, as items of worker threads are: those that were put before must come first.
            loop.call_soon(self._items.put_nowait, error)
        else:
            loop.call_soon(self._items.put_nowait, OVER)

    def _unrun(self, _worker: asyncio.Task[None]) -> None:
        """Close the run if its asyncio task was cancelled before the first step, since `_work` never ran.

        The asyncio task calls this at its end.
        """
        if not self._begun:
            self._begun = True
            self._run.broke(asyncio.CancelledError())  # may block the loop on the store: a callback cannot await
            self._items.put_nowait(OVER)  # ends the wait of a reader; `result` stays None

    async def next(self) -> Any:
        """Wait for the next (mode, item) and return it, or OVER after the last.

        Raises:
            BaseException: What the run raised.
        """
        item = await self._items.get()
        if isinstance(item, BaseException):
            raise item
        return item

    async def close(self) -> None:
        """Cancel the run and wait until it has ended."""
        self.leave()
        await asyncio.wait([self._worker])

    def leave(self) -> None:
        """Cancel the run without waiting, from any thread; its asyncio task ends by itself."""
        self._run.control.cancel("the stream was closed")
