"""Runs in each process of a test run: records graphs and arcs, or replaces a graph by its mutant.

`FirstRun` does the former, `MutantRun` the latter. The environment names the job, so that subprocesses of tests take
part. Each process appends lines of JSON to its own file, which `pytest_runs` reads, so a killed process loses nothing
that it wrote.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final

from graphrt.commands import Send
from graphrt.errors import DefinitionError, describe_error
from graphrt.events import Entry
from graphrt.graph import CompiledGraph, observe, substitute
from graphrt.testing.mutate.mutants import mutant
from graphrt.testing.mutate.operators import Mutation, mutations
from graphrt.testing.route_coverage import collecting
from graphrt.testing.route_coverage.collecting import Collector
from graphrt.testing.route_coverage.data import load
from graphrt.testing.route_coverage.targets import named
from graphrt.testing.route_coverage.units import Unit

JOB: Final = "GRAPHRT_MUTATE_JOB"
"""Environment variable with the file that describes the job of this test run."""
START: Final = "graphrt.testing.mutate.installing:start"
"""Value of GRAPHRT_OBSERVER in a test run."""

FIXTURE: Final = "@"
"""Separates the scope and the name of a shared fixture, used in place of a test's name."""

Graph = CompiledGraph[Any, Any, Any]
_STARTED: Final[list[FirstRun | MutantRun]] = []
"""The jobs of this process; empty without a job."""


def start() -> None:
    """Join the test run that the environment names, if any; a second call does nothing."""
    file = os.environ.get(JOB)
    if file and not _STARTED:
        job = json.loads(Path(file).read_text(encoding="utf-8"))
        _STARTED.append(MutantRun(job) if job["mutation"] else FirstRun(job))
    collecting.start()  # the observer of `pytest --graphrt-cov`, whose environment variable this one uses


def job() -> FirstRun | MutantRun | None:
    """Return the jobs of this process."""
    return _STARTED[0] if _STARTED else None


def write(folder: Path, line: Mapping[str, Any]) -> None:
    """Append *line* to the file of this process."""
    # Opened for each write: a child of os.fork() gets its own file, and tests for unclosed files find none.
    with (folder / f"told.{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


@final
class FirstRun:
    """An observer of the run without a mutant: collects arcs, and describes graphs."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.tests: frozenset[str] | None = None
        self.ignored: frozenset[str] = frozenset()
        self.folder: Path = Path(job["folder"])
        self._root = Path(job["root"])
        self._targets: list[str] = job["targets"]
        self._seed: int = job["seed"]
        self._collector = Collector(self.folder / "arcs")
        self._graphs: dict[str, Graph] = {}
        self._trying = False
        self._answers: set[tuple[str, str, str, int]] = set()
        """The kinds of routers' answers, in the form of the file."""
        observe(self)
        atexit.register(self.flush)

    def compiled(self, graph: Graph, /) -> None:
        """Describe *graph* if it is new."""
        if self._trying:
            return
        unit = Unit(graph)
        self._collector.compiled(graph)
        if unit.key in self._graphs:
            return
        self._graphs[unit.key] = graph
        write(self.folder, {"graph": unit.key, "topology": graph.topology()})

    def routed(self, graph: Graph, source: str, branch: int, value: Any, /) -> None:
        """Pass an answer on to the collector, and record whether routers answer by labels."""
        if self._trying:
            return
        self._collector.routed(graph, source, branch, value)
        answers: Sequence[Any] = value if isinstance(value, list | tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
        for kind in {"sent" if isinstance(answer, Send) else "labelled" for answer in answers}:  # pyright: ignore[reportUnknownVariableType]
            unit = self._collector.unit_at(graph, ())
            answered = (kind, unit.key if unit is not None else "", source, branch)
            if answered not in self._answers:
                self._answers.add(answered)
                write(self.folder, {"answered": answered})

    def sink(self, graph: Graph, /) -> Callable[[Entry], Any]:
        """Return the collector's sink."""
        return self._collector.sink(graph)

    def flush(self) -> None:
        """Write the pending lines."""
        self._collector.flush()

    def name_graphs(self) -> None:
        """After the tests, report the graphs that the targets name, and which of their mutants `compile()` refuses.

        Only the main pytest process does this, where modules are found as the tests find them.
        """
        self.flush()
        data = load(self.folder / "arcs")

        def module(name: str) -> Any:
            imported = import_module(name)
            data.merge(load(self.folder / "arcs"))  # the import may have compiled graphs
            return imported

        chosen: set[str] = set()
        for target in self._targets or [""]:
            try:
                graphs, problem = named(data, target, self._root, load=module)
            except Exception as error:  # noqa: BLE001 - packages on the way to a module may raise anything
                graphs, problem = [], f"{target!r} cannot be looked up: {describe_error(error)}"
            keys = [graph.key for graph in graphs]
            chosen.update(keys)
            write(self.folder, {"target": target, "keys": keys, "problem": problem})
        self._trying = True
        self._try({key: self._graphs[key] for key in sorted(chosen & self._graphs.keys())})

    def _try(self, graphs: dict[str, Graph]) -> None:
        """Compile the mutants of *graphs* and of their nested graphs, and write which are refused."""
        for key, graph in graphs.items():
            for mutation in mutations(graph.topology(), seed=self._seed):
                try:
                    mutant(graph, mutation)
                except DefinitionError as error:
                    codes = sorted({problem.code for problem in error.problems})
                    write(self.folder, {"refused": [key, mutation.id, codes]})
            self._try({nested: child for child in graph.nested.values() if (nested := Unit(child).key) not in graphs})


@final
class MutantRun:
    """Replaces one graph by its mutant."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.tests: frozenset[str] | None = frozenset(job["tests"])
        self.ignored: frozenset[str] = frozenset(job["ignored"])
        """Files whose tests are not run."""
        self.folder: Path = Path(job["folder"])
        self._key: str = job["key"]
        self._mutation = Mutation.of(job["mutation"])
        self._made: set[int] = set()
        """Processes that have reported creating the mutant; a child of os.fork() reports separately."""
        self._acted: set[int] = set()
        substitute(self._replaced)

    def _replaced(self, graph: Graph) -> Graph | None:
        if not self._key.startswith(f"{graph.name}|") or Unit(graph).key != self._key:
            return None
        try:
            mutated = mutant(graph, self._mutation, self._act)
        except (LookupError, ValueError):
            return None  # a graph of the same function with other policies, to which this mutation does not apply
        if os.getpid() not in self._made:
            self._made.add(os.getpid())
            write(self.folder, {"made": True})
        return mutated

    def _act(self) -> None:
        if os.getpid() not in self._acted:
            self._acted.add(os.getpid())
            write(self.folder, {"acted": True})
