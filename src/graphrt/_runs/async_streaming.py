"""`asteps` and `astream`: drive a run on the running event loop and yield what happens in it."""

from __future__ import annotations

from typing import Any, TypeVar

from graphrt._engine.steps import Step
from graphrt._flows.run import Watch
from graphrt._runs.arguments import LIVE, stream_modes
from graphrt._runs.driving import opened
from graphrt._runs.run_config import RunConfig
from graphrt._runs.streaming import opener, watch_for
from graphrt._runs.streams import AsyncStream, Reader
from graphrt.commands import UNSET
from graphrt.stores.protocol import Labels

S = TypeVar("S")


def asteps(
    config: RunConfig,
    given: Any,
    thread: str | None = None,
    answers: Any = UNSET,
    answer: Any = UNSET,
    *,
    abandon: bool = False,
    labels: Labels | None = None,
) -> AsyncStream[Step[Any], Any]:
    """Return a stream that opens a run when it is first read, of the run's finished tasks; see `Runtime.asteps`."""
    begin = opener(config, given, thread, answers, answer, labels, abandon=abandon)

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
    labels: Labels | None = None,
) -> AsyncStream[Any, Any]:
    """Return a stream that opens a run when it is first read, of what happens in it; see `Runtime.astream`."""
    wanted = stream_modes(modes)
    begin = opener(config, given, thread, answers, answer, labels, abandon=abandon)

    async def open_() -> Reader:
        from graphrt._runs.async_readers import LiveReader, PullReader

        run = await opened(config.store, lambda: begin(listen="events" in wanted, watch=watch_for(wanted)))
        return LiveReader(run, wanted) if wanted & LIVE else PullReader(run, wanted)

    return AsyncStream(open_)
