"""The arcs of a graph that the paths took, determined as in route coverage, and those that no path took."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final
from weakref import WeakKeyDictionary

from graphrt.commands import Send
from graphrt.graph import CompiledGraph, observe
from graphrt.testing.exploring._values import short
from graphrt.testing.exploring.routes._judging import slip
from graphrt.testing.route_coverage.arcs import EXPLORED_KINDS, Arc, branches, shown
from graphrt.testing.route_coverage.collecting import Collector, paused, tell_explored
from graphrt.testing.route_coverage.data import load
from graphrt.testing.route_coverage.units import Unit

Graph = CompiledGraph[Any, Any, Any]


@final
class Taken:
    """Arcs that the paths of one exploration took, by the path of the nested graph."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        self._graph = graph
        self._folder = folder
        self._collector = Collector(folder)
        self.defaults: dict[str, dict[str, None]] = {}
        """Maps the source of a router to the labels that only `default=` took."""
        self.slips: list[tuple[str, str, str]] = []
        """Labels of the current path that only `default=` took, as bugs."""
        self._keys = {Unit(inner).key for _, inner in _all(graph, "")}
        self._routers: WeakKeyDictionary[Graph, dict[tuple[str, int], tuple[str, list[str]]]] = WeakKeyDictionary()
        self._free: dict[str, dict[Arc, None]] = {}

    # -- what an observer of graphs is called with ---------------------------------------------------------------

    def compiled(self, graph: Graph, /) -> None:
        self._collector.compiled(graph)

    def routed(self, graph: Graph, source: str, branch: int, value: Any, /) -> None:
        self._collector.routed(graph, source, branch, value)
        known = self._known(graph).get((source, branch))
        if known is None:
            return
        otherwise, declared = known
        labels: list[Any] = list(value) if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownArgumentType]
        for label in labels:
            if isinstance(label, Send) or shown(label) in declared:
                continue
            self.defaults.setdefault(source, {})[short(shown(label))] = None
            meant = slip(label, declared, graph.nodes, otherwise)
            if meant is not None:
                text = (
                    f"The router of {source!r} returned {label!r}, which only default= takes: to {otherwise!r}. "
                    f"It is close to {meant}."
                )
                self.slips.append(("swallowed-label", f"{source} {label}", text))

    def _known(self, graph: Graph) -> dict[tuple[str, int], tuple[str, list[str]]]:
        """Return the conditional edges with a default route in an explored graph: its target, and the other labels."""
        defaults = self._routers.get(graph)
        if defaults is None:
            defaults = self._routers[graph] = {}
            for place, edges in branches(graph.topology()).items() if Unit(graph).key in self._keys else ():
                labels = [shown(edge["label"]) for edge in edges if not edge.get("default")]
                defaults.update((place, (edge["to"], labels)) for edge in edges if edge.get("default"))
        return defaults

    def sink(self, graph: Graph, /) -> Any:
        return self._collector.sink(graph)

    # -- what the search asks ------------------------------------------------------------------------------------

    def add(self, path: str, arcs: Iterable[Arc]) -> None:
        """Add *arcs* that a node without a function took; *path* is that of its graph."""
        self._free.setdefault(path, {}).update(dict.fromkeys(arcs))

    def arcs(self) -> dict[str, tuple[dict[Arc, None], list[Arc]]]:
        """Return, by path, the arcs that were taken there, and the other possible arcs."""
        self._collector.flush()
        hits = load(self._folder).hits
        arcs_by_path: dict[str, tuple[dict[Arc, None], list[Arc]]] = {}
        key = Unit(self._graph).key
        for path, graph in _all(self._graph, ""):
            seen = {**dict.fromkeys(hits.get((key, path), {})), **self._free.get(path, {})}
            wanted = [arc for arc in Unit(graph).data.arcs if arc.kind in EXPLORED_KINDS]
            arcs_by_path[path] = (
                {arc: None for arc in wanted if arc in seen},
                [arc for arc in wanted if arc not in seen],
            )
        return arcs_by_path

    def tell(self, *, complete: bool) -> None:
        """Report the possible arcs to the route coverage of this test run, if it is measured."""
        taken = {path: arcs for path, (arcs, _) in self.arcs().items()}
        tell_explored(self._graph, taken, complete=complete)


@contextmanager
def taking(graph: Graph) -> Generator[Taken]:
    """Observe the graphs that are compiled and run in the block, which the route coverage of the test run ignores."""
    with TemporaryDirectory(prefix="graphrt-routes-") as folder, paused():
        taken = Taken(graph, Path(folder))
        stop = observe(taken)
        try:
            yield taken
        finally:
            stop()


def _all(graph: Graph, above: str) -> Iterator[tuple[str, Graph]]:
    yield above, graph
    for name, nested in graph.nested.items():
        yield from _all(nested, f"{above}/{name}" if above else name)


def said(arcs: Iterable[Arc], path: str) -> list[str]:
    """Return *arcs* as text, with the path of their graph."""
    return [f"{path}: {arc}" if path else str(arc) for arc in arcs]
