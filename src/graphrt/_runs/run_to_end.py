"""The verbs that drive a run to its end and return its result: `run`, `resume`, `retry` and their async twins.

`Runtime` and `CompiledGraph` document them. Each verb first opens the run, which claims the thread and checks the
caller's arguments, and then drives it in the caller's thread or on the running event loop. `opened` opens a run on a
worker thread if the store may block.

*given* is the unchecked input. `labels` are the title and tags for the thread, or None. `Present` is raised instead of
opening a run if the thread exists and no run is needed; it carries the current result.

`drive` and `adrive` create a driver, and then call `ActiveRun.ended` with the status that the flow returned, or
`ActiveRun.broke` with its error. Both close the run. So `ended` is called after the `try` block: an error that it
raises must not close the run again.

The context variables of a run (`RunServices.held`) give code without a reference to the run access to its models and
its sleep. They are set only if models= or sleep= was given to the runtime or to an enclosing run (`RunServices.holds`).
Most runs have neither, so nothing is set or reset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrt._drivers.sync import SyncDriver
from graphrt._runs import reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.if_exists import IfExists, Present, check_if_exists
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt.stores.protocol import Store
from graphrt.stores.values import Labels

__tracebackhide__ = True  # pytest shows the line of the caller, not those of this module


def run(
    config: RunConfig, input_: Any, thread: str | None, *, if_exists: IfExists = "update", labels: Labels | None = None
) -> RunResult[Any]:
    """Run the graph on an input; see `Runtime.run`.

    Args:
        thread: None generates an id if there is a store, and runs without a thread if there is none.
        if_exists: What to do with the input if the thread exists, unchecked.
    """
    check_if_exists(config, if_exists, input_, thread)
    try:
        active_run = reopen_run.on_input(config, input_, thread, labels, if_exists=if_exists)
    except Present as present:
        return present.result
    return drive(active_run)


async def arun(
    config: RunConfig, input_: Any, thread: str | None, *, if_exists: IfExists = "update", labels: Labels | None = None
) -> RunResult[Any]:
    """Run the graph on an input, on the running event loop; the arguments are those of `run`."""
    check_if_exists(config, if_exists, input_, thread)
    try:
        active_run = await opened(
            config.store, lambda: reopen_run.on_input(config, input_, thread, labels, if_exists=if_exists)
        )
    except Present as present:
        return present.result
    return await adrive(active_run)


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


async def opened(store: Store | None, make: Callable[[], ActiveRun]) -> ActiveRun:
    """Return the run that *make* opens, on a worker thread if the store may block. Used by the async verbs.

    If the awaiting task is cancelled meanwhile, the run is closed, since its caller will never receive it.
    """
    if store is None or not store.blocking:
        return make()
    from graphrt._drivers.blocking_calls import in_executor

    runs: list[ActiveRun] = []  # 0 or 1 run; filled on the worker thread, even if the awaiting task is cancelled
    try:
        await in_executor(lambda: runs.append(make()))
    except BaseException as error:
        for run in runs:
            run.broke(error)
        raise
    return runs[0]


def drive(run: ActiveRun) -> RunResult[Any]:
    """Drive *run* in the caller's thread, and return its result. `run`, `resume` and `retry` end here."""
    driver = SyncDriver(run.services, run.engine.limits)
    try:
        if run.services.holds:
            with run.services.held():
                status = driver.drive(run.flow())
        else:
            status = driver.drive(run.flow())
    except BaseException as error:
        run.broke(error)
        raise
    return run.ended(status)


async def adrive(run: ActiveRun) -> RunResult[Any]:
    """Drive *run* on the running event loop, and return its result. `arun` and similar methods end here."""
    from graphrt._drivers.aio import AioDriver

    driver = AioDriver(run.services, run.engine.limits)
    try:
        if run.services.holds:
            with run.services.held():
                status = await driver.drive(run.flow())
        else:
            status = await driver.drive(run.flow())
    except BaseException as error:
        await abroke(run, error)
        raise
    return await aended(run, status)


async def aended(run: ActiveRun, status: Any) -> RunResult[Any]:
    """Close *run*, which did not fail, and return its result; on a worker thread if the store may block."""
    if not run.services.blocking:  # `ended` may store the last commits, and blocks if the store does
        return run.ended(status)
    from graphrt._drivers.blocking_calls import in_executor

    return await in_executor(run.ended, status)  # waits for it to finish even if this task is cancelled


async def abroke(run: ActiveRun, error: BaseException) -> None:
    """Close *run* after *error*; on a worker thread if the store may block."""
    from graphrt._drivers.blocking_calls import call_store

    await call_store(run.services, run.broke, error)
