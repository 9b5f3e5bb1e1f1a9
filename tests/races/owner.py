"""A process that owns several threads at once: a worker thread drives each to the point where its graph stays.

`python -m tests.races.owner URL LEDGER`, with the jobs as a line of JSON on the standard input; then a line for each
group of jobs that is released. Reports arrivals, and the end of each run.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

from tests.races import holding

from graphrt import GraphrtError, Runtime
from graphrt.stores import open_store

_lock = threading.Lock()


def tell(**what: Any) -> None:
    with _lock:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def drive(store: Any, ledger: Path, job: dict[str, Any], go: threading.Event) -> None:
    deps = holding.Deps(ledger, lambda thread: tell(arrived=thread), go)
    runtime = Runtime(holding.graph(job["kind"]), store=store, deps=deps, lease_s=job["lease_s"])
    thread = job["thread"]
    try:
        if job["face"] == "sync":
            ended = runtime.run(holding.INPUT, thread=thread).status
        else:
            ended = asyncio.run(runtime.arun(holding.INPUT, thread=thread)).status
    except GraphrtError as error:
        cause = error.__cause__
        ended = f"{type(error).__name__} {error.code}"
        if isinstance(cause, GraphrtError):  # a node that started an effect reports first
            ended += f" after {type(cause).__name__} {cause.code}"
    except BaseException as error:  # noqa: BLE001 - reported, and checked by the test
        ended = repr(error)
    tell(thread=thread, ended=ended)


def main() -> None:
    store = open_store(sys.argv[1])
    jobs = json.loads(sys.stdin.readline())
    groups = {job["group"]: threading.Event() for job in jobs}
    workers = [
        threading.Thread(target=drive, args=(store, Path(sys.argv[2]), job, groups[job["group"]]), daemon=True)
        for job in jobs
    ]
    for worker in workers:
        worker.start()
    for line in sys.stdin:
        groups[line.strip()].set()
    for worker in workers:
        worker.join()
    store.close()


if __name__ == "__main__":
    main()
