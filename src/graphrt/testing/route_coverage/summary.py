"""The summary: which arcs of the chosen graphs were taken, which were not, and by which tests.

A nested graph is listed at its path below the graph that was chosen. A run of the nested graph on its own counts at
each of its paths, and so does a router that a test asked without a run.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

from graphrt.errors import InputError, closest, names
from graphrt.errors._codes.route_coverage import COVERAGE_OF_NO_GRAPH
from graphrt.testing.route_coverage.arcs import EXPLORED_KINDS, KINDS, Arc
from graphrt.testing.route_coverage.data import CoverageData, Explored, GraphData

TEST_FILES: Final = ("test_*.py", "*_test.py", "conftest.py")
"""Files whose graphs count only if they are chosen by name."""
_SEEN_ONLY: Final = frozenset({"goto", "interrupt", "budget"})
"""Kinds that need not be declared: once a test took one, it is listed, and an interrupt wants its answer."""


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
    """Those of *missing* that no explorer could take, though it followed every path."""

    @property
    def count(self) -> int:
        """How many arcs there are."""
        return len(self.taken) + len(self.missing)

    @property
    def percent(self) -> float:
        """How many of 100 arcs were taken; 100 for a graph without arcs."""
        return 100.0 if not self.count else 100.0 * len(self.taken) / self.count


@final
@dataclass(frozen=True)
class Summary:
    """The route coverage of some graphs."""

    graphs: tuple[GraphSummary, ...]
    not_imported: tuple[str, ...] = ()
    """Files of the targets that use `GraphBuilder`, and from which no test compiled a graph."""

    @property
    def count(self) -> int:
        """How many arcs there are."""
        return sum(graph.count for graph in self.graphs)

    @property
    def taken(self) -> int:
        """How many of them were taken."""
        return sum(len(graph.taken) for graph in self.graphs)

    @property
    def percent(self) -> float:
        """How many of 100 arcs were taken; 100 if there is none."""
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
    with _importable(root):
        return _summarised(data, targets, root)


def _summarised(data: CoverageData, targets: Sequence[str], root: Path) -> Summary:
    silent: list[str] = []
    chosen: dict[str, GraphData] = {}
    if not targets:
        for graph in data.graphs.values():
            if not Path(graph.file).is_absolute() and graph.file and not _is_test(graph.file):
                chosen[graph.key] = graph
    for target in targets:
        found = _named(data, target, root)
        if not found:
            raise _no_graph(data, target, root)
        chosen.update((graph.key, graph) for graph in found)
        silent += [file for file in _silent(data, target, root) if file not in silent]
    nested = {key for graph in chosen.values() for key in graph.nested.values() if key != graph.key}
    tops = [graph for graph in chosen.values() if graph.key not in nested]
    tops.sort(key=lambda graph: (graph.name, graph.file, graph.line))
    return Summary(tuple(_summaries(data, tops)), tuple(silent))


def _no_graph(data: CoverageData, target: str, root: Path) -> InputError:
    known = sorted({graph.name for graph in data.graphs.values()})
    guess = closest(target, known)
    advice = f"Did you mean {guess!r}?" if guess else "Name a package, a module, a file, module:variable or a graph."
    if _is_test(target.partition("::")[0]) or (root / target).is_dir():
        advice += " Tests to run are named before --graphrt-cov, which takes the next word as its target."
    return COVERAGE_OF_NO_GRAPH(
        wanted=target,
        graphs=f"graphs {names(known)}" if known else "no graph was compiled",
        advice=advice,
    )


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
    above = top
    for at in range(len(path) + 1):
        # What a run of the graph above took at the rest of the path.
        for arc, contexts in data.hits.get((above.key, "/".join(path[at:])), {}).items():
            hits.setdefault(arc, set()).update(contexts)
        if at < len(path):
            above = data.graphs[above.nested[path[at]]]
    wanted = dict.fromkeys(graph.arcs)
    for arc in sorted(hits, key=_order):
        if arc.kind in _SEEN_ONLY:
            wanted[arc] = None
            if arc.kind == "interrupt":
                wanted[Arc("resume", arc.source)] = None
    in_order = sorted(wanted, key=_order)
    missing = tuple(arc for arc in in_order if arc not in hits)
    explored = _explored(data, top, path)
    possible = frozenset(missing) & explored.taken if explored else frozenset[Arc]()
    searched = (arc for arc in missing if arc.kind in EXPLORED_KINDS and arc not in possible)
    return GraphSummary(
        "/".join((title, *path)),
        graph,
        "/".join(path),
        {arc: tuple(sorted(hits[arc])) for arc in in_order if arc in hits},
        missing,
        possible,
        frozenset(searched) if explored and explored.complete else frozenset(),
    )


def _explored(data: CoverageData, top: GraphData, path: tuple[str, ...]) -> Explored | None:
    """Return what explorers took at *path* below *top*, in explorations of any graph on the way there."""
    found: Explored | None = None
    above = top
    for at in range(len(path) + 1):
        one = data.explored.get((above.key, "/".join(path[at:])))
        if one is not None:
            found = found or Explored()
            found.merge(one)
        if at < len(path):
            above = data.graphs[above.nested[path[at]]]
    return found


def _order(arc: Arc) -> int:
    return KINDS.index(arc.kind)


# -- targets -----------------------------------------------------------------------------------------------------


def _named(data: CoverageData, target: str, root: Path) -> list[GraphData]:
    """Return the graphs that *target* names, as whatever it can be."""
    everything = list(data.graphs.values())
    module, _, variable = target.partition(":")
    if variable and not Path(target).exists():
        return _of_variable(everything, module, variable, root)
    named = [graph for graph in everything if graph.name == target]
    if named:
        return named
    for place in _places(target, root):
        found = [graph for graph in everything if graph.file and _below((root / graph.file), place)]
        if found:
            return [graph for graph in found if place.is_file() or not _is_test(graph.file)] or found
    return _of_module(everything, target)


def _of_module(everything: Iterable[GraphData], module: str) -> list[GraphData]:
    """Return the graphs of a module or package that cannot be imported here: of a `src` layout, or another machine."""
    parts = tuple(module.split("."))
    named = [
        (graph, Path(graph.file).with_suffix("").parts)
        for graph in everything
        if graph.file and not _is_test(graph.file)
    ]
    return [graph for graph, path in named if any(path[at : at + len(parts)] == parts for at in range(len(path)))]


def _silent(data: CoverageData, target: str, root: Path) -> Iterator[str]:
    """Yield the files of a package or folder that use `GraphBuilder`, and that no graph of *data* comes from."""
    known = {(root / graph.file).resolve() for graph in data.graphs.values() if graph.file}
    for place in _places(target, root):
        for file in sorted(place.rglob("*.py")) if place.is_dir() else ():
            if file not in known and not _is_test(file.name) and "GraphBuilder(" in _text(file):
                yield file.relative_to(root).as_posix() if root in file.parents else str(file)
        return


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


@contextmanager
def _importable(root: Path) -> Generator[None]:
    """Let modules below *root* be found, as the tests that ran there found them."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))


def _of_variable(everything: Iterable[GraphData], module: str, variable: str, root: Path) -> list[GraphData]:
    from graphrt.testing.route_coverage.units import Unit

    try:
        value: Any = getattr(import_module(module), variable, None)
    except ImportError:
        return []
    if not hasattr(value, "topology"):
        return []
    wanted = Unit(value)
    same = [graph for graph in everything if graph.key.endswith(f"|{wanted.signature}") and graph.name == value.name]
    # Two packages may have graphs that look alike.
    file = Path(wanted.description["file"])
    return [graph for graph in same if (root / graph.file).resolve() == file.resolve()] or same


def _places(target: str, root: Path) -> Iterator[Path]:
    """Return the files and folders that *target* may mean: a path, or a module or package."""
    if (root / target).exists():
        yield (root / target).resolve()
    spec: ModuleSpec | None = None
    with suppress(ImportError, ValueError, AttributeError):
        spec = find_spec(target)
    if spec is not None:
        if spec.submodule_search_locations:
            yield from (Path(place).resolve() for place in spec.submodule_search_locations)
        elif spec.origin:
            yield Path(spec.origin).resolve()


def _below(file: Path, place: Path) -> bool:
    file = file.resolve()
    return file == place or place in file.parents


def _is_test(file: str) -> bool:
    return any(fnmatch(Path(file).name, pattern) for pattern in TEST_FILES)
