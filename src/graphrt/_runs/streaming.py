"""`steps`, `stream` and their async twins: drive a run and yield what happens in it.

LIVE has the modes whose items are shown while a node runs: `custom`, `messages` and `live`. `iterate` drives a run in
the caller, and `iterate_live` on a worker thread; both close it at the end.

The call opens the run, so a wrong call is refused at once. The run is driven only while its reader asks for items, and
ends as cancelled if the reader leaves. A `Watch` says what the run has to publish: steps, updates or values. A stream
has modes. With one mode its items come as they are, with several as pairs (mode, item). The *box* is a list that gets
the `RunResult` at the end, and stays empty if the run failed or was left. A thread on which nothing runs, because of
`if_exists`, has its result at once (`Present`), and its stream has no other item.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

from graphrt._drivers.sync import SyncDriver, Watcher
from graphrt._engine.steps import Step
from graphrt._flows.run import Watch
from graphrt._runs import reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.arguments import LIVE, stream_modes
from graphrt._runs.driving import iterate, opened
from graphrt._runs.if_exists import IfExists, Present
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.streams import AsyncStream, Reader, Stream, present_items
from graphrt.commands import UNSET
from graphrt.stores.protocol import Labels

S = TypeVar("S")
"""The state class of the graph."""


class Open(Protocol):
    """Opens the run to watch: claims its thread, checks the arguments, and runs nothing yet.

    Args:
        listen: Whether the caller reads journal entries, as the mode `events` does.
        watch: What the run has to publish.
    """

    def __call__(self, *, listen: bool, watch: Watch) -> ActiveRun: ...


def steps(
    config: RunConfig,
    given: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
) -> Stream[Step[Any], Any]:
    """Open a run, and return a stream of its finished tasks; see `Runtime.steps`. `opener` explains the arguments."""
    begin = opener(config, given, thread, answers, answer, labels, if_exists=if_exists)
    try:
        run = begin(listen=False, watch=Watch(steps=True))
    except Present as found:
        return _over(found.result, frozenset())
    return Stream(run, lambda box: iterate(run, box, entries=False))


def stream(
    config: RunConfig,
    given: Any,
    modes: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
) -> Stream[Any, Any]:
    """Open a run, and return a stream of what happens in it; see `Runtime.stream`.

    Args:
        modes: A mode, or several, unchecked. `opener` explains the other arguments.
    """
    wanted = stream_modes(modes)
    begin = opener(config, given, thread, answers, answer, labels, if_exists=if_exists)
    try:
        run = begin(listen="events" in wanted, watch=watch_for(wanted))
    except Present as found:
        return _over(found.result, wanted)
    return Stream(run, lambda box: _picked(run, box, wanted))


def opener(
    config: RunConfig,
    input: Any,
    thread: str | None,
    answers: Any,
    answer: Any,
    labels: Labels | None,
    *,
    if_exists: IfExists,
) -> Open:
    """Return a function that opens the run that the arguments describe; also for the async twins.

    Args:
        input: Begins a run on it; UNSET continues the thread: with answers as `resume` does, else as `retry` does.
        thread: None makes an id, or runs without a thread if there is no store.
        answers: Answers by interrupt id, or the answer to the only question; UNSET without any.
        answer: The answer to the only question; UNSET without one.
        labels: Title and tags for the thread; None without any.
        if_exists: What becomes of the input if the thread exists, unchecked.
    """

    def begin(*, listen: bool, watch: Watch) -> ActiveRun:
        """Open the run; implements `Open`."""
        return reopen_run.on_either(
            config, input, thread, answers, answer, labels, listen=listen, watch=watch, if_exists=if_exists
        )

    return begin


def watch_for(wanted: frozenset[str]) -> Watch:
    """Return what a run has to publish for the modes *wanted*. Items of the other modes need no flag here."""
    return Watch(updates="updates" in wanted, values="values" in wanted)


def _over(result: RunResult[Any], wanted: frozenset[str]) -> Stream[Any, Any]:
    """Return a stream of a thread on which nothing runs: its only item is the *result*, if the mode is *wanted*."""

    def items(box: list[RunResult[Any]]) -> Generator[Any, None, None]:
        """Put the result where the stream finds it at once, and return its items."""
        box.append(result)
        return (item for item in present_items(result, wanted))

    return Stream(None, items)


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
        """Make the driver of the run; *watcher* takes each (mode, item) and queues it for the reader."""
        return SyncDriver(run.services, run.engine.limits, watcher)

    tasks = "live" in wanted
    if tasks:  # report a task when it ends, and not when the last task of its superstep does
        run.services.eager = True
    return iterate_live(run, driver, box, tasks=tasks)


def asteps(
    config: RunConfig,
    given: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
) -> AsyncStream[Step[Any], Any]:
    """Return a stream that opens a run when it is first read, of the run's finished tasks; see `Runtime.asteps`."""
    begin = opener(config, given, thread, answers, answer, labels, if_exists=if_exists)

    async def open_() -> Reader:
        """Open the run, on a worker thread if the store may block; called when the stream is awaited or first read."""
        from graphrt._runs.async_readers import PresentReader, PullReader  # imported late: it loads asyncio

        try:
            run = await opened(config.store, lambda: begin(listen=False, watch=Watch(steps=True)))
        except Present as found:
            return PresentReader(found.result, frozenset())
        return PullReader(run, None)  # None: steps, and no items of stream modes

    return AsyncStream(open_)


def astream(
    config: RunConfig,
    given: Any,
    modes: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
) -> AsyncStream[Any, Any]:
    """Return a stream that opens a run when it is first read, of what happens in it; see `Runtime.astream`."""
    wanted = stream_modes(modes)  # checked at once: a wrong mode needs no run to be found
    begin = opener(config, given, thread, answers, answer, labels, if_exists=if_exists)

    async def open_() -> Reader:
        """Open the run, on a worker thread if the store may block; called when the stream is awaited or first read."""
        from graphrt._runs.async_readers import LiveReader, PresentReader, PullReader  # imported late: it loads asyncio

        try:
            run = await opened(config.store, lambda: begin(listen="events" in wanted, watch=watch_for(wanted)))
        except Present as found:
            return PresentReader(found.result, wanted)
        # Items of the modes in LIVE are shown while a node runs. So the run needs an asyncio task of its own.
        return LiveReader(run, wanted) if wanted & LIVE else PullReader(run, wanted)

    return AsyncStream(open_)
