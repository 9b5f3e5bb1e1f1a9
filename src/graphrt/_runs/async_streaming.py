"""`asteps` and `astream`: drive a run on the running event loop and yield what happens in it.

The arguments are those of the verbs of `Runtime`: an input (*given*), or a *thread* to continue, with *answers* by
interrupt id or one *answer* to its only question; UNSET means that the argument was not passed. *abandon* gives up what
the thread left undone, for a new input; *labels* are a title and tags for the thread. `streaming.opener` binds these
arguments to the function that opens the run. That function checks which of them go together, when the stream is awaited
or first read. A `Watch` says which steps, updates and values the run publishes.
"""

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
        """Open the run, on a worker thread if the store may block; called when the stream is awaited or first read."""
        from graphrt._runs.async_readers import PullReader  # imported late: it loads asyncio

        run = await opened(config.store, lambda: begin(listen=False, watch=Watch(steps=True)))
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
    abandon: bool = False,
    labels: Labels | None = None,
) -> AsyncStream[Any, Any]:
    """Return a stream that opens a run when it is first read, of what happens in it; see `Runtime.astream`."""
    wanted = stream_modes(modes)  # checked at once: a wrong mode needs no run to be found
    begin = opener(config, given, thread, answers, answer, labels, abandon=abandon)

    async def open_() -> Reader:
        """Open the run, on a worker thread if the store may block; called when the stream is awaited or first read."""
        from graphrt._runs.async_readers import LiveReader, PullReader  # imported late: it loads asyncio

        run = await opened(config.store, lambda: begin(listen="events" in wanted, watch=watch_for(wanted)))
        # Items of the modes in LIVE are shown while a node runs. So the run needs an asyncio task of its own.
        return LiveReader(run, wanted) if wanted & LIVE else PullReader(run, wanted)

    return AsyncStream(open_)
