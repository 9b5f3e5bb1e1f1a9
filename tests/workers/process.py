"""A worker in a process of its own: `python -m tests.workers.process STORE-URL [lease seconds]`. No test."""

from __future__ import annotations

import sys

from graphrt import Runtime
from graphrt.workers import Worker

from .graphs import asking, chatty, deadly, fan, loop, receiving, remote, sleeping, slow


def main(url: str, lease_s: float) -> None:
    graphs = (loop(), fan(), deadly(), asking(), receiving(), sleeping(), slow(), remote(), chatty())
    runtimes = [Runtime(graph, store=url, lease_s=lease_s) for graph in graphs]
    worker = Worker(*runtimes, concurrency=4, poll_s=0.05, max_tries=3, queues=["gpu"])
    print("working", flush=True)  # noqa: T201 - the test waits for it
    worker.serve(grace_s=2.0)
    print(f"stopped {worker.health().ended}", flush=True)  # noqa: T201
    for runtime in runtimes:
        runtime.close()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 5.0)
