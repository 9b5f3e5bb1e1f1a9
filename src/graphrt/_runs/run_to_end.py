"""The verbs that drive a run to its end and return its result: `run`, `resume`, `retry` and their async twins.

`Runtime` and `CompiledGraph` document them. Each verb first opens the run, which claims the thread and checks what the
caller gave, and then drives it in the caller, or on the running event loop. `opened` opens a run on a worker thread if
the store may block.

*given* is the input, unchecked. `labels` are title and tags for the thread, None without any. `Present` is raised in
place of opening a run if the thread exists and nothing is to run; it carries the result that it has.
"""

from __future__ import annotations

from typing import Any

from graphrt._runs import reopen_run
from graphrt._runs.driving import adrive, drive, opened
from graphrt._runs.if_exists import IfExists, Present, check_if_exists
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt.stores.values import Labels


def run(
    config: RunConfig, given: Any, thread: str | None, *, if_exists: IfExists = "update", labels: Labels | None = None
) -> RunResult[Any]:
    """Run the graph on an input; see `Runtime.run`.

    Args:
        thread: None makes an id if there is a store, and runs without a thread if there is none.
        if_exists: What becomes of the input if the thread exists, unchecked.
    """
    check_if_exists(config, if_exists, given, thread)
    try:
        begun = reopen_run.on_input(config, given, thread, labels, if_exists=if_exists)
    except Present as found:
        return found.result
    return drive(begun)


async def arun(
    config: RunConfig, given: Any, thread: str | None, *, if_exists: IfExists = "update", labels: Labels | None = None
) -> RunResult[Any]:
    """Run the graph on an input, on the running event loop; the arguments are those of `run`."""
    check_if_exists(config, if_exists, given, thread)
    try:
        begun = await opened(
            config.store, lambda: reopen_run.on_input(config, given, thread, labels, if_exists=if_exists)
        )
    except Present as found:
        return found.result
    return await adrive(begun)


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
