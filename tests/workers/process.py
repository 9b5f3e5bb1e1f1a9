"""A worker in a separate process, which `process_support` starts. No test."""

from __future__ import annotations

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
