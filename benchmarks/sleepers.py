"""The cost of sleeping threads for an idle worker: `python -m benchmarks.sleepers`.

A worker polls a store without threads, and one with sleeping threads, alternately. The benchmark measures processor
time instead of wall time, because other programs affect it little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.stores import open_store
from graphrt.workers import Worker


class State(BaseModel):
    woke: bool = False


def nap(state: State, ctx: Context) -> dict[str, Any]:
    """Sleep for a long time."""
    ctx.sleep(days=30)
    return {"woke": True}


def graph() -> Any:
    """Return a graph whose only node sleeps."""
    g = GraphBuilder(State, name="sleepers")
    g.add_node("nap", nap)
    g.add_edge(START, "nap")
    g.add_edge("nap", END)
    return g.compile()


def processor_s(url: str, seconds: float) -> float:
    """Return the processor time of an idle worker over *seconds*, of this process alone."""
    with open_store(url) as store, Worker(Runtime(graph(), store=store)):
        time.sleep(0.5)  # the first poll, and lazily created objects
        before = time.process_time()
        time.sleep(seconds)
        return time.process_time() - before


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", action="append", help="two stores, one of which is filled; by default SQLite files")
    parser.add_argument("--threads", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        urls = given.url or [f"sqlite:///{folder}/{name}.db" for name in ("empty", "full")]
        with Runtime(graph(), store=urls[1]) as runtime:
            for number in range(given.threads):
                runtime.run({}, thread=f"t{number}")
        found: list[list[float]] = [[], []]
        for _ in range(given.rounds):
            for times, url in zip(found, urls, strict=True):
                times.append(processor_s(url, given.seconds))
        print(f"load of the machine: {', '.join(f'{one:.1f}' for one in os.getloadavg())}")
        for what, times in zip(("no threads", f"{given.threads:,} sleeping threads"), found, strict=True):
            print(
                f"{what}: median {statistics.median(times) * 1e3:.0f} ms, least {min(times) * 1e3:.0f} ms of processor"
                f" time in {given.seconds:g} s"
            )


if __name__ == "__main__":
    main()
