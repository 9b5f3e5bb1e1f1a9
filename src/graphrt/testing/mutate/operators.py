"""Mutations: the small changes of a graph that a test suite should notice, listed from the graph's topology.

A mutation is plain data, passed as JSON to the processes that test it, where `mutants` builds the graph. Changes that
no test can detect are omitted: dropping an edge to END, or swapping two labels with the same target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final, final

from graphrt.limits import Limits
from graphrt.testing.route_coverage.arcs import Arc, arc_of, branches, declared, joins

OPERATORS: Final[Mapping[str, str]] = {
    "drop-edge": "a static edge, or the route of a label",
    "redirect-edge": "a static edge, a route or a default leads to another node",
    "swap-labels": "two labels of a router change their targets",
    "drop-default": "the default of a conditional edge",
    "redirect-goto": "Commands to one declared target go to another",
    "drop-reducer": "a field takes the last value instead",
    "keep-latest": "a field with the reducer append keeps the latest update alone",
    "raise": "a node fails",
    "no-update": "a node returns no update",
    "widen-join": "a join runs its node at the first arrival",
    "drop-starved": "a starved join fails the run",
    "drop-limit": "a limit, retry, timeout or budget",
    "drop-interrupt": "interrupt_before or interrupt_after",
    "drop-handler": "on_error or on_fatigue",
}
"""Operators and their mutations, in the order in which mutants are listed."""


@final
@dataclass(frozen=True, slots=True)
class Mutation:
    """One small change of a graph."""

    operator: str
    """One of `OPERATORS`."""
    detail: str
    """The change, as a text without spaces; together with the operator, it identifies the mutation within its graph."""
    words: str
    """The change, as a sentence without a full stop."""
    node: str
    """The node that is changed, or that the changed edge leaves; empty for the graph itself."""
    arcs: tuple[Arc, ...]
    """The arcs that it affects. A test that took none of them cannot detect it; if empty, any test that ran the graph
    can."""
    args: Mapping[str, Any]
    """The target of the operator's change, JSON-ready."""

    @property
    def id(self) -> str:
        """A text that identifies the mutation within its graph."""
        return f"{self.operator}:{self.detail}"

    def to_json(self) -> dict[str, Any]:
        """Return the data for `of`."""
        return asdict(self)

    @property
    def branch(self) -> tuple[str, int] | None:
        """The source and number of the conditional edge whose routes it changes; None if it changes none."""
        routes = [arc for arc in self.arcs if arc.kind == "route"]
        return (routes[0].source, routes[0].branch) if routes else None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Mutation:
        """Read the result of `to_json`."""
        fields: dict[str, Any] = {**data, "arcs": tuple(Arc(*arc) for arc in data["arcs"])}
        return cls(**fields)


def mutations(topology: Mapping[str, Any], *, seed: int = 0) -> tuple[Mutation, ...]:
    """Return the mutations of a graph, without those of its nested graphs.

    Args:
        topology: The topology from `CompiledGraph.topology`.
        seed: Chooses the new targets of redirected edges.

    Returns:
        0..n mutations, by operator and then in the order of the topology.
    """
    unordered = [
        *_edges(topology, seed),
        *_labels(topology, seed),
        *_gotos(topology, seed),
        *_fields(topology),
        *_nodes(topology),
        *_joins(topology),
        *_limits(topology),
        *_exits(topology),
    ]
    order = list(OPERATORS)
    return tuple(sorted(unordered, key=lambda mutation: order.index(mutation.operator)))


def _node_of(edge: Mapping[str, Any]) -> str:
    return "" if edge["from"] == "START" else str(edge["from"])


def _edges(topology: Mapping[str, Any], seed: int) -> Iterator[Mutation]:
    edges: list[Mapping[str, Any]] = topology["edges"]
    for edge in edges:
        if edge["kind"] != "static":
            continue
        source, target, arc = edge["from"], edge["to"], arc_of(edge)
        if target != "END":  # without it the branch ends as well
            words = f"the edge {arc} is dropped"
            yield Mutation("drop-edge", f"{source}->{target}", words, _node_of(edge), (arc,), {"edge": edge})
        taken = {other["to"] for other in edges if other["from"] == source and other["kind"] == "static"}
        yield from _redirected(topology, edge, f"{source}->{target}", seed, {*taken, source})


def _redirected(
    topology: Mapping[str, Any], edge: Mapping[str, Any], text: str, seed: int, without: set[str]
) -> Iterator[Mutation]:
    """Yield the mutation that leads *edge* to a target that *seed* chooses, if one is left."""
    arc = arc_of(edge)
    targets = [node["name"] for node in topology["nodes"]]
    if edge["from"] != "START" or edge["kind"] != "static":  # an edge from START to END is an error
        targets.append("END")
    candidates = [name for name in targets if name not in without and name != edge["to"]]
    if candidates:
        other = Random(f"{seed}:{arc.id}").choice(candidates)  # noqa: S311 - which mutant is made is not a secret
        words = f"{_kind(edge)} {arc} leads to {other} instead"
        args = {"edge": edge, "to": other}
        yield Mutation("redirect-edge", f"{text}=>{other}", words, _node_of(edge), (arc,), args)


def _kind(edge: Mapping[str, Any]) -> str:
    return "the edge" if edge["kind"] == "static" else "the default" if edge.get("default") else "the route"


def _labels(topology: Mapping[str, Any], seed: int) -> Iterator[Mutation]:
    for (source, branch), edges in branches(topology).items():
        at = f"{source}[{branch}]" if branch else source
        routes = [edge for edge in edges if not edge.get("default")]
        default = next((edge for edge in edges if edge.get("default")), None)
        for edge in routes:
            arc = arc_of(edge)
            text = f"{at}:{arc.label}->{arc.target}"
            if default is None or default["to"] != edge["to"]:
                words = f"the route {arc} is dropped"
                yield Mutation("drop-edge", text, words, _node_of(edge), (arc,), {"edge": edge})
            yield from _redirected(topology, edge, text, seed, set())
        for first, second in _pairs(routes):
            arcs = (arc_of(first), arc_of(second))
            yield Mutation(
                "swap-labels",
                f"{at}:{arcs[0].label}<>{arcs[1].label}",
                f"the labels {arcs[0].label!r} and {arcs[1].label!r} of {first['router']} after {source} change their "
                f"targets {first['to']} and {second['to']}",
                _node_of(first),
                arcs,
                {"edge": first, "other": second},
            )
        if default is not None:
            arc = arc_of(default)
            words = f"the default {arc.target} of {default['router']} after {source} is dropped"
            text = f"{at}:{arc.label}->{arc.target}"
            yield Mutation("drop-default", text, words, _node_of(default), (arc,), {"edge": default})
            yield from _redirected(topology, default, text, seed, set())


def _pairs(routes: list[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pair each route with the next one to another target, so that every label is in a pair; yield each pair once."""
    seen: set[frozenset[int]] = set()
    for at, route in enumerate(routes):
        later = [(at + step) % len(routes) for step in range(1, len(routes))]
        other = next((number for number in later if routes[number]["to"] != route["to"]), None)
        if other is not None and frozenset((at, other)) not in seen:
            seen.add(frozenset((at, other)))
            yield route, routes[other]


def _gotos(topology: Mapping[str, Any], seed: int) -> Iterator[Mutation]:
    targets: dict[str, list[str]] = {}
    nested = {
        node["name"] for node in topology["nodes"] if node["kind"] != "function"
    }  # which route to another node and return no update
    for edge in topology["edges"]:
        if edge["kind"] == "goto" and edge["from"] not in nested:
            targets.setdefault(edge["from"], []).append(edge["to"])
    for source, known in targets.items():
        for target in known:
            others = [other for other in known if other != target]
            if others:
                other = Random(f"{seed}:{source}:{target}").choice(others)  # noqa: S311 - as above
                arc = Arc("goto", source, target)
                yield Mutation(
                    "redirect-goto",
                    f"{source}->{target}=>{other}",
                    f"Commands of {source} to {target} go to {other}",
                    source,
                    (arc,),
                    {"node": source, "target": target, "to": other},
                )


def _fields(topology: Mapping[str, Any]) -> Iterator[Mutation]:
    for name, field in topology["state"].items():
        reducer = field["reducer"]
        if reducer == "overwrite":
            continue
        words = f"the field {name} takes the last value; its reducer {reducer} is dropped"
        yield Mutation("drop-reducer", name, words, "", (), {"field": name})
        if reducer == "append":
            words = f"the field {name} keeps the latest update alone, instead of appending"
            yield Mutation("keep-latest", name, words, "", (), {"field": name})


def _nodes(topology: Mapping[str, Any]) -> Iterator[Mutation]:
    for node in topology["nodes"]:
        name = node["name"]
        arcs = (Arc("node", name),)
        yield Mutation("raise", name, f"the node {name} raises an error", name, arcs, {"node": name})
        if node["kind"] == "function":
            yield Mutation("no-update", name, f"the node {name} returns no update", name, arcs, {"node": name})
        elif node.get("output") != {}:
            words = f"the nested graph of {name} returns no update"
            yield Mutation("no-update", name, words, name, arcs, {"node": name, "nested": True})


def _joins(topology: Mapping[str, Any]) -> Iterator[Mutation]:
    for sources, join in joins(topology).items():
        text, target = f"{','.join(sources)}->{join['to']}", join["to"]
        shown_join = f"the join of {', '.join(sources)} at {target}"
        if join["need"] > 1:
            yield Mutation(
                "widen-join",
                text,
                f"{shown_join} waits for any of them instead of {join['need']}",
                "",
                tuple(Arc("node", source) for source in sources),
                {"join": join["join"]},
            )
        if join["starved"] != "error":
            yield Mutation(
                "drop-starved",
                text,
                f"starved={join['starved']!r} of {shown_join} is dropped",
                "",
                (Arc("join", ",".join(sources), target, "starved"),),
                {"join": join["join"]},
            )


def _limits(topology: Mapping[str, Any]) -> Iterator[Mutation]:
    known = declared(topology)
    for node in topology["nodes"]:
        name = node["name"]
        for policy, kind in (
            ("max_visits", "fatigue"),
            ("retry", "retry"),
            ("timeout_s", "timeout"),
            ("budget", "budget"),
        ):
            if node.get(policy) is None:  # max_visits=None means no limit
                continue
            arcs = tuple(arc for arc in known if arc.kind == kind and arc.source == name) or (Arc("node", name),)
            yield Mutation(
                "drop-limit",
                f"{name}:{policy}",
                f"{policy}={_policy(policy, node[policy])} of {name} is dropped",
                name,
                arcs,
                {"node": name, "policy": policy},
            )
    default = Limits().to_dict()
    for limit, value in topology["limits"].items():
        if value not in (None, default[limit]):
            words = f"the graph's limit {limit}={value!r} is dropped"
            yield Mutation("drop-limit", limit, words, "", (), {"limit": limit})


def _policy(policy: str, value: Any) -> str:
    return str(value["attempts"]) if policy == "retry" else repr(value)


def _exits(topology: Mapping[str, Any]) -> Iterator[Mutation]:
    for node in topology["nodes"]:
        name = node["name"]
        for flag in ("interrupt_before", "interrupt_after"):
            if node.get(flag):
                yield Mutation(
                    "drop-interrupt",
                    f"{name}:{flag}",
                    f"{flag} of {name} is dropped",
                    name,
                    (Arc("interrupt", name),),
                    {"node": name, "policy": flag},
                )
    for edge in topology["edges"]:
        if edge["kind"] in ("on_error", "on_fatigue"):
            arc = arc_of(edge)
            words = f"{edge['kind']}={edge['to']} of {edge['from']} is dropped"
            text = f"{edge['from']}:{edge['kind']}"
            yield Mutation("drop-handler", text, words, _node_of(edge), (arc,), {"edge": edge})
