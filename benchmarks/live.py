"""The latency of a live item from a node in one process to a follower in another, and the cost of a followed step.

    python -m benchmarks.live                                    # a SQLite file
    python -m benchmarks.live --url postgresql://localhost/x     # a server

The latency is the difference of two readings of the same clock. Costs are processor time of the driving process, for a
chain of steps that emit one value each: minimum and median of several interleaved rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import typing_extensions as te

from graphrt import END, Context, GraphBuilder, Limits, Runtime
from graphrt.runtime import LiveItem
from graphrt.stores.filters import ThreadFilter

STEPS = 400
ROUNDS = 7


class State(te.TypedDict, total=False):
    """A counter."""

    n: int
    most: int
    pause_s: float


def graph() -> Any:
    """A loop whose steps emit the time."""

    def step(state: Any, ctx: Context) -> dict[str, Any]:
        time.sleep(state["pause_s"])
        ctx.emit(time.time())
        return {"n": state["n"] + 1}

    def again(state: Any) -> bool:
        return bool(state["n"] < state["most"])

    g: Any = GraphBuilder(State, name="ticks")
    g.add_node("step", step)
    g.set_entry("step")
    g.add_conditional_edges("step", again, {True: "step", False: END})
    return g.compile(limits=Limits(max_steps=10_000, max_visits=None))


def drive(url: str, thread: str, queue: Any) -> None:
    """Drive a thread, and return the processor time."""
    with Runtime(graph(), store=url) as runtime:
        runtime.store.query(ThreadFilter(), limit=1)  # type: ignore[union-attr]  # there is a store
        began = time.process_time()
        runtime.drive(thread)
        queue.put(time.process_time() - began)


def one(url: str, *, pause_s: float, steps: int, live: bool) -> tuple[list[float], float]:
    """Delays in seconds of the items of a run in another process, and processor seconds of a step."""
    spawn = multiprocessing.get_context("spawn")
    queue: Any = spawn.Queue()
    with Runtime(graph(), store=url) as runtime:
        thread = runtime.start({"n": 0, "most": steps, "pause_s": pause_s})
        reader = runtime.follow(thread, live=live)
        driver = spawn.Process(target=drive, args=(url, thread, queue))
        driver.start()
        delays = [time.time() - one.item for one in reader if isinstance(one, LiveItem) and one.mode == "custom"]
        took = float(queue.get())
        driver.join()
    return delays, took / steps


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="a store; by default a new SQLite file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{Path(folder) / 'live.db'}"
        delays, _ = one(url, pause_s=0.02, steps=100, live=True)
        delays.sort()
        print(f"{len(delays)} items, one in 20 ms: median {statistics.median(delays) * 1_000:.0f} ms, "
              f"95 % within {delays[int(len(delays) * 0.95)] * 1_000:.0f} ms")  # fmt: skip
        costs: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for live in (False, True):
                costs[live].append(one(url, pause_s=0.0, steps=STEPS, live=live)[1] * 1e6)
        for live, name in ((False, "followed for its entries"), (True, "followed live")):
            least, middle = min(costs[live]), statistics.median(costs[live])
            print(f"a step {name}: {least:.0f} us of processor time at least, median {middle:.0f} us")


if __name__ == "__main__":
    main()
