"""`AsyncWatchVerbs`: the async verbs of `Runtime` that drive a run and yield what happens in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, Never, TypeVar, overload

from graphrt._drivers.message_item import MessageItem
from graphrt._engine.steps import Step
from graphrt._flows.live import Live
from graphrt._flows.run import Watch
from graphrt._runs.arguments import LIVE, Mode, Modes, stream_modes
from graphrt._runs.driving import opened
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.streaming import opener, watch_for
from graphrt._runs.streams import AsyncStream, Reader
from graphrt.commands import UNSET
from graphrt.errors import _foreign
from graphrt.events import Entry

S = TypeVar("S")


class AsyncWatchVerbs(Generic[S]):
    """Async verbs of `Runtime` that drive a run and yield what happens in it."""

    _config: RunConfig

    @overload
    def asteps(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ...
    ) -> AsyncStream[Step[S], S]: ...
    @overload
    def asteps(self, *, thread: str, answers: Any = ..., answer: Any = ...) -> AsyncStream[Step[S], S]: ...
    def asteps(
        self,
        input: Any = UNSET,
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
        **words: Never,
    ) -> AsyncStream[Step[S], S]:
        """Run the graph and yield each finished task after its commit; see `steps`.

        The stream claims the thread when it is awaited or first read, and raises then if something is wrong with the
        call.
        """
        if config or words:
            _foreign.refuse(self, "asteps", config, words)
        return asteps(self._config, input, thread, answers, answer, abandon=abandon)

    @overload
    def astream(
        self,
        input: S | Mapping[str, Any],
        *,
        thread: str | None = ...,
        abandon: bool = ...,
        modes: Literal["updates"] = ...,
    ) -> AsyncStream[dict[str, Any], S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["values"]
    ) -> AsyncStream[S, S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["events"]
    ) -> AsyncStream[Entry, S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["messages"]
    ) -> AsyncStream[MessageItem, S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["live"]
    ) -> AsyncStream[Live, S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["result"]
    ) -> AsyncStream[RunResult[S], S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Mode | tuple[Mode]
    ) -> AsyncStream[Any, S]: ...
    @overload
    def astream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Modes
    ) -> AsyncStream[tuple[str, Any], S]: ...
    @overload
    def astream(
        self,
        *,
        thread: str,
        answers: Any = ...,
        answer: Any = ...,
        modes: Literal["updates"] = ...,
    ) -> AsyncStream[dict[str, Any], S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["values"]
    ) -> AsyncStream[S, S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["events"]
    ) -> AsyncStream[Entry, S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["messages"]
    ) -> AsyncStream[MessageItem, S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["live"]
    ) -> AsyncStream[Live, S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["result"]
    ) -> AsyncStream[RunResult[S], S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Mode | tuple[Mode]
    ) -> AsyncStream[Any, S]: ...
    @overload
    def astream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Modes
    ) -> AsyncStream[tuple[str, Any], S]: ...
    def astream(
        self,
        input: Any = UNSET,
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
        modes: Mode | Iterable[Mode] = ("updates",),
        **words: Never,
    ) -> AsyncStream[Any, S]:
        """Run the graph on the running event loop and yield what happens; see `stream`.

        The stream claims the thread when it is awaited or first read, and raises then if something is wrong with the
        call.
        """
        if config or words:
            _foreign.refuse(self, "astream", config, words)
        return astream(self._config, input, modes, thread, answers, answer, abandon=abandon)


def asteps(
    config: RunConfig,
    given: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    abandon: bool = False,
) -> AsyncStream[Step[Any], Any]:
    """Return a stream that opens a run when it is first read, of the run's finished tasks; see `Runtime.asteps`."""
    begin = opener(config, given, thread, answers, answer, abandon=abandon)

    async def open_() -> Reader:
        from graphrt._runs.async_readers import PullReader

        run = await opened(config.store, lambda: begin(listen=False, watch=Watch(steps=True)))
        return PullReader(run, None)

    return AsyncStream(open_)


def astream(
    config: RunConfig,
    given: Any,
    modes: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    abandon: bool = False,
) -> AsyncStream[Any, Any]:
    """Return a stream that opens a run when it is first read, of what happens in it; see `Runtime.astream`."""
    wanted = stream_modes(modes)
    begin = opener(config, given, thread, answers, answer, abandon=abandon)

    async def open_() -> Reader:
        from graphrt._runs.async_readers import LiveReader, PullReader

        run = await opened(config.store, lambda: begin(listen="events" in wanted, watch=watch_for(wanted)))
        return LiveReader(run, wanted) if wanted & LIVE else PullReader(run, wanted)

    return AsyncStream(open_)
