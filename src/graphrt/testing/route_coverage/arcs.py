"""Arcs: the parts of a graph that tests can take, read from the graph's topology.

An arc is a node, an edge, a label of a router, a declared target of a Command, or an outcome of a join. Or it is one of
the other exits that a policy declares: retry, timeout, error handler, fatigue, budget, interrupt and resume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

KINDS: Final = (
    "node", "edge", "route", "goto", "join", "retry", "timeout", "error", "fatigue", "budget", "interrupt", "resume",
)  # fmt: skip
"""Kinds of arcs, in the order of reports."""
EXPLORED_KINDS: Final = frozenset({"node", "edge", "route", "goto", "join", "error", "fatigue"})
"""Kinds that an explorer can reach. Retries, timeouts, budgets and questions are left to tests."""


class Arc(NamedTuple):
    """One arc of a graph. JSON keeps it as the list of its fields."""

    kind: str
    """One of `KINDS`."""
    source: str
    """The node to which it belongs or which it leaves, or "START"; for a join, its sources, separated by commas."""
    target: str = ""
    """The node that it leads to, or "END"; empty if it leads nowhere."""
    label: str = ""
    """Label of a route, or outcome of a join: `fired`, `starved` or `absorbed`."""
    branch: int = 0
    """Number of the conditional edge among those of its source."""

    @property
    def id(self) -> str:
        """A stable text that identifies the arc within its graph."""
        branch = f"[{self.branch}]" if self.kind == "route" and self.branch else ""
        return f"{self.kind}:{self.source}{branch}{f':{self.label}' if self.label else ''}{f'->{self.target}' if self.target else ''}"

    def __str__(self) -> str:
        match self.kind:
            case "node":
                return f"node {self.source}"
            case "edge":
                return f"{self.source} -> {self.target}"
            case "route":
                return f"{self.source} -[{self.label}]-> {self.target}"
            case "goto":
                return f"{self.source} -> {self.target}, by Command"
            case "join":
                return f"join of {self.source} at {self.target}: {self.label}"
            case "error" | "fatigue":
                return f"{self.source} -> {self.target}, on {self.kind}"
            case kind:
                return f"{kind} of {self.source}"


DEFAULT: Final = "*"
"""Label of the route that `default=` declares."""


def declared(topology: Mapping[str, Any]) -> tuple[Arc, ...]:
    """Return the arcs that a graph declares, in order, without those of nested graphs.

    Args:
        topology: What `CompiledGraph.topology` returns.
    """
    return tuple(dict.fromkeys([*_of_nodes(topology), *_of_edges(topology), *_of_joins(topology)]))


def _of_nodes(topology: Mapping[str, Any]) -> Iterator[Arc]:
    for node in topology["nodes"]:
        yield Arc("node", node["name"])
    for node in topology["nodes"]:
        name = node["name"]
        if "retry" in node:
            yield Arc("retry", name)
        if "timeout_s" in node:
            yield Arc("timeout", name)
        if "budget" in node:
            yield Arc("budget", name)
        if node.get("interrupt_before") or node.get("interrupt_after"):
            yield Arc("interrupt", name)
            yield Arc("resume", name)


def _of_edges(topology: Mapping[str, Any]) -> Iterator[Arc]:
    for edge in topology["edges"]:
        if edge["kind"] != "join":  # joins have separate arcs
            yield arc_of(edge)


def arc_of(edge: Mapping[str, Any]) -> Arc:
    """Return the arc of an edge that is not a join's."""
    source, target = edge["from"], edge["to"]
    match edge["kind"]:
        case "static":
            return Arc("edge", source, target)
        case "conditional":
            label = DEFAULT if edge.get("default") else shown(edge["label"])
            return Arc("route", source, target, label, edge["branch"])
        case "goto":
            return Arc("goto", source, target)
        case kind:
            return Arc(kind.removeprefix("on_"), source, target)


def branches(topology: Mapping[str, Any]) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    """Return the conditional edges of a graph: maps source and number to the edges of the labels."""
    edges_by_router: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for edge in topology["edges"]:
        if edge["kind"] == "conditional":
            edges_by_router.setdefault((edge["from"], edge["branch"]), []).append(edge)
    return edges_by_router


def _of_joins(topology: Mapping[str, Any]) -> Iterator[Arc]:
    for sources, join in joins(topology).items():
        name, target = ",".join(sources), join["to"]
        yield Arc("join", name, target, "fired")
        if join["need"] < join["of"]:
            yield Arc("join", name, target, "absorbed")
        if join["starved"] != "error":  # by default a starved join is an error of the run, which tests need not cover
            yield Arc("join", name, target, "starved")


def joins(topology: Mapping[str, Any]) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """Return the joins of a graph: maps the sorted names of the sources to an edge of the join."""
    sources: dict[int, list[str]] = {}
    edges: dict[int, Mapping[str, Any]] = {}
    for edge in topology["edges"]:
        if edge["kind"] == "join":
            sources.setdefault(edge["join"], []).append(edge["from"])
            edges[edge["join"]] = edge
    return {tuple(sorted(names)): edges[number] for number, names in sources.items()}


def shown(label: Any) -> str:
    """Return the text of a router's label."""
    value = getattr(label, "value", label) if isinstance(label, str | int) else getattr(label, "name", label)
    return str(value)


def signature(arcs: tuple[Arc, ...]) -> str:
    """Return a short text that identifies the arcs of a graph."""
    return sha256("\n".join(arc.id for arc in arcs).encode()).hexdigest()[:8]
