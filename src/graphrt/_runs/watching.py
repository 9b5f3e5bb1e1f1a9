"""The verbs that drive a run and yield what happens: on an input, or going on with a thread. The Runtime has them all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from graphrt._drivers.sync import SyncDriver
from graphrt._engine.trace import Step
from graphrt._flows.run import Watch
from graphrt._runs import continuing
from graphrt._runs.arguments import LIVE, Mode, stream_modes
from graphrt._runs.driving import aiterate, iterate, opened
from graphrt._runs.flight import Owner, Run
from graphrt.commands import UNSET
from graphrt.stores.protocol import Store

S = TypeVar("S")


class Open(Protocol):
    """Opens the run that is to be watched."""

    def __call__(self, *, listen: bool, watch: Watch) -> Run: ...


class WatchVerbs(Generic[S]):
    """How a Runtime drives a run that somebody watches."""

    store: Store | None

    @overload
    def steps(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ...
    ) -> Iterator[Step[S]]: ...
    @overload
    def steps(self, *, thread: str, answers: Any = ..., answer: Any = ...) -> Iterator[Step[S]]: ...
    def steps(
        self,
        input: Any = UNSET,
        *,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
    ) -> Iterator[Step[S]]:
        """Run the graph and yield each finished task after its commit. Leaving early cancels the run.

        Args:
            input: As for `run`. Without one the *thread* goes on.
            thread: As for `run`.
            abandon: As for `run`.
            answers: Go on as `resume` does with these.
            answer: Go on as `resume` does with this. With neither, and no *input*, the thread goes on as with `retry`.

        Yields:
            A step for each task of a superstep that commits, those included that finished in an earlier run.

        Raises:
            InputError: Both an input and answers, neither an input nor a thread, or as for the verb that is meant.
            GraphrtError: The run failed; the failed task's step came before.
        """
        yield from _iterate(self._open(input, thread, answers, answer, abandon), Watch(steps=True), events=False)

    @overload
    def asteps(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ...
    ) -> AsyncIterator[Step[S]]: ...
    @overload
    def asteps(self, *, thread: str, answers: Any = ..., answer: Any = ...) -> AsyncIterator[Step[S]]: ...
    async def asteps(
        self,
        input: Any = UNSET,
        *,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
    ) -> AsyncIterator[Step[S]]:
        """Run the graph and yield each finished task after its commit; see `steps`."""
        begin = self._open(input, thread, answers, answer, abandon)
        async with aclosing(_aiterate(self.store, begin, Watch(steps=True), events=False)) as steps:
            async for step in steps:
                yield step

    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["values"]
    ) -> Iterator[S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["values"]
    ) -> Iterator[S]: ...
    @overload
    def stream(
        self,
        input: S | Mapping[str, Any],
        *,
        thread: str | None = ...,
        abandon: bool = ...,
        modes: Mode | Iterable[Mode] = ...,
    ) -> Iterator[Any]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Mode | Iterable[Mode] = ...
    ) -> Iterator[Any]: ...
    def stream(
        self,
        input: Any = UNSET,
        *,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
        modes: Mode | Iterable[Mode] = ("updates",),
    ) -> Iterator[Any]:
        """Run the graph and yield what happens, as it happens. Leaving early cancels the run.

        Args:
            input: As for `steps`.
            thread: As for `steps`.
            abandon: As for `run`.
            answers: As for `steps`.
            answer: As for `steps`.
            modes: `values` (the state after each superstep), `updates` (node to its update, after the commit),
                `events` (journal entries), `custom` (what nodes `ctx.emit`), `messages` (pieces of model replies).
                With `custom` or `messages` the run is driven on a worker thread, so that items come at once.

        Yields:
            The item, or (mode, item) if there are several modes.
        """
        wanted = stream_modes(modes)
        watch = Watch(updates="updates" in wanted, values="values" in wanted)
        single = len(wanted) == 1
        begin = self._open(input, thread, answers, answer, abandon)
        items = (
            _iterate_live(begin, watch, wanted) if wanted & LIVE else _iterate(begin, watch, events="events" in wanted)
        )
        try:
            for mode, item in items:
                if mode in wanted:
                    yield item if single else (mode, item)
        finally:
            items.close()

    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["values"]
    ) -> AsyncIterator[S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["values"]
    ) -> AsyncIterator[S]: ...
    @overload
    def astream(
        self,
        input: S | Mapping[str, Any],
        *,
        thread: str | None = ...,
        abandon: bool = ...,
        modes: Mode | Iterable[Mode] = ...,
    ) -> AsyncIterator[Any]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Mode | Iterable[Mode] = ...
    ) -> AsyncIterator[Any]: ...
    async def astream(
        self,
        input: Any = UNSET,
        *,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
        modes: Mode | Iterable[Mode] = ("updates",),
    ) -> AsyncIterator[Any]:
        """Run the graph on the running loop and yield what happens; see `stream`."""
        wanted = stream_modes(modes)
        watch = Watch(updates="updates" in wanted, values="values" in wanted)
        single = len(wanted) == 1
        begin = self._open(input, thread, answers, answer, abandon)
        items = (
            _aiterate_live(self.store, begin, watch, wanted)
            if wanted & LIVE
            else _aiterate(self.store, begin, watch, events="events" in wanted)
        )
        async with aclosing(items):
            async for mode, item in items:
                if mode in wanted:
                    yield item if single else (mode, item)

    def _open(self, input: Any, thread: str | None, answers: Any, answer: Any, abandon: bool) -> Open:  # noqa: FBT001 - passed on
        owner: Owner = self  # type: ignore[assignment]  # the Runtime has the rest

        def begin(*, listen: bool, watch: Watch) -> Run:
            return continuing.on_either(
                owner, input, thread, answers, answer, listen=listen, watch=watch, abandon=abandon
            )

        return begin


def _iterate(begin: Open, watch: Watch, *, events: bool) -> Generator[Any, None, None]:
    yield from iterate(begin(listen=events, watch=watch), entries=events)


async def _aiterate(store: Store | None, begin: Open, watch: Watch, *, events: bool) -> AsyncGenerator[Any, None]:
    run = await opened(store, lambda: begin(listen=events, watch=watch))
    async with aclosing(aiterate(run, entries=events)) as items:
        async for item in items:
            yield item


def _iterate_live(begin: Open, watch: Watch, wanted: frozenset[str]) -> Generator[Any, None, None]:
    from graphrt._drivers.live import iterate_live

    run = begin(listen="events" in wanted, watch=watch)

    def driver(watcher: Callable[[str, Any], None]) -> SyncDriver:
        return SyncDriver(run.scope, run.engine.limits, watcher)

    yield from iterate_live(run, driver)


async def _aiterate_live(
    store: Store | None, begin: Open, watch: Watch, wanted: frozenset[str]
) -> AsyncGenerator[Any, None]:
    from graphrt._drivers.aio import AioDriver
    from graphrt._drivers.live import aiterate_live

    run = await opened(store, lambda: begin(listen="events" in wanted, watch=watch))
    items = aiterate_live(run, lambda watcher: AioDriver(run.scope, run.engine.limits, watcher))
    async with aclosing(items):
        async for item in items:
            yield item
