"""A process that races: it opens stores once, waits at the barrier with others, calls one verb, and tells how that went.

`python -m tests.races.worker BARRIER`, where BARRIER is the number of an inherited pipe; orders come as lines of JSON on
the standard input, answers go to the standard output. What the runs do is in `work`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.races import work

from graphrt import GraphrtError, Runtime
from graphrt.stores import SqliteStore, open_store


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def hold() -> None:
    """Stay in the middle of paying until the others have been heard of."""
    tell(holding=True)
    sys.stdin.readline()


def race(runtime: Runtime[Any], order: dict[str, Any], barrier: int) -> dict[str, Any]:
    verb, arguments, options = work.call(runtime, order["verb"], order["thread"])
    tell(ready=True)
    os.read(barrier, 1)
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
    except BaseException as error:  # noqa: BLE001 - told, and judged by the test
        found.update(error=type(error).__name__, code="", told=repr(error))
    return {**found, "took_s": time.monotonic() - began, "pid": os.getpid()}


def be_careless() -> None:
    """From now on this process takes what others have, and writes it: what the tests have to find out."""
    from graphrt.stores.sqlite import _writing

    SqliteStore._unheld = lambda self, row, thread: None  # type: ignore[method-assign]
    for name in ("_TAKE", "_STEP", "_TURN"):
        text = getattr(_writing, name).replace("seq = ? AND epoch = ? AND lease > ?", "? + ? + ? IS NOT NULL")
        setattr(_writing, name, text.replace("seq = ? AND epoch = ?", "? + ? IS NOT NULL"))


def main() -> None:
    barrier = int(sys.argv[1])
    graph = work.graph()
    stores: dict[str, Any] = {}
    tell(up=os.getpid())
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("careless"):
            be_careless()
        if order["url"] not in stores:
            stores[order["url"]] = open_store(order["url"])
        deps = work.Deps(Path(order["ledger"]), hold=hold if order["hold"] else None)
        runtime = Runtime(graph, store=stores[order["url"]], deps=deps)
        tell(**race(runtime, order, barrier))
    for store in stores.values():
        store.close()


if __name__ == "__main__":
    main()
