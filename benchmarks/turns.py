"""Alternating durable steps of several libraries in one process: some steps of each, then the next steps of each.

    python -m benchmarks.turns                            # SQLite; 100, 1,000 and 5,000 steps; turns of 10 steps
    python -m benchmarks.turns --turn 1                   # one step of each: every step finds the caches emptied
    python -m benchmarks.turns --store postgres --steps 100,1000
    python -m benchmarks.turns --only handwritten,graphrt,graphrt_plain

The speed of a disk changes within seconds, and a step is mostly disk: only adjacent steps are comparable. Each library
drives its own thread of control; after each turn its node hands over to the next library, and exactly one works at any
time. In turns of one step, a step follows one of another library, whose garbage has emptied the processor's caches of
everybody's code: LangGraph copies its whole state. In turns of ten, nine of ten steps follow one of their own, as in a
program that uses one library. A step is timed from the node's return to the call of the next node: fold, router,
commit, and whatever else the library does in between. The final states are asserted.

A library that is not installed is left out, and a line says so (`pip install -r benchmarks/requirements.txt`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import server
from benchmarks.catalogue import LIBRARIES
from benchmarks.compare import ASK_PRAGMAS, GUARDS, version
from benchmarks.report import number
from benchmarks.work.common import POSTGRES, PRAGMAS, grown, letter

WINDOW = 100
"""Steps before a length over which the median is computed."""
KEY = b"any 32 bytes or more: 7F2a-91Bc-0dEx"
"""Key of the audited runs."""
NAMES = {
    "handwritten": "hand-written",
    "graphrt": "graphrt",
    "graphrt_plain": "graphrt, chain=False",
    "graphrt_keyed": "graphrt, audited with a key",
    "graphrt_file": "the same, with a file",
    "langgraph": "LangGraph",
}


class Contender:
    """One library, which runs step by step.

    Args:
        run: Drives n steps with the given node, and returns the final state. turn: Number of steps before it waits for
        the others.
    """

    def __init__(self, name: str, run: Callable[[Callable[[Any], Any], int], Any], steps: int, turn: int) -> None:
        self.name = name
        self._turn, self._left = turn, 0
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.failure: BaseException | None = None
        self.state: Any = None
        self._go, self._ready = threading.Semaphore(0), threading.Semaphore(0)
        self._since: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._work, args=(run, steps), daemon=True)
        self._thread.start()

    def _work(self, run: Callable[[Callable[[Any], Any], int], Any], steps: int) -> None:
        try:
            self.state = run(self._node, steps)
        except BaseException as error:  # noqa: BLE001 - reported at the end
            self.failure = error
        finally:
            self._ready.release()

    def _node(self, state: Any) -> Any:
        if self._since is not None:
            self.wall.append(time.perf_counter() - self._since[0])
            self.cpu.append(time.process_time() - self._since[1])
        if not self._left:
            self._ready.release()
            self._go.acquire()
            self._left = self._turn
        self._left -= 1
        update = {"messages": [letter(state["count"])], "count": 1}
        self._since = time.perf_counter(), time.process_time()
        return update

    def wait(self) -> None:
        """Wait until it is before a step."""
        self._ready.acquire()

    def step(self) -> None:
        """Let it make the steps of one turn, and wait until it is before the next one or has ended."""
        self._go.release()
        self._ready.acquire()

    def end(self) -> None:
        self._thread.join(60)
        if self.failure is not None:
            raise self.failure


def handwritten(store: str, folder: Path) -> Callable[..., Any]:
    from benchmarks.work import handwritten_store as work
    from benchmarks.work.handwritten import talk_edges

    def run(node: Any, steps: int) -> Any:
        nodes = {"ask": node, "reply": node}
        if store == "sqlite":
            db = work.connect(folder / "bare.db", new=True)
            keep = lambda seq, _, update: work.insert(db, [(seq, update)])  # noqa: E731
        else:
            server_db = work.empty_postgres()

            def keep(seq: int, _: str, update: Any) -> None:
                server_db.execute("INSERT INTO bare VALUES (%s, %s, %s)", ("t", seq, json.dumps(update)))
                server_db.commit()

        return work.run(work.empty(), nodes, talk_edges(steps), "ask", keep)

    return run


def graphrt(
    store: str, folder: Path, *, name: str = "chained", chain: bool | None = None, audit: Any = None
) -> Callable[..., Any]:
    from benchmarks.work import graphrt_store as work
    from benchmarks.work.graphrt_ import Talk, loop_graph, router
    from graphrt import Runtime

    def run(node: Any, steps: int) -> Any:
        url = f"sqlite:///{folder}/{name}.db" if store == "sqlite" else work.postgres_url(f"turns_{name}_{os.getpid()}")
        with Runtime(
            loop_graph(Talk, steps, node, node, router(steps)), store=url, chain=chain, audit=audit
        ) as runtime:
            return runtime.run(work.empty(), thread=f"t{steps}").state

    return run


def audited(store: str, folder: Path, *, file: bool) -> Callable[..., Any]:
    from graphrt.audit import AuditLog

    name = "file" if file else "keyed"
    return graphrt(store, folder, name=name, audit=AuditLog(folder / "logs" if file else None, key=KEY))


def langgraph(store: str, folder: Path) -> Callable[..., Any]:
    from benchmarks.work import langgraph_store as work
    from benchmarks.work.langgraph_ import Talk, loop_graph, router

    def run(node: Any, steps: int) -> Any:
        graph = loop_graph(Talk, node, node, router(steps))
        if store == "sqlite":
            with work.opened(folder / "langgraph.db") as saver:
                return work.run(graph, steps, saver)
        saver, _context = work.empty_postgres()
        return work.run(graph, steps, saver)

    return run


def makers(store: str, folder: Path) -> dict[str, Callable[[], Callable[..., Any]]]:
    return {
        "handwritten": lambda: handwritten(store, folder),
        "graphrt": lambda: graphrt(store, folder),
        "graphrt_plain": lambda: graphrt(store, folder, name="plain", chain=False),
        "graphrt_keyed": lambda: audited(store, folder, file=False),
        "graphrt_file": lambda: audited(store, folder, file=True),
        "langgraph": lambda: langgraph(store, folder),
    }


def race(names: list[str], store: str, steps: int, turn: int, folder: Path) -> list[Contender]:
    made = makers(store, folder)
    contenders = [Contender(name, made[name](), steps, turn) for name in names]
    for contender in contenders:
        contender.wait()
    order = Random(steps)
    for _ in range(0, steps, turn):
        # Random, because a library that runs after a memory-intensive one finds its data evicted from the caches.
        for contender in order.sample(contenders, len(contenders)):
            contender.step()
    for contender in contenders:
        contender.end()
        seen, expected = grown(contender.state), {"count": steps, "messages": steps, "ordered": True}
        if seen != expected:
            raise AssertionError(f"{contender.name} ended with {seen}, expected {expected}")
    return contenders


def ratio(mine: list[float], theirs: list[float]) -> float:
    """The median over the steps of mine / theirs."""
    return statistics.median(a / b for a, b in zip(mine, theirs, strict=False))


def rows(contenders: list[Contender], steps: int) -> list[str]:
    """A row for each library: at the end of the run, and over the whole run."""
    yardstick, lines = contenders[0], []
    for contender in contenders:
        late, bare = contender.wall[-WINDOW:], yardstick.wall[-WINDOW:]
        cells = [
            NAMES[contender.name],
            f"{steps:,}",
            number(statistics.median(late) * 1e6),
            f"{ratio(late, bare):.2f}",
            number(statistics.median(contender.wall) * 1e6),
            f"{ratio(contender.wall, yardstick.wall):.2f}",
            f"{sum(contender.wall) / sum(yardstick.wall):.2f}",
            number(statistics.median(contender.cpu) * 1e6),
            f"{ratio(contender.cpu, yardstick.cpu):.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def prepare(store: str) -> str:
    """Set the variables for the children of `compare.py`; return a note about them."""
    import sqlite3
    import subprocess
    import sys

    os.environ.update(GUARDS)
    if store == "postgres":
        found = server.url()
        if found is None:
            raise SystemExit("No PostgreSQL server: no initdb, and none in GRAPHRT_TEST_POSTGRES.")
        os.environ[POSTGRES] = found
        return "PostgreSQL, set as it comes."
    asked = subprocess.run([sys.executable, "-c", ASK_PRAGMAS], capture_output=True, text=True, check=True)
    os.environ[PRAGMAS] = asked.stdout.strip()
    chosen = ", ".join(f"{name} {value}" for name, value in json.loads(asked.stdout).items())
    return f"SQLite {sqlite3.sqlite_version}: {chosen}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--steps", default="100,1000,5000")
    parser.add_argument("--turn", type=int, default=10, help="steps that a library makes before the next one's turn")
    parser.add_argument("--only", default="handwritten,graphrt,graphrt_plain,langgraph", help="the yardstick first")
    options = parser.parse_args()
    asked = options.only.split(",")
    names = [name for name in asked if not LIBRARIES.get(name, ("",))[0] or version(name)]
    about = prepare(options.store)
    shown = ", ".join(f"{name} {version(name)}" for name in names if name in LIBRARIES and version(name))
    print(f"# Durable steps in turn\n\n{about} {shown}\n")
    if len(names) < len(asked):
        print(f"Not installed, and left out: {', '.join(name for name in asked if name not in names)}.\n")
    print(
        f"Turns of {options.turn}. Medians; the ratios are medians over the steps. "
        f"`last {WINDOW}`: the steps right before n.\n"
    )
    heads = ["library", "n", f"µs, last {WINDOW}", "x", "µs, all", "x", "x of sums", "CPU µs", "x"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    for steps in (int(part) for part in options.steps.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            print("\n".join(rows(race(names, options.store, steps, options.turn, Path(folder)), steps)), flush=True)


if __name__ == "__main__":
    main()
