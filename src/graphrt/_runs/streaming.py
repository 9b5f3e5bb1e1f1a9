"""`steps` and `stream`: drive a run and yield what happens in it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

from graphrt._drivers.sync import SyncDriver, Watcher
from graphrt._engine.steps import Step
from graphrt._flows.run import Watch
from graphrt._runs import reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.arguments import LIVE, stream_modes
from graphrt._runs.driving import iterate
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.streams import Stream
from graphrt.commands import UNSET
from graphrt.stores.protocol import Labels

S = TypeVar("S")


class Open(Protocol):
    """Opens the run to watch."""

    def __call__(self, *, listen: bool, watch: Watch) -> ActiveRun: ...


def steps(
    config: RunConfig,
    given: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    abandon: bool = False,
    labels: Labels | None = None,
) -> Stream[Step[Any], Any]:
    """Open a run, and return a stream of its finished tasks; see `Runtime.steps`."""
    begin = opener(config, given, thread, answers, answer, labels, abandon=abandon)
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
    labels: Labels | None = None,
) -> Stream[Any, Any]:
    """Open a run, and return a stream of what happens in it; see `Runtime.stream`."""
    wanted = stream_modes(modes)
    begin = opener(config, given, thread, answers, answer, labels, abandon=abandon)
    run = begin(listen="events" in wanted, watch=watch_for(wanted))
    return Stream(run, lambda run, box: _picked(run, box, wanted))


def opener(
    config: RunConfig,
    input: Any,
    thread: str | None,
    answers: Any,
    answer: Any,
    labels: Labels | None,
    *,
    abandon: bool,
) -> Open:
    """Return a function that opens the run that the arguments describe; see `reopen_run.on_either`."""

    def begin(*, listen: bool, watch: Watch) -> ActiveRun:
        return reopen_run.on_either(
            config, input, thread, answers, answer, labels, listen=listen, watch=watch, abandon=abandon
        )

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

    tasks = "live" in wanted
    if tasks:  # a task that ends is shown then, and not when the last one beside it does
        run.services.eager = True
    return iterate_live(run, driver, box, tasks=tasks)
