"""The summary: the arcs of the chosen graphs that were taken, by which tests, and those that were not.

A nested graph is listed at its path below the graph that was chosen. A run of the nested graph on its own counts at
each of its paths, and so does a router that a test called without a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from graphrt.testing.route_coverage.arcs import EXPLORED_KINDS, KINDS, Arc
from graphrt.testing.route_coverage.data import CoverageData, GraphData
from graphrt.testing.route_coverage.targets import importable, is_test, named, no_graph, without_graphs

_HINT: Final = " Tests to run are named before --graphrt-cov, which takes the next word as its target."
_SEEN_ONLY: Final = frozenset({"goto", "interrupt", "budget"})
"""Kinds that need not be declared: one is listed once a test took it, and an interrupt requires its answer."""


@final
@dataclass(frozen=True)
class GraphSummary:
    """One graph at one path."""

    title: str
    """Name of the graph, and the path of nodes that lead to it: `research/summarise`."""
    graph: GraphData
    path: str
    """The path without the name; empty for a graph that was chosen itself."""
    taken: dict[Arc, tuple[str, ...]]
    """Arcs that were taken, in declared order, with the tests that took them."""
    missing: tuple[Arc, ...]
    """Arcs that no test took."""
    possible: frozenset[Arc] = frozenset()
    """Those of *missing* that an explorer took."""
    impossible: frozenset[Arc] = frozenset()
    """The *missing* arcs that no explorer could take, though it followed every path."""

    @property
    def count(self) -> int:
        """Number of arcs."""
        return len(self.taken) + len(self.missing)

    @property
    def percent(self) -> float:
        """Percentage of arcs taken; 100 for a graph without arcs."""
        return 100.0 if not self.count else 100.0 * len(self.taken) / self.count


@final
@dataclass(frozen=True)
class Summary:
    """The route coverage of some graphs."""

    graphs: tuple[GraphSummary, ...]
    not_imported: tuple[str, ...] = ()
    """Files of the targets that use `GraphBuilder` but from which no test compiled a graph."""

    @property
    def count(self) -> int:
        """Number of arcs."""
        return sum(graph.count for graph in self.graphs)

    @property
    def taken(self) -> int:
        """Number of arcs taken."""
        return sum(len(graph.taken) for graph in self.graphs)

    @property
    def percent(self) -> float:
        """Percentage of arcs taken; 100 if there are none."""
        return 100.0 if not self.count else 100.0 * self.taken / self.count


def summarise(data: CoverageData, targets: Sequence[str] = (), *, root: Path | None = None) -> Summary:
    """Return the route coverage of the graphs that *targets* name.

    Args:
        data: What was collected.
        targets: Packages, modules, files, folders, `module:variable` or names of graphs. Without any, every graph that
            was made below *root* outside of test files.
        root: The folder that relative files are below; by default the working directory.

    Raises:
        InputError: A target names no graph.
    """
    root = (root or Path.cwd()).resolve()
    with importable(root):
        return _summarised(data, targets, root)


def _summarised(data: CoverageData, targets: Sequence[str], root: Path) -> Summary:
    silent: list[str] = []
    chosen: dict[str, GraphData] = {}
    for target in targets or [""]:
        graphs, problem = named(data, target, root)
        if not graphs and target:
            is_of_tests = is_test(target.partition("::")[0]) or (root / target).is_dir()
            raise no_graph(data, target, problem, hint=_HINT if is_of_tests else "")
        chosen.update((graph.key, graph) for graph in graphs)
        silent += [file for file in without_graphs(data, target, root) if target and file not in silent]
    nested = {key for graph in chosen.values() for key in graph.nested.values() if key != graph.key}
    tops = [graph for graph in chosen.values() if graph.key not in nested]
    tops.sort(key=lambda graph: (graph.name, graph.file, graph.line))
    return Summary(tuple(_summaries(data, tops)), tuple(silent))


def _summaries(data: CoverageData, tops: list[GraphData]) -> Iterator[GraphSummary]:
    same = {top.name for top in tops if sum(other.name == top.name for other in tops) > 1}
    for top in tops:
        title = f"{top.name} ({top.file}:{top.line})" if top.name in same else top.name
        for path, graph in _locations(data, top, ()):
            yield _summary(data, title, top, path, graph)


def _locations(
    data: CoverageData, graph: GraphData, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], GraphData]]:
    yield path, graph
    for node, key in graph.nested.items():
        if key in data.graphs:
            yield from _locations(data, data.graphs[key], (*path, node))


def _summary(data: CoverageData, title: str, top: GraphData, path: tuple[str, ...], graph: GraphData) -> GraphSummary:
    hits: dict[Arc, set[str]] = {}
    places = list(_places(data, top, path))
    for place in places:
        for arc, contexts in data.hits.get(place, {}).items():
            hits.setdefault(arc, set()).update(contexts)
    wanted = dict.fromkeys(graph.arcs)
    for arc in sorted(hits, key=_order):
        if arc.kind in _SEEN_ONLY:
            wanted[arc] = None
            if arc.kind == "interrupt":
                wanted[Arc("resume", arc.source)] = None
    in_order = sorted(wanted, key=_order)
    missing = tuple(arc for arc in in_order if arc not in hits)
    explored = [data.explored[place] for place in places if place in data.explored]
    possible = frozenset(missing).intersection(arc for result in explored for arc in result.taken)
    searched = (arc for arc in missing if arc.kind in EXPLORED_KINDS and arc not in possible)
    return GraphSummary(
        "/".join((title, *path)),
        graph,
        "/".join(path),
        {arc: tuple(sorted(hits[arc])) for arc in in_order if arc in hits},
        missing,
        possible,
        frozenset(searched) if explored and all(result.complete for result in explored) else frozenset(),
    )


def _places(data: CoverageData, top: GraphData, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the keys of the arcs at *path* below *top* in the data: each graph on the path, with the rest of it."""
    for at, name in enumerate(path):
        yield top.key, "/".join(path[at:])
        top = data.graphs[top.nested[name]]
    yield top.key, ""


def _order(arc: Arc) -> int:
    return KINDS.index(arc.kind)
