"""`WatchVerbs`: the sync verbs of `Runtime` that drive a run and yield what happens in it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Generic, Literal, Never, Protocol, TypeVar, overload

from graphrt._drivers.message_item import MessageItem
from graphrt._drivers.sync import SyncDriver, Watcher
from graphrt._engine.steps import Step
from graphrt._flows.live import Live
from graphrt._flows.run import Watch
from graphrt._runs import reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.arguments import LIVE, Mode, Modes, stream_modes
from graphrt._runs.driving import iterate
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.streams import Stream
from graphrt.commands import UNSET
from graphrt.errors import _foreign
from graphrt.events import Entry

S = TypeVar("S")


class Open(Protocol):
    """Opens the run to watch."""

    def __call__(self, *, listen: bool, watch: Watch) -> ActiveRun: ...


class WatchVerbs(Generic[S]):
    """Verbs of `Runtime` that drive a run and yield what happens in it."""

    _config: RunConfig

    @overload
    def steps(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ...
    ) -> Stream[Step[S], S]: ...
    @overload
    def steps(self, *, thread: str, answers: Any = ..., answer: Any = ...) -> Stream[Step[S], S]: ...
    def steps(
        self,
        input: Any = UNSET,
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
        **words: Never,
    ) -> Stream[Step[S], S]:
        """Run the graph and yield each finished task after its commit. Leaving early cancels the run.

        The call claims the thread. Nothing runs before the first step is read.

        Args:
            input: As for `run`. Without an input, the *thread* is continued.
            thread: As for `run`.
            abandon: As for `run`.
            answers: Continue as `resume` does with these answers.
            answer: Continue as `resume` does with this answer. Without answers and *input*, continue as `retry` does.

        Returns:
            A step for each task of a superstep that commits, including tasks that finished in an earlier run.
            Iterating raises a GraphrtError if the run fails, after the step of the failed task.

        Raises:
            InputError: Both an input and answers, or neither an input nor a thread; else as for `run` and `resume`.
            ConflictError: Another run has the thread.
        """
        if config or words:
            _foreign.refuse(self, "steps", config, words)
        return steps(self._config, input, thread, answers, answer, abandon=abandon)

    @overload
    def stream(
        self,
        input: S | Mapping[str, Any],
        *,
        thread: str | None = ...,
        abandon: bool = ...,
        modes: Literal["updates"] = ...,
    ) -> Stream[dict[str, Any], S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["values"]
    ) -> Stream[S, S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["events"]
    ) -> Stream[Entry, S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["messages"]
    ) -> Stream[MessageItem, S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["live"]
    ) -> Stream[Live, S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Literal["result"]
    ) -> Stream[RunResult[S], S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Mode | tuple[Mode]
    ) -> Stream[Any, S]: ...
    @overload
    def stream(
        self, input: S | Mapping[str, Any], *, thread: str | None = ..., abandon: bool = ..., modes: Modes
    ) -> Stream[tuple[str, Any], S]: ...
    @overload
    def stream(
        self,
        *,
        thread: str,
        answers: Any = ...,
        answer: Any = ...,
        modes: Literal["updates"] = ...,
    ) -> Stream[dict[str, Any], S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["values"]
    ) -> Stream[S, S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["events"]
    ) -> Stream[Entry, S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["messages"]
    ) -> Stream[MessageItem, S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["live"]
    ) -> Stream[Live, S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Literal["result"]
    ) -> Stream[RunResult[S], S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Mode | tuple[Mode]
    ) -> Stream[Any, S]: ...
    @overload
    def stream(
        self, *, thread: str, answers: Any = ..., answer: Any = ..., modes: Modes
    ) -> Stream[tuple[str, Any], S]: ...
    def stream(
        self,
        input: Any = UNSET,
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        answers: Any = UNSET,
        answer: Any = UNSET,
        modes: Mode | Iterable[Mode] = ("updates",),
        **words: Never,
    ) -> Stream[Any, S]:
        """Run the graph and yield what happens, as it happens. Leaving early cancels the run.

        The call claims the thread. Nothing runs before the first item is read.

        Args:
            input: As for `steps`.
            thread: As for `steps`.
            abandon: As for `run`.
            answers: As for `steps`.
            answer: As for `steps`.
            modes: `values` (the state after each superstep), `updates` (node to its update, after the commit),
                `events` (journal entries), `custom` (values of `ctx.emit`), `messages` (pieces of model replies),
                `live` (what tasks do while their superstep is open, in nested graphs too), `result` (the RunResult,
                as the last item). With `custom`, `messages` or `live` the run is driven on a worker thread, so that
                items are not delayed until the commit.

        Returns:
            The items, or pairs of mode and item if there are several modes.

        Raises:
            InputError: A mode is unknown, or as for `steps`.
            ConflictError: Another run has the thread.
        """
        if config or words:
            _foreign.refuse(self, "stream", config, words)
        return stream(self._config, input, modes, thread, answers, answer, abandon=abandon)


def steps(
    config: RunConfig,
    given: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    abandon: bool = False,
) -> Stream[Step[Any], Any]:
    """Open a run, and return a stream of its finished tasks; see `Runtime.steps`."""
    begin = opener(config, given, thread, answers, answer, abandon=abandon)
    return Stream(begin(listen=False, watch=Watch(steps=True)), _steps)


def stream(
    config: RunConfig,
    given: Any,
    modes: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    abandon: bool = False,
) -> Stream[Any, Any]:
    """Open a run, and return a stream of what happens in it; see `Runtime.stream`."""
    wanted = stream_modes(modes)
    begin = opener(config, given, thread, answers, answer, abandon=abandon)
    run = begin(listen="events" in wanted, watch=watch_for(wanted))
    return Stream(run, lambda run, box: _picked(run, box, wanted))


def opener(config: RunConfig, input: Any, thread: str | None, answers: Any, answer: Any, *, abandon: bool) -> Open:
    """Return a function that opens the run that the arguments describe; see `reopen_run.on_either`."""

    def begin(*, listen: bool, watch: Watch) -> ActiveRun:
        return reopen_run.on_either(config, input, thread, answers, answer, listen=listen, watch=watch, abandon=abandon)

    return begin


def watch_for(wanted: frozenset[str]) -> Watch:
    """Return what a run has to publish for the modes *wanted*."""
    return Watch(updates="updates" in wanted, values="values" in wanted)


def _steps(run: ActiveRun, box: list[RunResult[Any]]) -> Generator[Any, None, None]:
    return iterate(run, box, entries=False)


def _picked(run: ActiveRun, box: list[RunResult[Any]], wanted: frozenset[str]) -> Generator[Any, None, None]:
    """Drive *run* and yield its items of the modes *wanted*; paired with their mode if there are several."""
    single = len(wanted) == 1
    items = _live(run, box, wanted) if wanted & LIVE else iterate(run, box, entries="events" in wanted)
    try:
        for mode, item in items:
            if mode in wanted:
                yield item if single else (mode, item)
    finally:
        items.close()
    if "result" in wanted:
        yield box[0] if single else ("result", box[0])


def _live(run: ActiveRun, box: list[RunResult[Any]], wanted: frozenset[str]) -> Generator[Any, None, None]:
    """Drive *run* on a worker thread, for modes whose items must not wait for a commit."""
    from graphrt._drivers.live_streams import iterate_live

    def driver(watcher: Watcher) -> SyncDriver:
        return SyncDriver(run.services, run.engine.limits, watcher)

    run.control.live = "live" in wanted
    return iterate_live(run, driver, box)
