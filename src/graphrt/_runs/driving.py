"""Driving an opened run to its end, sync or async, and closing it whatever happens.

The context variables of a run (`RunServices.held`) are set only if it has models= or sleep=: most runs have neither,
and then nothing is set and reset around them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from graphrt._drivers.run_services import RunServices
from graphrt._drivers.sync import SyncDriver
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult
from graphrt.stores.protocol import Store


async def opened(store: Store | None, make: Callable[[], ActiveRun]) -> ActiveRun:
    """Return the run that *make* opens, on a worker thread if the store may block.

    If the awaiting task is cancelled meanwhile, the run is closed, since its caller will never get it.
    """
    if store is None or not store.blocking:
        return make()
    from graphrt._drivers.blocking_calls import in_executor

    made: list[ActiveRun] = []
    try:
        await in_executor(lambda: made.append(make()))
    except BaseException as error:
        for run in made:
            run.broke(error)
        raise
    return made[0]


def drive(run: ActiveRun) -> RunResult[Any]:
    """Drive *run* in the caller, and return its result."""
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
    """Drive *run* on the running event loop, and return its result."""
    from graphrt._drivers.aio import AioDriver

    driver = AioDriver(run.services, run.engine.limits)
    try:
        if run.services.holds:
            with run.services.held():
                status = await driver.drive(run.flow())
        else:
            status = await driver.drive(run.flow())
    except BaseException as error:
        await _abroke(run, error)
        raise
    if not run.services.blocking:
        return run.ended(status)
    from graphrt._drivers.blocking_calls import in_executor

    return await in_executor(run.ended, status)


async def _abroke(run: ActiveRun, error: BaseException) -> None:
    """Close *run* after *error*; on a worker thread if the store may block."""
    from graphrt._drivers.blocking_calls import call_store

    await call_store(run.services, run.broke, error)


def iterate(run: ActiveRun, box: list[RunResult[Any]], *, entries: bool) -> Generator[Any, None, None]:
    """Drive *run* in the caller and yield what it publishes. Leaving early cancels it.

    Args:
        box: Receives the result; stays empty if the run failed or was left.
        entries: Whether to yield journal entries too.
    """
    driver = SyncDriver(run.services, run.engine.limits)
    try:
        items = driver.iterate(run.flow(), entries=entries)
        status = yield from _held(run.services, items) if run.services.holds else items
    except BaseException as error:
        run.broke(error)
        raise
    box.append(run.ended(status))


def _held(services: RunServices, items: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    """Yield *items*, each made while the context variables of the run are set.

    A generator runs in the context of its reader. So they are reset before an item is handed over (decision 0039).
    """
    try:
        while True:
            with services.held():
                try:
                    item = next(items)
                except StopIteration as stop:
                    return stop.value
            yield item
    finally:
        with services.held():
            items.close()
