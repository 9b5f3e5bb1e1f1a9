"""Driving an opened run to its end, sync or async, and closing it whatever happens.

Each function here makes a driver, and then calls `ActiveRun.ended` with the status that the flow returned, or
`ActiveRun.broke` with its error. Both close the run. So `ended` stands after the `try` block: what it raises is not a
reason to close the run again.

The context variables of a run (`RunServices.held`) tell code that has no reference to the run which models and which
sleep to use. They are set only if there are any (`RunServices.holds`), by models= or sleep= of the runtime or of a run
around this one. Most runs have neither, and then nothing is set and reset around a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrt._drivers.sync import SyncDriver
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult
from graphrt.stores.protocol import Store


async def opened(store: Store | None, make: Callable[[], ActiveRun]) -> ActiveRun:
    """Return the run that *make* opens, on a worker thread if the store may block. The async verbs open runs by this.

    If the awaiting task is cancelled meanwhile, the run is closed, since its caller will never get it.
    """
    if store is None or not store.blocking:
        return make()
    from graphrt._drivers.blocking_calls import in_executor

    made: list[ActiveRun] = []  # 0 or 1 run; filled on the worker thread, also if the awaiting task is cancelled
    try:
        await in_executor(lambda: made.append(make()))
    except BaseException as error:
        for run in made:
            run.broke(error)
        raise
    return made[0]


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
    """Drive *run* on the running event loop, and return its result. `arun` and its kin end here."""
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
    if not run.services.blocking:  # `ended` may store the last commits, which blocks if the store does
        return run.ended(status)
    from graphrt._drivers.blocking_calls import in_executor

    return await in_executor(run.ended, status)  # waits for its end even if this task is cancelled


async def abroke(run: ActiveRun, error: BaseException) -> None:
    """Close *run* after *error*; on a worker thread if the store may block."""
    from graphrt._drivers.blocking_calls import call_store

    await call_store(run.services, run.broke, error)
