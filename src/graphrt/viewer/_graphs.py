"""Graphs as documents, and the edges taken at the end of a superstep.

Without the code of a graph, its document has the nodes and edges seen in a thread's journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, final

from graphrt.events import Entry, RunStarted, SuperstepCommitted, TaskFailed, TasksRouted, TaskSucceeded, ThreadUpdated
from graphrt.graph import CompiledGraph
from graphrt.testing.route_coverage.run_sink import node_path

Topology = dict[str, Any]
LAST_VALUE: Final = "overwrite"
"""Name shown for a field without a reducer."""


def graph_document(graph: CompiledGraph[Any, Any, Any]) -> dict[str, Any]:
    """Return the `GraphDoc` of a graph whose code is available."""
    topology = graph.topology()
    for node in topology["nodes"]:
        declared = graph.declared_fields(node["name"])
        if declared is not None and declared.reads:
            node["reads"] = list(declared.reads)
    _mark_aggregates(topology)
    return {
        "graph": graph.name, "version": graph.version, "fingerprint": graph.fingerprint, "code": True,
        "topology": topology,
    }  # fmt: skip


def _mark_aggregates(topology: Topology) -> None:
    has_update = "update" in topology
    for field in topology["state"].values():
        field["aggregates"] = has_update or field["reducer"] != LAST_VALUE
    for node in topology["nodes"]:
        if "graph" in node:
            _mark_aggregates(node["graph"])


@final
class SeenGraph:
    """A graph without its code: the nodes, edges and fields seen in the journal of a thread.

    Args:
        name: Name of the graph.
    """

    def __init__(self, name: str) -> None:
        self.document: dict[str, Any] = {
            "graph": name, "version": None, "fingerprint": "", "code": False, "topology": _empty(name),
        }  # fmt: skip
        """The `GraphDoc` so far."""
        self._ended: dict[str, list[str]] = {}
        """Nodes that ended since the last commit, by path."""
        self._begins: set[str] = set()
        """Paths of graphs that began and have not committed yet."""

    def add(self, entry: Entry) -> None:
        """Process the next entry."""
        event = entry.event
        ended = self._ended.setdefault(entry.path, [])
        match event:
            case RunStarted():
                self._fields(entry, event.input)
                self.document["fingerprint"] = event.fingerprint
                ended.clear()
                self._begins.add("")
            case TaskSucceeded():
                self._node(entry.path, event.node)
                for update in event.updates:
                    self._fields(entry, update)
                ended.append(event.node)
            case TaskFailed():
                self._node(entry.path, event.node)
                if event.handler is not None:
                    ended.append(event.node)
            case SuperstepCommitted() | TasksRouted():
                if ended and (entry.path in self._begins or (entry.path and _is_first(event))):
                    self._begins.discard(entry.path)
                    self._edges(entry.path, ["START"], ended)
                if not getattr(event, "after", ()):  # otherwise the edges are taken once that is answered
                    self._edges(entry.path, ended, event.next or ("END",))
                    ended.clear()
            case ThreadUpdated():
                self._fields(entry, event.values)
            case _:
                pass

    def _at(self, path: str) -> Topology:
        topology: Topology = self.document["topology"]
        for name in node_path(path):
            node = self._node_of(topology, name)
            node["kind"] = "graph"
            topology = node.setdefault("graph", _empty(name))
        return topology

    def _node_of(self, topology: Topology, name: str) -> dict[str, Any]:
        for node in topology["nodes"]:
            if node["name"] == name:
                return node  # type: ignore[no-any-return]  # topologies are plain data
        node = {"name": name, "kind": "function"}
        topology["nodes"].append(node)
        return node

    def _node(self, path: str, name: str) -> None:
        self._node_of(self._at(path), name)

    def _edges(self, path: str, sources: Iterable[str], targets: Iterable[str]) -> None:
        topology = self._at(path)
        for source in dict.fromkeys(sources):
            for target in dict.fromkeys(targets):
                if target != "END":
                    self._node_of(topology, target)
                edge = {"from": source, "to": target, "kind": "seen"}
                if edge not in topology["edges"]:
                    topology["edges"].append(edge)

    def _fields(self, entry: Entry, values: Mapping[str, Any]) -> None:
        if not entry.path:
            for name in values:
                self.document["topology"]["state"].setdefault(name, {"reducer": "", "aggregates": False})


def _is_first(event: SuperstepCommitted | TasksRouted) -> bool:
    """Return whether it is the first commit of a nested graph, whose start has no entry."""
    return isinstance(event, SuperstepCommitted) and event.superstep == 1


def _empty(name: str) -> Topology:
    return {"name": name, "nodes": [], "edges": [], "state": {}}


def nested(topology: Topology, path: str) -> Topology | None:
    """Return the topology of the nested graph at *path*, a path of task ids; None if there is none."""
    current: Topology | None = topology
    for name in node_path(path):
        node = next((candidate for candidate in (current or _empty(""))["nodes"] if candidate["name"] == name), None)
        current = node.get("graph") if node is not None else None
        if current is None:
            return None
    return current


@final
class Edges:
    """The edges of a graph, by source. A `SeenGraph` may add more.

    Args:
        topology: Topology of the top-level graph.
        path: Path of the graph below it.
    """

    def __init__(self, topology: Topology, path: str) -> None:
        self._topology = topology
        self._path = path
        self._known = 0
        self._of: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}

    def _from(self, source: str) -> Sequence[tuple[int, Mapping[str, Any]]]:
        edges = (nested(self._topology, self._path) or _empty(""))["edges"]
        for at in range(self._known, len(edges)):
            self._of.setdefault(edges[at]["from"], []).append((at, edges[at]))
        self._known = len(edges)
        return self._of.get(source, ())

    def taken(self, source: str, following: Sequence[str], goto: Sequence[str] | None = None) -> list[int]:
        """Return the edges taken when *source* had ended and the nodes *following* became due.

        The label that a router returned is not in the journal. An edge of a router counts as taken if its target
        became due, and one to END if no other edge of the router was taken.
        """
        edges = self._from(source)
        if goto is not None:
            ways = {edge["to"]: at for at, edge in reversed(edges)}  # also for converted routers
            return [ways[target] for target in dict.fromkeys(goto or ("END",)) if target in ways]
        indexes: list[int] = []
        branches: dict[Any, dict[str, list[int]]] = {}
        for at, edge in edges:
            if edge["kind"] in ("static", "join") or (edge["kind"] == "seen" and edge["to"] in (following or ("END",))):
                indexes.append(at)
            elif edge["kind"] == "conditional":
                branches.setdefault(edge["branch"], {}).setdefault(edge["to"], []).append(at)
        for targets in branches.values():
            due = [ways[0] for target, ways in targets.items() if target in following]
            indexes += due or targets.get("END", [])[:1]
        return sorted(indexes)

    def by(self, source: str, kind: str, target: str) -> list[int]:
        """Return the edges of *kind* from *source* to *target*."""
        return [at for at, edge in self._from(source) if edge["kind"] == kind and edge["to"] == target]
