"""One node on a queue, run by another process: from `start` to the end of the run, and the cost of an idle worker.

    python -m benchmarks.queues                                     # SQLite, 40 runs
    python -m benchmarks.queues --store postgresql://... --runs 100

One process drives the thread and another serves the queue, both polling every 20 ms, while this one starts runs and
waits. A run has one superstep, and so three hand-overs: to the driver, to the queue, and back to the driver. The same
graph without a queue, driven by the same workers, is measured alternately; the difference is the cost of the queue.
Idle processor time is that of the worker of the queue while nothing waits.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypedDict

ROOT = Path(__file__).parents[1]
POLL_S = 0.02
IDLE_S = 10.0


class State(TypedDict):
    n: int


def graph(name: str, queue: str | None) -> Any:
    from graphrt import END, START, GraphBuilder

    g: Any = GraphBuilder(State, name=name)
    g.add_node("work", lambda state: {"n": state["n"] + 1}, queue=queue)
    return g.add_edge(START, "work").add_edge("work", END).compile()


def runtimes(store: str) -> list[Any]:
    from graphrt import Runtime

    return [Runtime(graph("near", None), store=store), Runtime(graph("far", "q"), store=store)]


def worker(store: str, *, serves: bool) -> None:
    """Work in this process. A line on stdin starts measuring processor time; the next line ends and prints it."""
    from graphrt.workers import Worker

    with Worker(*runtimes(store), poll_s=POLL_S, queues=["q"] if serves else []):
        print("ready", flush=True)
        while sys.stdin.readline() == "time\n":
            began = time.process_time()
            time.sleep(IDLE_S)
            print(time.process_time() - began, flush=True)


def process(store: str, role: str) -> subprocess.Popen[str]:
    made = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.queues", "--store", store, "--role", role],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


def measure(store: str, runs: int) -> None:
    near, far = runtimes(store)
    processes = [process(store, role) for role in ("driver", "queue")]
    took: dict[str, list[float]] = {"near": [], "far": []}
    for number in range(runs + 3):
        for name, runtime in (("near", near), ("far", far)):
            began = time.perf_counter()
            thread = runtime.start({"n": number})
            runtime.wait(thread, timeout_s=60)
            if number >= 3:  # the first runs open connections and import modules
                took[name].append((time.perf_counter() - began) * 1_000)
    for name, found in took.items():
        print(f"{name}: median {statistics.median(found):.1f} ms, least {min(found):.1f}, most {max(found):.1f}")
    print(f"difference of the medians: {statistics.median(took['far']) - statistics.median(took['near']):.1f} ms")
    for role, made in zip(("driver", "queue"), processes, strict=True):
        assert made.stdin is not None
        assert made.stdout is not None
        made.stdin.write("time\n")
        made.stdin.flush()
        print(f"idle {role}: {float(made.stdout.readline()) / IDLE_S:.2%} of a processor")
        made.stdin.close()
        made.wait()
    for runtime in (near, far):
        runtime.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--role")
    options = parser.parse_args()
    if options.role:
        worker(options.store, serves=options.role == "queue")
    elif options.store:
        measure(options.store, options.runs)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(f"sqlite:///{folder}/runs.db", options.runs)


if __name__ == "__main__":
    main()
