"""Driving an opened run to its end and closing it, whatever happens: sync and async, watched or not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from graphrt._drivers.scope import Scope
from graphrt._drivers.sync import SyncDriver
from graphrt._runs.flight import Run
from graphrt._runs.results import RunResult
from graphrt.stores.protocol import Store


async def opened(store: Store | None, make: Callable[[], Run]) -> Run:
    """The run that *make* opens, on a worker thread if the store may block."""
    if store is None or not store.blocking:
        return make()
    from graphrt._drivers.patience import on_worker

    made: list[Run] = []
    try:
        await on_worker(lambda: made.append(make()))
    except BaseException as error:
        for run in made:
            run.broke(error)
        raise
    return made[0]


def drive(run: Run) -> RunResult[Any]:
    """Drive *run* in the caller."""
    driver = SyncDriver(run.scope, run.engine.limits)
    try:
        if run.scope.holds:
            with run.scope.held():
                status = driver.drive(run.flow())
        else:
            status = driver.drive(run.flow())
    except BaseException as error:
        run.broke(error)
        raise
    return run.ended(status)


async def adrive(run: Run) -> RunResult[Any]:
    """Drive *run* on the running loop."""
    from graphrt._drivers.aio import AioDriver

    driver = AioDriver(run.scope, run.engine.limits)
    try:
        if run.scope.holds:
            with run.scope.held():
                status = await driver.drive(run.flow())
        else:
            status = await driver.drive(run.flow())
    except BaseException as error:
        await _abroke(run, error)
        raise
    if not run.scope.blocking:
        return run.ended(status)
    from graphrt._drivers.patience import on_worker

    return await on_worker(run.ended, status)


async def _abroke(run: Run, error: BaseException) -> None:
    from graphrt._drivers.patience import unhurried

    await unhurried(run.scope, run.broke, error)


def iterate(run: Run, box: list[RunResult[Any]], *, entries: bool) -> Generator[Any, None, None]:
    """Drive *run* and yield what it publishes; leaving early cancels it.

    Args:
        box: Gets the result, if the run came to one.
    """
    driver = SyncDriver(run.scope, run.engine.limits)
    try:
        items = driver.iterate(run.flow(), entries=entries)
        status = yield from _held(run.scope, items) if run.scope.holds else items
    except BaseException as error:
        run.broke(error)
        raise
    box.append(run.ended(status))


def _held(scope: Scope, items: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    """*items*, each of them made while *scope* is held: the reader shares our context variables in between."""
    try:
        while True:
            with scope.held():
                try:
                    item = next(items)
                except StopIteration as stop:
                    return stop.value
            yield item
    finally:
        with scope.held():
            items.close()
