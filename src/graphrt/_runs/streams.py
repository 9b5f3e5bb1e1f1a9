"""`Stream` and `AsyncStream`: iterators over an open run, which `steps`, `stream` and their async twins return.

A sync verb opens the run in the call; an `AsyncStream` opens it when it is awaited or first read. So a wrong call is
rejected before a server has answered its client (decision 0050). A stream that is closed or dropped midway ends its run
as cancelled. A stream that was never read releases its thread, and nothing has been written. If `if_exists` makes a new
run unnecessary, the result is available at once (`Present`) and is the stream's only item.

The items come from a queue, `StreamItems`. While it is empty, the reader drives the run itself: the run advances only
while the reader requests an item. The context variables of the run (`RunServices.held`) are set only during that time,
since they are shared with the reader (decision 0039). Items of the modes in LIVE must not wait for a commit. Such a run
is driven on a worker thread or in a separate asyncio task while the reader waits. This is the only exception to "a
superstep with one task runs in the caller" (decision 0011).

Streams are not generators. An asynchronous generator dropped midway is left to its event loop, which may be closed by
then (decision 0050). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt._drivers.sync import PAUSED, SyncDriver
from graphrt._flows.live import LIVE
from graphrt._forks import Home, process
from graphrt._runs import reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.if_exists import IfExists, Present
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.run_to_end import abroke, adrive, aended, drive, opened
from graphrt._runs.stream_items import Reads, StreamItems
from graphrt.commands import UNSET
from graphrt.stores.values import Labels

if TYPE_CHECKING:
    import asyncio

    from graphrt._drivers.aio import AioDriver
    from graphrt._flows.effects import Flow

T_co = TypeVar("T_co", covariant=True)
"""Type of the items. Covariant, since a stream only yields them."""
S = te.TypeVar("S", default=Any)
"""Type of the state in the result."""
Opened: TypeAlias = tuple[ActiveRun | None, StreamItems]
"""An open run and the queue of its items; None for the run if nothing runs and the queue already has the result."""

_LEFT: Final = "the stream was closed"
"""Why a run was cancelled whose reader left."""
_PARENTS: Final[list[object]] = []
"""Drivers of streams that were dropped in a forked child process. Collecting them would end the parent's runs."""


def stream(
    config: RunConfig,
    input_: Any,
    reads: Reads,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
) -> Stream[Any, Any]:
    """Open a run, and return a stream of its items; see `Runtime.steps` and `Runtime.stream`.

    Args:
        config: The configuration of the runtime.
        input_: An input starts a run. UNSET continues the thread, like `resume` if there are answers, else like
            `retry`.
        reads: Modes of the items, or `steps` alone.
        thread: None generates an id, or runs without a thread if there is no store.
        answers: Answers by interrupt id, or the answer to the only question; UNSET without any.
        answer: The answer to the only question; UNSET without one.
        if_exists: What to do with the input if the thread exists, unchecked.
        labels: Title and tags for the thread; None without any.
    """
    try:
        run = reopen_run.on_either(config, input_, thread, answers, answer, labels, reads=reads, if_exists=if_exists)
    except Present as present:
        return Stream(*_over(present, reads))
    assert run.items is not None  # noqa: S101 - it was opened to be read
    return Stream(run, run.items)


def astream(
    config: RunConfig,
    input_: Any,
    reads: Reads,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
) -> AsyncStream[Any, Any]:
    """Return a stream that opens a run when it is awaited or first read; see `stream`."""

    async def open_() -> Opened:
        """Open the run, on a worker thread if the store may block."""
        begin = partial(reopen_run.on_either, config, input_, thread, answers, answer, labels)
        try:
            run = await opened(config.store, lambda: begin(reads=reads, if_exists=if_exists))
        except Present as present:
            return _over(present, reads)
        assert run.items is not None  # noqa: S101 - it was opened to be read
        return run, run.items

    return AsyncStream(open_)


def _over(present: Present, reads: Reads) -> Opened:
    """Return the queue of a stream without a run: its only item is the result, if that is read."""
    items = StreamItems(reads)
    items.end(present.result)
    return None, items


@final
class Stream(Iterator[T_co], Generic[T_co, S]):
    """Iterator over the items of a run. Leaving it early cancels the run.

    Also a context manager, which closes the stream.

    Args:
        run: The open run; None if nothing runs, because the thread has its result already.
        items: The queue of its items.
    """

    __slots__ = ("_driving", "_home", "_is_busy", "_items", "_run", "_worker")

    def __init__(self, run: ActiveRun | None, items: StreamItems) -> None:
        self._home = Home("This stream")
        self._home.check()  # its run is driven in this process, not in a forked child
        self._run = run
        self._items = items
        self._driving: tuple[SyncDriver, Flow, bool] | None = None
        """Driver and flow of a run that the reader drives, and whether it holds context variables (`RunServices.holds`);
        None before the first item is read."""
        self._worker: threading.Thread | None = None
        """Drives a run whose items must not wait for a commit; None before the first item is read."""
        self._is_busy = False
        """Whether the reader drives the run now."""

    def __iter__(self) -> Stream[T_co, S]:
        return self

    def __next__(self) -> T_co:
        """Return the next item; the run continues until it has one."""
        if self._home.process != process.id:  # inline, to avoid a call for each item
            self._home.check()
        items = self._items
        while not items.queue:
            if items.over or self._run is None:
                if items.error is not None:
                    items.raise_error()
                raise StopIteration
            if items.reads.isdisjoint(LIVE):
                self._go_on(self._run, items)
            else:
                self._wait(self._run, items)
        item: T_co = items.queue.popleft()
        return item

    def _go_on(self, run: ActiveRun, items: StreamItems) -> None:
        """Drive the run until it has an item or has ended."""
        if self._is_busy:
            raise RuntimeError("the stream is being read already")
        if self._driving is None:
            self._driving = SyncDriver(run.services, run.engine.limits), run.flow(), run.services.holds
        driver, flow, holds = self._driving
        self._is_busy = True
        try:
            try:
                if holds:
                    with run.services.held():
                        status = driver.drive(flow, items.queue)
                else:
                    status = driver.drive(flow, items.queue)
            except BaseException as error:
                run.broke(error)
                raise
            if status is not PAUSED:
                items.end(run.ended(status))
        except BaseException as error:  # noqa: BLE001 - raised after the last item
            items.end(error=error)
        finally:
            self._is_busy = False

    def _wait(self, run: ActiveRun, items: StreamItems) -> None:
        """Wait for an item of a run that a worker thread drives, or for its end."""
        if self._worker is None:
            context = contextvars.copy_context()  # nodes see the variables of the caller, as in a run without a stream
            worker = threading.Thread(target=context.run, args=(_drive, run, items), name="graphrt-stream", daemon=True)
            try:
                worker.start()
            except BaseException as error:  # no memory for a thread: the run ends before it began
                items.end()
                run.broke(error)
                raise
            self._worker = worker
        try:
            items.wait()
        except BaseException:  # Ctrl-C
            self.close()
            raise

    @property
    def result(self) -> RunResult[S] | None:
        """The result of the run; None while it runs, and if it failed or was left."""
        return self._items.result

    def close(self) -> None:
        """End the run as cancelled, unless it has ended. In a forked child, the run is left to the parent."""
        if self._home.elsewhere:
            return
        items, run = self._items, self._run
        if not items.over and run is not None:
            if self._is_busy:
                raise RuntimeError("the stream is being read, by a node of its run or by another thread")
            if self._worker is not None:
                run.control.cancel(_LEFT)
                self._worker.join()
            else:
                items.end()
                _leave(run, self._driving[:2] if self._driving is not None else None)
        items.queue.clear()

    def __enter__(self) -> Stream[T_co, S]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not hasattr(self, "_is_busy") or self._items.over:  # without the attribute, it was created in a forked child
            return
        if self._home.elsewhere:
            _PARENTS.append((self._driving, self._run))
        elif self._driving is not None or self._worker is not None:
            self.close()  # Python prints any error, since an exception in __del__ has no caller
        else:
            with suppress(Exception):  # nothing has run
                self.close()


def _drive(run: ActiveRun, items: StreamItems) -> None:
    """Drive a run to its end on a worker thread, which is not the reader's."""
    try:
        result = drive(run)
    except BaseException as error:  # noqa: BLE001 - the reader raises it
        items.end(error=error)
    else:
        items.end(result)


def _leave(run: ActiveRun, driving: tuple[SyncDriver | AioDriver, Flow] | None) -> None:
    """Cancel and close a run that its reader has left. No task runs between two items, so only one commit remains.

    Args:
        run: The run.
        driving: Its driver and flow. None if nothing was read; then nothing was written, and the run is only closed.

    Raises:
        BaseException: The cancellation could not be recorded.
    """
    if driving is None:
        run.close()
        return
    run.control.cancel(_LEFT)
    driver, flow = driving
    if not isinstance(driver, SyncDriver):  # its event loop may be closed
        driver = SyncDriver(run.services, run.engine.limits)
    try:
        with run.services.held():
            driver.drive(flow)
    except BaseException as error:
        run.broke(error)
        raise
    run.broke(GeneratorExit(_LEFT))


@final
class AsyncStream(AsyncIterator[T_co], Generic[T_co, S]):
    """Asynchronous iterator over the items of a run. Leaving it early cancels the run.

    Awaiting the stream opens the run, and raises if the call is wrong. The stream is also an asynchronous context
    manager that awaits the stream first and closes it at the end.

    Args:
        open_: Opens the run.
    """

    __slots__ = ("_driving", "_home", "_idle", "_is_busy", "_is_closed", "_items", "_open", "_run", "_worker")

    def __init__(self, open_: Callable[[], Awaitable[Opened]]) -> None:
        self._home = Home("This stream")
        self._open: Callable[[], Awaitable[Opened]] | None = open_
        """None once opening has begun, or if the stream was closed before that."""
        self._is_closed = False
        """Whether `aclose` was called."""
        self._run: ActiveRun | None = None
        self._items: StreamItems | None = None
        """The queue; None before the run was opened."""
        self._driving: tuple[AioDriver, Flow] | None = None
        self._worker: asyncio.Task[None] | None = None
        """As in `Stream`."""
        self._is_busy = False
        """Whether an asyncio task is opening the run or waiting for an item; a second one is rejected."""
        self._idle: asyncio.Future[None] | None = None
        """Set by `aclose` to wait until no asyncio task opens the run or waits for an item; None otherwise."""

    def __await__(self) -> Generator[Any, None, AsyncStream[T_co, S]]:
        """Open the run unless already open. A wrong call raises here, before the first item is read."""
        return self._opened().__await__()

    async def _opened(self) -> AsyncStream[T_co, S]:
        """Open the run unless already open, and return the stream."""
        self._home.check()
        if self._open is not None:
            open_, self._open = self._open, None
            self._is_busy = True
            try:
                self._run, self._items = await open_()
                if self._is_closed and self._run is not None:  # by another asyncio task meanwhile
                    await self._end(self._run, self._items)
            finally:
                self._rest()
        return self

    def _rest(self) -> None:
        """Record that no asyncio task is opening the run or waiting for an item any more."""
        self._is_busy = False
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def __aiter__(self) -> AsyncStream[T_co, S]:
        return self

    async def __anext__(self) -> T_co:
        self._home.check()
        if self._is_busy:
            raise RuntimeError("the stream is being read already, by another asyncio task")
        if self._open is not None:
            await self._opened()
        items = self._items
        if items is None:  # closed before it was opened, or the opening failed
            raise StopAsyncIteration
        self._is_busy = True
        try:
            while not items.queue and not items.over and self._run is not None:
                await (self._go_on if items.reads.isdisjoint(LIVE) else self._wait)(self._run, items)
        finally:
            self._rest()
        if not items.queue:
            if items.error is not None:
                items.raise_error()
            raise StopAsyncIteration
        item: T_co = items.queue.popleft()
        return item

    async def _go_on(self, run: ActiveRun, items: StreamItems) -> None:
        """Drive the run until it has an item or has ended."""
        if self._driving is None:
            from graphrt._drivers.aio import AioDriver  # imported late: it loads asyncio

            self._driving = AioDriver(run.services, run.engine.limits), run.flow()
        driver, flow = self._driving
        try:
            try:
                if run.services.holds:
                    with run.services.held():
                        status = await driver.drive(flow, items.queue)
                else:
                    status = await driver.drive(flow, items.queue)
            except BaseException as error:
                await abroke(run, error)
                raise
            if status is not PAUSED:
                items.end(await aended(run, status))
        except BaseException as error:  # noqa: BLE001 - raised after the last item
            items.end(error=error)

    async def _wait(self, run: ActiveRun, items: StreamItems) -> None:
        """Wait for an item of a run that a separate asyncio task drives, or for its end."""
        if self._worker is None:
            import asyncio

            self._worker = asyncio.get_running_loop().create_task(_adrive(run, items))

            def unrun(_worker: asyncio.Task[None]) -> None:
                """Close the run if its asyncio task was cancelled before it began."""
                if not items.over:
                    items.end()
                    # May block the loop on the store, since a callback cannot await.
                    run.broke(asyncio.CancelledError())

            self._worker.add_done_callback(unrun)
        try:
            await items.await_()
        except BaseException:  # the reader was cancelled
            await self._end(run, items)
            raise

    @property
    def result(self) -> RunResult[S] | None:
        """The result of the run; None while it runs, and if it failed or was left."""
        return self._items.result if self._items is not None else None

    async def aclose(self) -> None:
        """End the run as cancelled, unless it has ended, and wait until it has.

        May be called while another asyncio task waits for an item: its iteration ends. In a forked child, the run is
        left to the parent.
        """
        if self._home.elsewhere:
            return
        self._open, self._is_closed = None, True
        while self._is_busy:  # the other asyncio task is ending or opening the run
            import asyncio

            if self._run is not None:
                self._run.control.cancel(_LEFT)
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle])  # not `await self._idle`: a cancelled caller would cancel the future too
        if self._items is not None and self._run is not None:
            await self._end(self._run, self._items)

    async def _end(self, run: ActiveRun, items: StreamItems) -> None:
        """End the run as cancelled, unless it has ended, and wait until it has."""
        if not items.over:
            run.control.cancel(_LEFT)
            if self._worker is not None:
                import asyncio

                await asyncio.wait([self._worker])  # it closes the run
            elif self._driving is None:
                from graphrt._drivers.blocking_calls import call_store

                items.end()
                await call_store(run.services, run.close)
            else:
                items.end()
                await _aleave(run, *self._driving)
        items.queue.clear()

    async def __aenter__(self) -> AsyncStream[T_co, S]:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        run, items = getattr(self, "_run", None), getattr(self, "_items", None)
        if run is None or items is None or items.over:
            return
        if self._home.elsewhere:
            _PARENTS.append((self._driving, run, self._worker))
        elif self._worker is not None:
            run.control.cancel(_LEFT)  # the asyncio task ends by itself
        else:
            # A single commit, which blocks. Otherwise the thread could stay claimed indefinitely (decision 0050).
            items.end()
            with suppress(Exception):  # an exception in __del__ has no caller: Python would print it
                _leave(run, self._driving)


async def _adrive(run: ActiveRun, items: StreamItems) -> None:
    """Drive a run to its end in a separate asyncio task."""
    try:
        result = await adrive(run)
    except BaseException as error:  # noqa: BLE001 - the reader raises it
        items.end(error=error)
    else:
        items.end(result)


async def _aleave(run: ActiveRun, driver: AioDriver, flow: Flow) -> None:
    """Like `_leave`, on the event loop of the run."""
    try:
        with run.services.held():
            await driver.drive(flow)
    except BaseException as error:
        await abroke(run, error)
        raise
    await abroke(run, GeneratorExit(_LEFT))
