"""The verbs that drive a run to its end and return its result: `run`, `resume`, `retry` and their async twins.

`Runtime` and `CompiledGraph` document them. Each verb first opens the run, which claims the thread and checks what the
caller gave, and then drives it in the caller, or on the running event loop. `opened` opens a run on a worker thread if
the store may block. `listen` and `watch` are for streams: here no reader wants entries or items.

*given* is the input, unchecked. `labels` are title and tags for the thread, None without any. `Present` is raised in
place of opening a run if the thread exists, and carries the result that it has.
"""

from __future__ import annotations

from typing import Any

from graphrt._runs import open_run, reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.driving import adrive, drive, opened
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.run_once import Present
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER
from graphrt.errors._codes.threads import ONLY_IF_NEW_WITHOUT_THREAD
from graphrt.stores.protocol import Labels


def run(
    config: RunConfig,
    given: Any,
    thread: str | None,
    *,
    abandon: bool = False,
    only_if_new: bool = False,
    labels: Labels | None = None,
) -> RunResult[Any]:
    """Run the graph on an input; see `Runtime.run`.

    Args:
        thread: None makes an id if there is a store, and runs without a thread if there is none.
        abandon: Give up what the thread left undone.
        only_if_new: Run nothing if the thread exists, and return the result that it has.
    """
    if only_if_new:
        try:
            begun = _begin_new(config, given, thread, labels, abandon=abandon)
        except Present as found:
            return found.result
        return drive(begun)
    return drive(open_run.begin(config, given, thread, listen=False, watch=None, abandon=abandon, labels=labels))


async def arun(
    config: RunConfig,
    given: Any,
    thread: str | None,
    *,
    abandon: bool = False,
    only_if_new: bool = False,
    labels: Labels | None = None,
) -> RunResult[Any]:
    """Run the graph on an input, on the running event loop; the arguments are those of `run`."""

    def begin() -> ActiveRun:
        """Open the run; on a worker thread if the store may block."""
        if only_if_new:
            return _begin_new(config, given, thread, labels, abandon=abandon)
        return open_run.begin(config, given, thread, listen=False, watch=None, abandon=abandon, labels=labels)

    try:
        begun = await opened(config.store, begin)
    except Present as found:
        return found.result
    return await adrive(begun)


def _begin_new(config: RunConfig, given: Any, thread: str | None, labels: Labels | None, *, abandon: bool) -> ActiveRun:
    """Open a run on a new thread, for `only_if_new`.

    Raises:
        Present: The thread exists; carries its result.
        InputError: No thread is named, *abandon* is set too, or the last run of the thread has no result.
        ConflictError: A living owner drives the thread.
    """
    if abandon:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument="only_if_new=True, which runs nothing on a thread that exists,",
            other="abandon=True",
            superfluous="one of the two",
            thread=thread,
            where=config.plan.place(),
        )
    if thread is None:
        raise ONLY_IF_NEW_WITHOUT_THREAD(where=config.plan.place())
    return open_run.begin(config, given, thread, listen=False, watch=None, only_if_new=True, labels=labels)


def resume(config: RunConfig, thread: str, answers: Any, answer: Any) -> RunResult[Any]:
    """Answer the interrupts (questions) of a paused thread and continue it; see `Runtime.resume`.

    Args:
        answers: Answers by interrupt id, or the answer to the only question; UNSET without any.
        answer: The answer to the only question; UNSET without one.
    """
    return drive(reopen_run.resumed(config, thread, answers, answer))


async def aresume(config: RunConfig, thread: str, answers: Any, answer: Any) -> RunResult[Any]:
    """Answer the interrupts of a thread and continue it on the running event loop; see `resume`."""
    return await adrive(await opened(config.store, lambda: reopen_run.resumed(config, thread, answers, answer)))


def retry(config: RunConfig, thread: str) -> RunResult[Any]:
    """Continue a thread that failed, was cancelled or lost its owner; see `Runtime.retry`."""
    return drive(reopen_run.retried(config, thread))


async def aretry(config: RunConfig, thread: str) -> RunResult[Any]:
    """Continue a thread on the running event loop; see `retry`."""
    return await adrive(await opened(config.store, lambda: reopen_run.retried(config, thread)))
