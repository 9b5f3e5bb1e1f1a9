"""Many writers on one SQLite file: steps a second, the longest wait, and starved writers.

    python -m benchmarks.crowd                          # threads 1, 8 and 64; processes 1, 4 and 8; 10 seconds each
    python -m benchmarks.crowd --seconds 30 --only processes

Each writer runs its own conversation: one message of 420 bytes of JSON per step, each step durable before the next
begins. A step is timed from the node's return to the call of the next node. Threads of one process share transactions,
so the steps per transaction are counted where transactions end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.work.common import letter
from benchmarks.work.graphrt_ import Talk
from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite._database import Database

STEPS = 200
"""Steps per run; a writer makes one run after another."""


class Writer:
    """One writer: run after run, with the duration of each step in seconds."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._since: float | None = None

    def graph(self) -> Any:
        def speak(state: Any) -> Any:
            now = time.perf_counter()
            if self._since is not None:
                self.waits.append(now - self._since)
            update = {"messages": [letter(state["count"])], "count": 1}
            self._since = time.perf_counter()
            return update

        builder: Any = GraphBuilder(Talk, name="talk")
        builder.add_node("speak", speak, max_visits=None).add_edge(START, "speak")
        builder.add_conditional_edges("speak", lambda s: s["count"] < STEPS, {True: "speak", False: END})
        return builder.compile(limits=Limits(max_steps=STEPS + 10))

    def work(self, runtime: Runtime[Any], graph: Any, name: str, until: float) -> None:
        number = 0
        while time.monotonic() < until:
            number, self._since = number + 1, None
            Runtime(graph, store=runtime.store).run({"count": 0, "messages": []}, thread=f"{name}-{number}")


def told(kind: str, count: int, seconds: float, writers: list[list[float]], transactions: int | None) -> None:
    waits = sorted(wait for one in writers for wait in one)
    total = len(waits)

    def at(share: float) -> str:
        return f"{1e3 * waits[min(total - 1, int(total * share))]:.2f}"

    mean = total / len(writers)
    line = {
        kind: count,
        "steps_per_s": round(total / seconds),
        "ms": {"median": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "most": at(1.0)},
        "slowest_share": round(min(len(one) for one in writers) / mean, 2),
    }
    if transactions:
        line["steps_per_transaction"] = round(total / transactions, 1)
    print(json.dumps(line), flush=True)


def threads(count: int, seconds: float, folder: Path) -> None:
    transactions = 0
    write = Database._write

    def counting(self: Database, writes: Any) -> bool:
        nonlocal transactions
        transactions += 1
        return write(self, writes)

    Database._write = counting  # type: ignore[method-assign]  # for the life of this process
    writers = [Writer() for _ in range(count)]
    with SqliteStore(folder / f"threads{count}.db") as store:
        until = time.monotonic() + seconds
        running = [
            threading.Thread(target=one.work, args=(Runtime(one.graph(), store=store), one.graph(), f"w{at}", until))
            for at, one in enumerate(writers)
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    Database._write = write  # type: ignore[method-assign]
    told("threads", count, seconds, [one.waits for one in writers], transactions)


def process(path: Path, name: str, barrier: Any, seconds: float, answers: Any) -> None:
    writer = Writer()
    graph = writer.graph()
    with SqliteStore(path) as store, Runtime(graph, store=store) as runtime:
        barrier.wait()
        writer.work(runtime, graph, name, time.monotonic() + seconds)
    answers.put(writer.waits)


def processes(count: int, seconds: float, folder: Path) -> None:
    path = folder / f"processes{count}.db"
    SqliteStore(path).close()
    make = multiprocessing.get_context("spawn")
    barrier, answers = make.Barrier(count), make.Queue()
    running = [make.Process(target=process, args=(path, f"p{at}", barrier, seconds, answers)) for at in range(count)]
    for one in running:
        one.start()
    writers = [answers.get() for _ in running]
    for one in running:
        one.join()
    told("processes", count, seconds, writers, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", choices=["threads", "processes"])
    parser.add_argument("--folder", default=os.environ.get("GRAPHRT_BENCH_FOLDER"), help="on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        if options.only != "processes":
            for count in (1, 8, 64):
                threads(count, options.seconds, Path(made))
        if options.only != "threads":
            for count in (1, 4, 8):
                processes(count, options.seconds, Path(made))


if __name__ == "__main__":
    main()
