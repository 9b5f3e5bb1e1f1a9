"""`Stream` and `AsyncStream`: iterators over an open run, which `steps`, `stream` and their async twins return.

A sync verb opens the run in the call; an `AsyncStream` opens it when it is awaited or first read. So a wrong call is
refused before a server has answered its client (decision 0050). A stream that is closed or dropped midway ends its run
as cancelled. One that was never read releases its thread, and nothing was written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, final

import typing_extensions as te

from graphrt._forks import Home
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult

if TYPE_CHECKING:
    from asyncio import Future

T_co = TypeVar("T_co", covariant=True)
"""Type of the items. Covariant: a stream only hands them out."""
S = te.TypeVar("S", default=Any)
"""Type of the state in the result."""

END: Final = object()
"""Returned by `Reader.next` after the last item."""
_PARENTS: Final[list[object]] = []
"""What drives the runs of streams that were dropped in a forked child. Collecting it would end the parent's runs."""


def present_items(result: RunResult[Any], wanted: frozenset[str]) -> list[Any]:
    """Return the items of a stream on which nothing runs: 0 or 1, the *result*, paired with its mode if there are several."""
    if "result" not in wanted:
        return []
    return [result] if len(wanted) == 1 else [("result", result)]


class Reader(Protocol):
    """Drives an open run from item to item on the running event loop. `async_readers` has two of them."""

    result: RunResult[Any] | None
    """The result of the run; None until it has ended, and if it failed or was left."""

    async def next(self) -> Any:
        """Return the next item; END after the last."""
        ...

    async def close(self) -> None:
        """End the run and wait until it has ended."""
        ...

    def leave(self) -> None:
        """End the run without awaiting anything: the stream was dropped, and perhaps its loop is closed."""
        ...


@final
class Stream(Iterator[T_co], Generic[T_co, S]):
    """Iterator over the items of a run. Leaving it early cancels the run.

    Also a context manager, which closes the stream.

    Args:
        run: The open run; None if nothing runs, because the thread has its result already.
        make: Makes the generator that drives it, which puts the result into the given list.
    """

    __slots__ = ("_box", "_home", "_items", "_run")

    def __init__(
        self, run: ActiveRun | None, make: Callable[[list[RunResult[Any]]], Generator[T_co, None, None]]
    ) -> None:
        self._home = Home("This stream")
        self._home.check()  # its run is driven in this process, and in no child of it
        self._run: ActiveRun | None = run
        """The run while nothing was read; None afterwards, when the generator closes it."""
        self._box: list[RunResult[Any]] = []
        """Receives the result of the run."""
        self._items = make(self._box)

    def __iter__(self) -> Stream[T_co, S]:
        return self

    def __next__(self) -> T_co:
        """Return the next item; the run goes on until it has one."""
        self._home.check()
        self._run = None  # the generator has begun: it closes the run itself, also if it is closed
        return next(self._items)

    @property
    def result(self) -> RunResult[S] | None:
        """The result of the run; None while it runs, and if it failed or was left."""
        return self._box[0] if self._box else None

    def close(self) -> None:
        """End the run as cancelled, unless it has ended. In a forked child, the run is left to the parent."""
        if self._home.elsewhere:
            return
        run, self._run = self._run, None
        self._items.close()  # does nothing to a generator that has not begun: nothing in it would close the run
        if run is not None:
            run.close()

    def __enter__(self) -> Stream[T_co, S]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Only a stream that was never read: else the generator is closed by the interpreter, and closes the run.
        run = getattr(self, "_run", None)
        if self._home.elsewhere:
            _PARENTS.append((self._items, run))
        elif run is not None:
            with suppress(Exception):  # an exception in __del__ has no caller: Python would print it
                run.close()


@final
class AsyncStream(AsyncIterator[T_co], Generic[T_co, S]):
    """Asynchronous iterator over the items of a run. Leaving it early cancels the run.

    Awaiting the stream opens the run, and raises if something is wrong with the call. Also an asynchronous context
    manager, which awaits the stream first and closes it at the end.

    Args:
        open_: Opens the run and returns what reads it.
    """

    __slots__ = ("_busy", "_closed", "_home", "_open", "_opening", "_reader")

    def __init__(self, open_: Callable[[], Awaitable[Reader]]) -> None:
        self._home = Home("This stream")
        self._open: Callable[[], Awaitable[Reader]] | None = open_
        """None once the opening has begun, or the stream was closed before."""
        self._opening: Future[None] | None = None
        """Set while the run is being opened, so that `aclose` can wait for the end of the opening."""
        self._reader: Reader | None = None
        self._busy = False
        """Whether an asyncio task opens the run or waits for an item: a second one is refused."""
        self._closed = False
        """Whether `aclose` was called."""

    def __await__(self) -> Generator[Any, None, AsyncStream[T_co, S]]:
        """Open the run, if that was not done yet; a wrong call raises here, before the first item is read."""
        return self._opened().__await__()

    async def _opened(self) -> AsyncStream[T_co, S]:
        """Open the run, if that was not done yet, and return the stream."""
        self._home.check()
        if self._open is not None:
            import asyncio

            open_, self._open = self._open, None
            self._busy = True
            opening = self._opening = asyncio.get_running_loop().create_future()  # done when the opening has ended
            try:
                self._reader = await open_()
                if self._closed:  # aclose() was called by another asyncio task meanwhile
                    await self._reader.close()
            finally:
                self._busy = False
                self._opening = None
                opening.set_result(None)
        return self

    def __aiter__(self) -> AsyncStream[T_co, S]:
        return self

    async def __anext__(self) -> T_co:
        self._home.check()
        if self._busy:
            raise RuntimeError("the stream is being read already, by another asyncio task")
        if self._open is not None:
            await self._opened()
        reader = self._reader
        if reader is None:  # closed before it was opened, or the opening failed
            raise StopAsyncIteration
        self._busy = True
        try:
            item: Any = await reader.next()
        finally:
            self._busy = False
        if item is END:
            raise StopAsyncIteration
        found: T_co = item
        return found

    @property
    def result(self) -> RunResult[S] | None:
        """The result of the run; None while it runs, and if it failed or was left."""
        return self._reader.result if self._reader is not None else None

    async def aclose(self) -> None:
        """End the run as cancelled, unless it has ended, and wait until it has.

        May be called while another asyncio task waits for an item: its iteration ends. In a forked child, the run is
        left to the parent.
        """
        if self._home.elsewhere:
            return
        self._open, self._closed = None, True
        if self._opening is not None:
            import asyncio

            await asyncio.wait([self._opening])  # _opened() sees `_closed` and closes the reader
        elif self._reader is not None:
            await self._reader.close()

    async def __aenter__(self) -> AsyncStream[T_co, S]:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        reader = getattr(self, "_reader", None)
        if self._home.elsewhere:
            _PARENTS.append(reader)
        elif reader is not None:
            with suppress(Exception):  # an exception in __del__ has no caller: Python would print it
                reader.leave()
