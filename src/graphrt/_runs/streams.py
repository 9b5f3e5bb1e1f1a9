"""What `steps` and `stream` return: an open run, its items one by one, and how it ended.

The run is opened before there is a stream (sync), or when it is awaited (async). A stream that is closed or dropped in
the middle ends its run as cancelled; one that was not read yet gives its thread back, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, final

import typing_extensions as te

from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult

if TYPE_CHECKING:
    from asyncio import Future

T_co = TypeVar("T_co", covariant=True)
"""Of the items: they are only handed out."""
S = te.TypeVar("S", default=Any)

END: Final = object()
"""What a reader has after its last item."""


class Reader(Protocol):
    """Drives an opened run from item to item on the running loop."""

    result: RunResult[Any] | None

    async def next(self) -> Any:
        """The next item; END after the last."""
        ...

    async def close(self) -> None:
        """End the run and wait until it has ended."""
        ...

    def leave(self) -> None:
        """End the run; the reader is gone."""
        ...


@final
class Stream(Iterator[T_co], Generic[T_co, S]):
    """The items of a run, as an iterator. Leaving it early cancels the run.

    A context manager too, which closes it.
    """

    __slots__ = ("_box", "_items", "_run")

    def __init__(
        self, run: ActiveRun, make: Callable[[ActiveRun, list[RunResult[Any]]], Generator[T_co, None, None]]
    ) -> None:
        self._run: ActiveRun | None = run
        """None once the first item was asked for: the generator has it then."""
        self._box: list[RunResult[Any]] = []
        self._items = make(run, self._box)

    def __iter__(self) -> Stream[T_co, S]:
        return self

    def __next__(self) -> T_co:
        self._run = None
        return next(self._items)

    @property
    def result(self) -> RunResult[S] | None:
        """How the run ended; None while it runs, and where it failed or was left."""
        return self._box[0] if self._box else None

    def close(self) -> None:
        """End the run, unless it has ended."""
        run, self._run = self._run, None
        self._items.close()
        if run is not None:
            run.close()

    def __enter__(self) -> Stream[T_co, S]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run is not None:
            with suppress(Exception):  # nobody is there to hear of it
                run.close()


@final
class AsyncStream(AsyncIterator[T_co], Generic[T_co, S]):
    """The items of a run, as an asynchronous iterator. Leaving it early cancels the run.

    Awaited it has opened the run: what is wrong with the call is raised then. An asynchronous context manager too,
    which awaits it first and closes it in the end.
    """

    __slots__ = ("_busy", "_closed", "_open", "_opening", "_reader")

    def __init__(self, open_: Callable[[], Awaitable[Reader]]) -> None:
        self._open: Callable[[], Awaitable[Reader]] | None = open_
        self._opening: Future[None] | None = None
        """Set while the run is being opened: whoever closes the stream meanwhile waits for it."""
        self._reader: Reader | None = None
        self._busy = False
        self._closed = False

    def __await__(self) -> Generator[Any, None, AsyncStream[T_co, S]]:
        return self._opened().__await__()

    async def _opened(self) -> AsyncStream[T_co, S]:
        if self._open is not None:
            import asyncio

            open_, self._open = self._open, None
            self._busy = True
            opening = self._opening = asyncio.get_running_loop().create_future()
            try:
                self._reader = await open_()
                if self._closed:
                    await self._reader.close()
            finally:
                self._busy = False
                self._opening = None
                opening.set_result(None)
        return self

    def __aiter__(self) -> AsyncStream[T_co, S]:
        return self

    async def __anext__(self) -> T_co:
        if self._busy:
            raise RuntimeError("the stream is being read already, by another asyncio task")
        if self._open is not None:
            await self._opened()
        reader = self._reader
        if reader is None:
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
        """How the run ended; None while it runs, and where it failed or was left."""
        return self._reader.result if self._reader is not None else None

    async def aclose(self) -> None:
        """End the run, unless it has ended, and wait until it has. Another task that waits for an item gets the end."""
        self._open, self._closed = None, True
        if self._opening is not None:
            import asyncio

            await asyncio.wait([self._opening])  # whoever opens it closes it then
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
        if reader is not None:
            with suppress(Exception):  # nobody is there to hear of it
                reader.leave()
