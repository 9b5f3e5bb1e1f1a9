"""Many threads through one worker: do its memory, descriptors, worker threads and waits stay flat?

    python -m benchmarks.soak                                           50,000 threads on a SQLite file
    python -m benchmarks.soak --threads 5000 --url postgresql://...     fewer, on PostgreSQL

Each thread sleeps briefly, starts a child and waits for it, asks a question, and waits for a signal. This process
starts threads, answers and signals; the worker is a separate process, whose figures are read from the system. At most a
few hundred threads are active at once; a thread's wait is the time from its start to its end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.workers import Retention, Worker

UNDER_WAY = 200
"""Threads that may be started before an earlier one has ended."""


class Part(BaseModel):
    n: int = 0


class Order(BaseModel):
    n: int = 0
    part: int = 0
    answer: str = ""
    paid: str = ""


def graphs() -> tuple[Any, Any]:
    """Return the graph of the children, and that of the threads."""
    parts = GraphBuilder(Part, name="part")
    parts.add_node("make", lambda state: {"n": state.n + 1})
    parts.add_sequence([START, "make", END])
    part = parts.compile()
    orders = GraphBuilder(Order, name="order")

    def rest(state: Order, ctx: Context) -> None:
        ctx.sleep(0.05)

    def child(state: Order, ctx: Context) -> dict[str, Any]:
        return {"part": ctx.wait(ctx.start(part, {"n": state.n})).n}

    def ask(state: Order, ctx: Context) -> dict[str, Any]:
        return {"answer": ctx.interrupt("Send it?")}

    def receive(state: Order, ctx: Context) -> dict[str, Any]:
        return {"paid": ctx.receive("paid")}

    for node in (rest, child, ask, receive):
        orders.add_node(node.__name__, node)
    orders.add_sequence([START, "rest", "child", "ask", "receive", END])
    return part, orders.compile()


def work(url: str) -> None:
    """Drive due threads until the process is ended. Ended threads are deleted ten minutes later, after they were read."""
    part, order = graphs()
    with Runtime(part, store=url) as one, Runtime(order, store=url) as two:
        old = Retention(older_than=600.0)
        with Worker(one, two, concurrency=8, retention=[old], retention_every_s=20.0):
            while True:
                time.sleep(60)


def figures(pid: int) -> dict[str, Any]:
    """Return the resources that the worker process holds now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return {
        "rss_mb": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "worker_threads": int(status["Threads"]),
        "processor_s": round((int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"), 1),
    }


class Crowd:
    """The active threads: it starts them, answers, signals, and records the duration of each."""

    def __init__(self, runtime: Runtime[Any, Any], count: int) -> None:
        self._runtime, self._count = runtime, count
        self._since: dict[str, float] = {}
        self._answered: set[str] = set()
        self._next = 0
        self.waits: list[float] = []
        self.wrong = 0

    def look(self) -> None:
        """Start threads up to the limit, answer open questions, and collect ended threads."""
        while len(self._since) < UNDER_WAY and self._next < self._count:
            thread = f"o-{self._next}"
            self._since[thread] = time.monotonic()
            self._runtime.start({"n": self._next}, thread=thread)
            self._runtime.signal(thread, "paid", f"receipt {self._next}")
            self._next += 1
        for open_ in self._runtime.inbox(kind="question", limit=UNDER_WAY):
            if open_.thread not in self._answered:
                self._answered.add(open_.thread)
                self._runtime.start(thread=open_.thread, answer="yes")
        for thread in list(self._since):
            state = self._runtime.state(thread) if thread in self._answered else None
            if state is not None and state.status == "completed":
                self.waits.append(time.monotonic() - self._since.pop(thread))
                self._answered.discard(thread)
                n, values = int(thread[2:]), state.values
                self.wrong += (values.part, values.answer, values.paid) != (n + 1, "yes", f"receipt {n}")


def main() -> None:
    """Run, and print a line for every tenth of the threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a store; by default a SQLite file of its own")
    parser.add_argument("--threads", type=int, default=50_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/soak.db"
        worker = multiprocessing.get_context("spawn").Process(target=work, args=(url,), daemon=True)
        worker.start()
        assert worker.pid is not None
        with Runtime(graphs()[1], store=url) as runtime:
            crowd, step = Crowd(runtime, given.threads), max(1, given.threads // 10)
            told, begun = 0, time.monotonic()
            while len(crowd.waits) < given.threads:
                crowd.look()
                while told + step <= len(crowd.waits):
                    waits = sorted(crowd.waits[told : told + step])
                    told += step
                    line = {
                        "threads": told,
                        "seconds": round(time.monotonic() - begun),
                        "wait_s": {"median": round(statistics.median(waits), 2), "most": round(waits[-1], 2)},
                        "wrong": crowd.wrong,
                        **figures(worker.pid),
                    }
                    print(json.dumps(line), flush=True)
                if not worker.is_alive():
                    raise SystemExit("the worker has died")
        worker.kill()


if __name__ == "__main__":
    main()
