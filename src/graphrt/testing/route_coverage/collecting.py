"""The collector: observes every graph and run of a process, and appends the arcs taken to a file of the process.

A line is written when an arc is taken for the first time in a test, so a killed process loses nothing. The
files of all processes of a test run are in one folder; `data` merges them.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, final
from uuid import uuid4
from weakref import WeakKeyDictionary

from graphrt._forks import FreshLock
from graphrt.events import Entry
from graphrt.graph import observe
from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.data import FORMAT
from graphrt.testing.route_coverage.run_sink import OpenThread, RunSink
from graphrt.testing.route_coverage.units import Graph, Unit

FOLDER: Final = "GRAPHRT_COV_FOLDER"
"""Environment variable with the folder for the files of this test run."""

_STARTED: Final[list[Collector]] = []
"""The collector of this process; empty without one."""


def start() -> None:
    """Start collecting in this process if the environment names a folder; called by the environment's observer hook."""
    folder = os.environ.get(FOLDER)
    if folder and not _STARTED:
        _STARTED.append(collector := Collector(Path(folder)))
        atexit.register(collector.flush)
        observe(collector)


def flush() -> None:
    """Write all pending lines."""
    for collector in _STARTED:
        collector.flush()


@contextmanager
def paused() -> Generator[None]:
    """Count nothing in this process while the block runs, because an explorer, not a test, runs the graphs."""
    collectors = [collector for collector in _STARTED if not collector.paused]
    for collector in collectors:
        collector.paused = True
    try:
        yield
    finally:
        for collector in collectors:
            collector.paused = False


def tell_explored(graph: Graph, taken: Mapping[str, Iterable[Arc]], *, complete: bool) -> None:
    """Write the arcs of *graph* that an explorer took, if routes are collected.

    They are separate from the arcs of tests: an explorer does not check results, so a route that it took is not tested.

    Args:
        graph: The graph that was explored.
        taken: Path of each nested graph, with "" for *graph* itself, to the arcs that some path took there.
        complete: Whether every path was followed, so that other arcs cannot be taken.
    """
    for collector in _STARTED:
        collector.explored(graph, taken, complete=complete)


@final
class Collector:
    """An observer of graphs that appends its observations to a file. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._process = os.getpid()
        self._lock = FreshLock()
        self._units: WeakKeyDictionary[Graph, Unit] = WeakKeyDictionary()
        self._told: set[str] = set()
        """Keys of the graphs that are described in the file."""
        self._seen: set[tuple[str, str, str, str]] = set()
        self._open: dict[str, dict[str, OpenThread]] = {}
        """Undecided arcs of the runs of a graph, by key of the graph and thread."""
        self._asked: list[tuple[Unit, str, list[Arc]]] = []
        """Answers of routers with their contexts, until a commit shows in which nested run they were given."""
        self.paused: bool = False
        """Whether counting is suspended."""

    # -- what an observer of graphs is called with ---------------------------------------------------------------

    def compiled(self, graph: Graph, /) -> None:
        """Describe *graph* in the file."""
        with self._lock:
            self._unit(graph)

    def routed(self, graph: Graph, source: str, branch: int, value: Any, /) -> None:
        """Keep the routes of an answer until the next commit, if there is one."""
        if self.paused:
            return
        with self._lock:
            unit = self._unit(graph)
            context = _context()
            if self._asked and self._asked[-1][1] != context:
                self.flush()
            self._asked.append((unit, context, unit.answered(source, branch, value)))

    def sink(self, graph: Graph, /) -> Callable[[Entry], Any]:
        """Return a sink for the runs of one runtime."""
        with self._lock:
            return RunSink(self, graph, self._unit(graph), self._open).take

    # -- what the sinks report -----------------------------------------------------------------------------------

    def hit(self, root: Unit, path: tuple[str, ...], arcs: Iterable[Arc]) -> None:
        """Report that the graph at *path* below *root* took *arcs*."""
        if self.paused:
            return
        context, where = _context(), "/".join(path)
        with self._lock:
            for arc in arcs:
                self._write_hit(root.key, where, arc, context)

    def committed(self, root: Unit, path: tuple[str, ...], unit: Unit) -> None:
        """Report the answers of the routers of *unit*, which has just committed a superstep at *path* below *root*."""
        if not self._asked:
            return
        with self._lock:
            rest: list[tuple[Unit, str, list[Arc]]] = []
            for asked in self._asked:
                if asked[0].key == unit.key:
                    for arc in asked[2]:
                        self._write_hit(root.key, "/".join(path), arc, asked[1])
                else:
                    rest.append(asked)
            self._asked = rest

    def flush(self) -> None:
        """Report answers of routers that were called outside a run, such as by `graph.route`."""
        with self._lock:
            asked, self._asked = self._asked, []
            for unit, context, arcs in asked:
                for arc in arcs:
                    self._write_hit(unit.key, "", arc, context)

    def unit_at(self, graph: Graph, path: tuple[str, ...]) -> Unit | None:
        """Return the nested graph of *graph* at *path*; None if there is none."""
        for name in path:
            nested = graph.nested.get(name)
            if nested is None:
                return None
            graph = nested
        with self._lock:
            return self._unit(graph)

    def explored(self, graph: Graph, taken: Mapping[str, Iterable[Arc]], *, complete: bool) -> None:
        """Write the arcs that an explorer took; see `tell_explored`."""
        with self._lock:
            key = self._unit(graph).key
            for path, arcs in taken.items():
                self._write({"explored": [key, path, list(arcs), complete]})

    # -- the file ------------------------------------------------------------------------------------------------

    def _unit(self, graph: Graph) -> Unit:
        unit = self._units.get(graph)
        if unit is None:
            unit = self._units[graph] = Unit(graph)
            self._describe(unit)
        return unit

    def _describe(self, unit: Unit) -> None:
        if unit.key in self._told:
            return
        self._told.add(unit.key)
        nested = {name: self._unit(graph).key for name, graph in unit.nested.items()}
        self._write({"graph": replace(unit.data, nested=nested).to_json()})

    def _write_hit(self, key: str, path: str, arc: Arc, context: str) -> None:
        hit = (key, path, arc.id, context)
        if hit not in self._seen:
            self._seen.add(hit)
            self._write({"hit": [key, path, arc, context]})

    def _write(self, line: dict[str, Any]) -> None:
        if self._path is None or self._process != os.getpid():  # a child of os.fork() has its own file
            self._process = os.getpid()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._path = self._folder / f"routes.{os.getpid()}.{uuid4().hex[:8]}.jsonl"
            self._append({"format": FORMAT})
        self._append(line)

    def _append(self, line: dict[str, Any]) -> None:
        # Opened for each write: there are few lines, and tests for unclosed files find none.
        with self._path.open("a", encoding="utf-8") as file:  # type: ignore[union-attr]  # `_write` has set it
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _context() -> str:
    """Return the current test, as `file::test`; empty outside pytest."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
