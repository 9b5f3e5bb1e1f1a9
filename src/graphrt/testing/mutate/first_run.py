"""The run without a mutant: finds the tests, the target graphs, their mutants, and the arcs that each test takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any, final

from graphrt.errors import closest, count, names
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.route_coverage import FIRST_RUN_FAILED, TARGET_WITHOUT_GRAPH
from graphrt.testing.mutate.installing import FIXTURE
from graphrt.testing.mutate.operators import OPERATORS, Mutation, mutations
from graphrt.testing.mutate.pytest_runs import PytestResult, PytestRuns
from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.data import CoverageData, GraphData, load
from graphrt.testing.route_coverage.targets import no_graph

SHOWN = 10
"""Maximum number of failures that a message lists."""


@final
@dataclass(frozen=True)
class Candidate:
    """A mutation of one graph, with the tests that can notice it."""

    graph: GraphData
    title: str
    """The graph's name, or the path of a nested graph."""
    mutation: Mutation
    tests: tuple[str, ...]
    """Tests that took one of its arcs, the nearest first: those that took the fewest arcs of the graph."""
    taken: tuple[Arc, ...]
    """The arcs of the mutation that tests took."""
    refused: tuple[str, ...]
    """Codes of the problems for which `compile()` refuses the mutant; empty if it compiles."""

    @property
    def id(self) -> str:
        """A text that names the mutant, for `--only`."""
        return f"{self.graph.name}/{self.mutation.id}"


@final
@dataclass
class FirstRun:
    """The result of the run without a mutant."""

    result: PytestResult
    targets: Sequence[str]
    seed: int
    graphs: dict[str, GraphData] = field(default_factory=dict[str, GraphData])
    topologies: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    refused: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict[tuple[str, str], tuple[str, ...]])
    hits: dict[str, dict[Arc, set[str]]] = field(default_factory=dict[str, dict[Arc, set[str]]])
    """Maps the key of a graph to its arcs, and these to the tests that took them at any path."""
    answers: dict[tuple[str, str, int], set[str]] = field(default_factory=dict[tuple[str, str, int], set[str]])
    """Maps graph key, source and number of a conditional edge to its router's kinds of answers: `sent`, `labelled`."""
    fixtures: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Maps tests to the fixtures that they need."""
    titles: dict[str, str] = field(default_factory=dict[str, str])
    """Keys of the graphs to mutate, in order, with their titles."""

    @property
    def tests(self) -> list[str]:
        """The tests, in the order in which they ran."""
        return list(self.result.tests)

    def files(self) -> set[str]:
        """Return the files that have tests, as absolute paths."""
        return {self.file_of(test) for test in self.tests}

    def file_of(self, test: str) -> str:
        """Return the absolute path of the file of *test*."""
        return str((self.result.root or Path()) / test.partition("::")[0])

    def candidates(
        self, only: Sequence[str], skip: Sequence[str], max_mutants: int | None
    ) -> tuple[list[Candidate], int]:
        """Return the mutants that match the patterns, at most *max_mutants*, and the number left out by that limit.

        Raises:
            InputError: A pattern of *only* matches no mutant.
        """
        everything = [candidate for key in self.titles for candidate in self._of_graph(key)]
        for pattern in only:
            if not any(_matches(candidate, pattern) for candidate in everything):
                raise UNKNOWN_NAME_IN_ARGUMENT(
                    argument="--only=",
                    name=pattern,
                    what="mutant",
                    known_names=OPERATORS,
                    guess=closest(pattern, [candidate.id for candidate in everything]),
                )
        pool = [
            candidate
            for candidate in everything
            if (not only or any(_matches(candidate, pattern) for pattern in only))
            and not any(_matches(candidate, pattern) for pattern in skip)
        ]
        if max_mutants is None or max_mutants >= len(pool):
            return pool, 0
        chosen = sorted(Random(self.seed).sample(range(len(pool)), max_mutants))  # noqa: S311 - a sample, not a secret
        return [pool[number] for number in chosen], len(pool) - max_mutants

    def _of_graph(self, key: str) -> Iterator[Candidate]:
        graph, hits = self.graphs[key], self.hits.get(key, {})
        breadth: dict[str, int] = {}
        for contexts in hits.values():
            for context in contexts:
                breadth[context] = breadth.get(context, 0) + 1
        for mutation in mutations(self.topologies[key], seed=self.seed):
            if mutation.branch is not None and self.answers.get((key, *mutation.branch)) == {"sent"}:
                continue  # a Send goes to its node, even against the routes
            arcs = [arc for arc in mutation.arcs if arc in hits]
            if not mutation.arcs:
                arcs = [arc for arc in hits if arc.kind == "node"]
            contexts = {context for arc in arcs for context in hits[arc]}
            nearest_first = sorted(contexts, key=lambda context: (breadth[context], context))
            yield Candidate(
                graph,
                self.titles[key],
                mutation,
                tuple(dict.fromkeys(test for context in nearest_first for test in self._tests_of(context))),
                tuple(arcs) if mutation.arcs else (),
                self.refused.get((key, mutation.id), ()),
            )

    def _tests_of(self, context: str) -> Iterable[str]:
        """Return the tests of *context*: a test, those that share a fixture, or all below a folder or file."""
        if context in self.result.tests:
            return (context,)
        scope, _, fixture = context.rpartition(FIXTURE) if FIXTURE in context else (context, "", "")
        below = [test for test in self.tests if test.startswith((f"{scope}::", f"{scope}/"))] if scope else self.tests
        return [test for test in below if fixture in self.fixtures.get(test, ())] or below or self.tests


def _matches(candidate: Candidate, pattern: str) -> bool:
    texts = (candidate.id, candidate.mutation.id, candidate.mutation.operator)
    return pattern in texts or any(fnmatchcase(text, pattern) for text in texts)


def first_run(runs: PytestRuns, folder: Path, targets: Sequence[str], seed: int) -> FirstRun:
    """Run all tests once, without a mutant.

    Raises:
        InputError: pytest did not come to its end, tests fail or are missing, or a target names no graph.
    """
    job = {"targets": list(targets), "seed": seed, "root": str(Path.cwd()), "mutation": None}
    result = runs.run(folder, job, first=True, timeout_s=None)
    _refuse(result)
    for line in result.told:
        if "modules" in line:
            runs.preload(line["modules"])
    run = FirstRun(result, targets, seed)
    data = load(folder / "arcs")
    run.graphs = data.graphs
    keys = _take_told(run, data)
    _take_hits(run, data)
    for key in dict.fromkeys(keys):
        _title(run, key, run.graphs[key].name)
    if not any(run.hits.get(key) for key in run.titles):
        graphs = sorted({run.graphs[key].name for key in keys})
        raise TARGET_WITHOUT_GRAPH(
            problem=f"No test runs {names(graphs)}, or asks for a route.",
            graphs=f"tests that ran: {len(run.tests)}",
            advice="Name the tests of this graph after --, or name another graph.",
        )
    return run


def _take_told(run: FirstRun, data: CoverageData) -> list[str]:
    """Process the reports of the processes; return the keys of the target graphs.

    Raises:
        InputError: A target names no graph.
    """
    keys: list[str] = []
    for line in run.result.told:
        if "graph" in line:
            run.topologies[line["graph"]] = line["topology"]
        elif "target" in line:
            if not line["keys"]:
                raise no_graph(data, line["target"], line["problem"])
            keys += line["keys"]
        elif "refused" in line:
            key, mutation, codes = line["refused"]
            run.refused[key, mutation] = tuple(codes)
        elif "fixtures" in line:
            test, *needed = line["fixtures"]
            run.fixtures[test] = frozenset(needed)
        elif "answered" in line:
            kind, key, source, branch = line["answered"]
            run.answers.setdefault((key, source, branch), set()).add(kind)
    return keys


def _refuse(result: PytestResult) -> None:
    if not result.finished:
        code = result.exit_code or 0
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise FIRST_RUN_FAILED(
            problem=f"did not come to its end ({ended})", output=f"the last lines of its output:\n{result.tail()}"
        )
    broken = {**result.uncollected, **{ended.test: ended.error for ended in result.failed}}
    if broken:
        listed = [f"\n    {test}: {error}" for test, error in list(broken.items())[:SHOWN]]
        more = f"\n    and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
        raise FIRST_RUN_FAILED(
            problem=f"has {count(len(broken), 'test')} that cannot pass", output="".join(listed).strip() + more
        )
    if not result.tests:
        raise FIRST_RUN_FAILED(
            problem=f"ran no tests (exit code {result.exit_code})",
            output=f"the last lines of its output:\n{result.tail(5)}",
        )


def _take_hits(run: FirstRun, data: CoverageData) -> None:
    for (root, path), arcs in data.hits.items():
        key: str | None = root
        for name in path.split("/") if path else ():
            key = run.graphs[key].nested.get(name) if key in run.graphs else None
        if key is not None:
            mine = run.hits.setdefault(key, {})
            for arc, contexts in arcs.items():
                mine.setdefault(arc, set()).update(contexts)


def _title(run: FirstRun, key: str, title: str) -> None:
    """Add the graph with its nested graphs, which are mutated wherever they are used."""
    if key in run.titles:
        return
    run.titles[key] = title
    for node, child in run.graphs[key].nested.items():
        if child in run.graphs:
            _title(run, child, f"{title}/{node}")
