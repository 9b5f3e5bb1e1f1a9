"""`check`: all findings about a LangGraph graph and its nested graphs. It calls no user code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from graphrt.compat.langgraph._flow import Flow
from graphrt.compat.langgraph._places import is_foreign, places_of
from graphrt.compat.langgraph._read import GraphDescription, read
from graphrt.compat.langgraph._rules import RULES, Finding
from graphrt.compat.langgraph._state_checks import state_findings
from graphrt.compat.langgraph._wiring_checks import wiring_findings
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT


def check(graph: Any, *, allow: Iterable[str] = (), file: str | None = None) -> tuple[Finding, ...]:
    """Return the errors and possible errors of a LangGraph graph.

    It reads the graph's declarations and the source of its functions, without calling nodes, routers or reducers.

    Args:
        graph: A `StateGraph`, or the result of its `compile()`, of `create_react_agent` or of `create_agent`.
        allow: Codes of rules that do not apply.
        file: The file in which the graph is built, if its nodes are in other files. It is searched for the lines of
            calls such as `add_edge`.

    Returns:
        0..n findings, those of a graph before those of its nested graphs. `Finding.proved` says whether the graph and
        its source prove it.

    Raises:
        InputError: *allow* names an unknown code.
        TypeError: *graph* is not a graph of LangGraph.
    """
    allowed = tuple(allow)
    for code in allowed:
        if code not in RULES:
            raise UNKNOWN_NAME_IN_ARGUMENT(argument="allow", name=code, what="rule", known_names=list(RULES))
    return tuple(finding for finding in _of(read(graph), None, "", file, set()) if finding.code not in allowed)


def _of(
    graph: GraphDescription, parent: GraphDescription | None, path: str, file: str | None, seen: set[int]
) -> Iterator[Finding]:
    if id(graph.builder) in seen:  # one builder as several nodes
        return
    seen.add(id(graph.builder))
    flow = Flow(graph)
    places = places_of(graph, file)
    unique: dict[tuple[object, ...], Finding] = {}
    for finding in (*wiring_findings(graph, flow, places, parent), *state_findings(graph, flow)):
        place = finding.place
        if place is None and finding.node is not None:
            place = places.node(finding.node)
        unique.setdefault((finding.code, finding.message), dataclasses.replace(finding, graph=path, place=place))
    yield from unique.values()
    for name, node in graph.nodes.items():
        inner = f"{path}/{name}" if path else name
        if node.subgraph is not None:
            yield from _of(node.subgraph, graph, inner, file, seen)
        for called in node.calls if not is_foreign(node.place) else ():
            yield from _of(read(called), graph, inner, file, seen)
