"""A process that forks hosts: `python -m tests.workers.chaos.nursery KIND STORE SYSTEM SEEDS LEASE CLOCK PLANT`.

Not a test. Everything is imported once: a new host works at once, and kills hit it while it works. For each line that
it reads it forks one host and prints its pid; it ends with its input.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from typing import Any

from graphrt import Runtime
from graphrt.stores import open_store
from graphrt.workers import Worker

from . import planted
from .graphs import graph


def host(kind: str, store: str, system: str, seeds: list[int], lease_s: float, clock_s: float) -> None:
    """Work until a signal."""
    logging.disable(logging.CRITICAL)  # the storm writes its own log

    def clock() -> float:
        return time.time() + clock_s

    with open_store(store) as opened:
        runtimes: list[Any] = [Runtime(graph(seed), store=opened, lease_s=lease_s, clock=clock) for seed in seeds]
        if kind == "dbos":
            from graphrt.backends.dbos import DbosHost

            DbosHost(
                *runtimes, system_database_url=system, worker_concurrency=4, dead_after_s=3.0, max_tries=1000
            ).serve(grace_s=1.0)
        else:
            Worker(*runtimes, concurrency=4, poll_s=0.05, max_tries=1000).serve(grace_s=1.0)
        for runtime in runtimes:
            runtime.close()


def main(kind: str, store: str, system: str, seeds: list[int], lease_s: float, clock_s: float, plant: str) -> None:
    if kind == "dbos":
        import graphrt.backends.dbos  # noqa: F401
    for seed in seeds:
        graph(seed)  # built once per process
    if plant:
        getattr(planted, plant)()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended hosts leave no zombies
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = 1
            try:
                host(kind, store, system, seeds, lease_s, clock_s)
                status = 0
            finally:
                os._exit(status)
        print(child, flush=True)  # noqa: T201 - the storm reads it


if __name__ == "__main__":
    main(*sys.argv[1:4], json.loads(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]), sys.argv[7])
