"""A process that races: it opens stores once, waits at the barrier with others, calls one verb, and reports the result.

The barrier, the orders and the reports are pipes. The work of the runs is in `work`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.races import work

from graphrt import GraphrtError, Runtime
from graphrt.stores import SqliteStore, open_store


def hold(orders: Connection, reports: Connection) -> None:
    """Stay in the middle of a payment until the others have reported."""
    reports.send({"holding": True})
    orders.recv()


def race(runtime: Runtime[Any], order: dict[str, Any], barrier: Connection, reports: Connection) -> dict[str, Any]:
    verb, arguments, options = work.call(runtime, order["verb"], order["thread"])
    reports.send({"ready": True})
    os.read(barrier.fileno(), 1)
    began = time.monotonic()
    found: dict[str, Any] = {}
    try:
        if order["face"] == "sync":
            result = getattr(runtime, verb)(*arguments, **options)
        else:
            result = asyncio.run(getattr(runtime, f"a{verb}")(*arguments, **options))
        found["status"] = result.status
    except GraphrtError as error:
        found.update(error=type(error).__name__, code=error.code, told=str(error))
    except BaseException as error:  # noqa: BLE001 - reported, and checked by the test
        found.update(error=type(error).__name__, code="", told=repr(error))
    return {**found, "took_s": time.monotonic() - began, "pid": os.getpid()}


def be_careless() -> None:
    """From now on, this process takes and writes threads of other processes, which the tests have to detect."""
    from graphrt.stores.sqlite import _writing

    SqliteStore._unheld = lambda self, row, thread: None  # type: ignore[method-assign]
    for name in ("_TAKE", "_STEP", "_TURN"):
        text = getattr(_writing, name).replace("seq = ? AND epoch = ? AND lease > ?", "? + ? + ? IS NOT NULL")
        setattr(_writing, name, text.replace("seq = ? AND epoch = ?", "? + ? IS NOT NULL"))


def received(orders: Connection) -> dict[str, Any] | None:
    """The next order, or None at the end."""
    try:
        order: dict[str, Any] = orders.recv()
    except EOFError:
        return None
    return order


def main(barrier: Connection, orders: Connection, reports: Connection) -> None:
    graph = work.graph()
    stores: dict[str, Any] = {}
    reports.send({"up": os.getpid()})
    while (order := received(orders)) is not None:
        if order.get("careless"):
            be_careless()
        if order["url"] not in stores:
            stores[order["url"]] = open_store(order["url"])
        held = functools.partial(hold, orders, reports) if order["hold"] else None
        deps = work.Deps(Path(order["ledger"]), hold=held)
        runtime = Runtime(graph, store=stores[order["url"]], deps=deps)
        reports.send(race(runtime, order, barrier, reports))
    for store in stores.values():
        store.close()
