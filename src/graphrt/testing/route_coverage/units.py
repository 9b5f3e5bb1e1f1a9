"""`Unit`: a graph in this process, as described in the files of collectors, with its arcs by the data of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, final

from graphrt.commands import Send
from graphrt.graph import CompiledGraph
from graphrt.testing.route_coverage.arcs import DEFAULT, Arc, declared, joins, shown, signature
from graphrt.testing.route_coverage.data import GraphData

Graph = CompiledGraph[Any, Any, Any]


@final
class Unit:
    """A graph in this process, with its arcs by the data of events."""

    def __init__(self, graph: Graph) -> None:
        topology = graph.topology()
        arcs = declared(topology)
        place = graph.declared_at() or ("", 0)
        self.signature: str = signature(arcs)
        """Identifies the arcs of the graph."""
        self.key: str = f"{graph.name}|{place[0]}:{place[1]}|{self.signature}"
        """Identifies the graph in the data of all processes. Copies with other nodes have the same key."""
        self.nested: Mapping[str, Graph] = graph.nested
        self.joins: dict[tuple[str, ...], Mapping[str, Any]] = joins(topology)
        self.static: dict[str, list[Arc]] = {}
        """Static edges, by source."""
        self.routes: dict[tuple[str, int], list[Arc]] = {}
        """Routes, by source and number of the conditional edge."""
        for arc in arcs:
            if arc.kind == "edge":
                self.static.setdefault(arc.source, []).append(arc)
            elif arc.kind == "route":
                self.routes.setdefault((arc.source, arc.branch), []).append(arc)
        lines = {name: at[1] for name in graph.nodes if (at := graph.declared_at(name)) and at[0] == place[0]}
        self.data: GraphData = GraphData(
            key=self.key,
            name=graph.name,
            file=place[0],
            line=place[1],
            lines=lines,
            digest=_digest(place[0]),
            arcs=arcs,
            nested={},
        )
        """The graph as the files describe it, without the keys of nested graphs."""

    def answered(self, source: str, branch: int, value: Any) -> list[Arc]:
        """Return the routes that the answer *value* of a router takes."""
        routes = self.routes.get((source, branch), [])
        taken: list[Arc] = []
        labels: Sequence[Any] = value if isinstance(value, list | tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
        for label in labels:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(label, Send):
                name = getattr(label.node, "name", label.node)
                taken += [arc for arc in routes if arc.target == name]
                continue
            text = shown(label)
            matching = [arc for arc in routes if arc.label == text] or [arc for arc in routes if arc.label == DEFAULT]
            taken += matching
        return taken


@cache
def _digest(file: str) -> str:
    """Return a short digest of the lines of a file; empty if it cannot be read."""
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")  # independent of line endings
    except (OSError, ValueError):
        return ""
    return sha256(text.encode()).hexdigest()[:12]
