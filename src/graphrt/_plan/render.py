"""A plan as data and as pictures: topology, Mermaid, DOT, fingerprint. Deterministic; no network, no layout."""

from __future__ import annotations

import json
from typing import Any

from graphrt._plan.fields import Field, describe, is_mapping
from graphrt._plan.tables import NO_DEFAULT, BranchPlan, NodePlan, Plan
from graphrt.commands import EndType


def topology(plan: Plan) -> dict[str, Any]:
    """The graph as plain, JSON-ready data; names in declaration order."""
    nodes = [_node(plan, node) for node in plan.nodes]
    edges: list[dict[str, Any]] = []
    for node in (plan.start, *plan.nodes):
        src = _name(node)
        for target in node.static:
            edges.append({"from": src, "to": target.name, "kind": "static"})
        if plan.leads_to_end(node.index):
            edges.append({"from": src, "to": "END", "kind": "static"})
        for n, branch in enumerate(node.branches):
            edges += _branch(src, n, branch)
        for kind, route in (("on_error", node.on_error), ("on_fatigue", node.on_fatigue)):
            if route is not None:
                edges.append({"from": src, "to": str(getattr(route, "name", route)), "kind": kind})
        for target_ref in sorted(node.goto or (), key=str):
            to = "END" if isinstance(target_ref, EndType) else target_ref
            edges.append({"from": src, "to": to, "kind": "goto"})
    for join in plan.joins:
        for index in sorted(join.sources):
            edges.append(
                {
                    "from": plan.nodes[index].name,
                    "to": join.dst.name,
                    "kind": "join",
                    "join": join.index,
                    "need": join.need,
                    "of": len(join.sources),
                    "starved": join.starved,
                }
            )
    return {
        "name": plan.name,
        "nodes": nodes,
        "edges": edges,
        "state": {name: _field(field) for name, field in plan.state.fields.items()},
        "limits": plan.limits.to_dict(),
    }


def _name(node: NodePlan) -> str:
    return "START" if node.index < 0 else node.name


def _branch(src: str, number: int, branch: BranchPlan) -> list[dict[str, Any]]:
    edges: list[dict[str, Any]] = []
    for label, target in branch.table.items():
        if isinstance(label, EndType):
            continue  # END as its own label stands in the table as text too
        to = "END" if target is None else target.name
        shown = getattr(label, "name", label) if not isinstance(label, (str, int)) else label
        edges.append(
            {"from": src, "to": to, "kind": "conditional", "branch": number, "router": branch.router_name, "label": shown}
        )
    if branch.default is not NO_DEFAULT:
        to = "END" if branch.default is None else branch.default.name
        edges.append(
            {
                "from": src,
                "to": to,
                "kind": "conditional",
                "branch": number,
                "router": branch.router_name,
                "label": None,
                "default": True,
            }
        )
    return edges


def _node(plan: Plan, node: NodePlan) -> dict[str, Any]:
    policy = node.policy
    data: dict[str, Any] = {"name": node.name, "kind": "graph" if node.child is not None else "function"}
    if node.child is not None:
        data["graph"] = topology(node.child)
        if is_mapping(policy.input):
            data["input"] = dict(policy.input)
        if is_mapping(policy.output):
            data["output"] = dict(policy.output)
    data["async"] = node.is_async
    if policy.retry is not None:
        data["retry"] = policy.retry.to_dict()
    if policy.timeout_s is not None:
        data["timeout_s"] = policy.timeout_s
    if node.max_visits != "graph":
        data["max_visits"] = node.max_visits
    if policy.cache is not False:
        data["cache"] = policy.cache
    if policy.writes is not None:
        data["writes"] = list(policy.writes)
    for flag in ("interrupt_before", "interrupt_after"):
        if getattr(policy, flag):
            data[flag] = True
    if policy.version is not None:
        data["version"] = policy.version
    return data


def _field(field: Field) -> dict[str, Any]:
    data: dict[str, Any] = {"type": describe(field.annotation), "reducer": field.reducer_name}
    if field.ephemeral:
        data["ephemeral"] = True
    if field.untracked:
        data["untracked"] = True
    return data


def to_json(plan: Plan) -> str:
    """The topology as JSON text."""
    return json.dumps(topology(plan), indent=2, ensure_ascii=False)


def fingerprint(plan: Plan) -> str:
    """SHA-256 over names, edges, policies, schema and versions, as 64 hex digits; never over code bodies."""
    from hashlib import sha256

    data = topology(plan)
    _forget_async(data)
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return sha256(text.encode()).hexdigest()


def _forget_async(data: dict[str, Any]) -> None:
    """Whether a node is async is part of its body."""
    for node in data["nodes"]:
        node.pop("async", None)
        if "graph" in node:
            _forget_async(node["graph"])


# -- pictures ----------------------------------------------------------------------------------------------------


def to_mermaid(plan: Plan) -> str:
    """A Mermaid flowchart. Ids are numbers of our own, so no name can collide or break the syntax."""
    ids = {node.name: f"n{node.index}" for node in plan.nodes}
    lines = ["flowchart TD", "    s([START])"]
    for node in plan.nodes:
        text = _mermaid(node.name)
        lines.append(f'    {ids[node.name]}[["{text}"]]' if node.child is not None else f'    {ids[node.name]}["{text}"]')
    edges = topology(plan)["edges"]
    if any(edge["to"] == "END" for edge in edges):
        lines.append("    e([END])")
    for edge in edges:
        src = "s" if edge["from"] == "START" else ids[edge["from"]]
        dst = "e" if edge["to"] == "END" else ids[edge["to"]]
        label = _edge_label(edge)
        if edge["kind"] == "static":
            arrow = "-->"
        elif edge["kind"] == "conditional":
            arrow = f'-->|"{_mermaid(label)}"|'
        else:
            arrow = f'-.->|"{_mermaid(label)}"|'
        lines.append(f"    {src} {arrow} {dst}")
    return "\n".join(lines) + "\n"


def _edge_label(edge: dict[str, Any]) -> str:
    if edge["kind"] == "conditional":
        return "otherwise" if edge.get("default") else str(edge["label"])
    if edge["kind"] == "join":
        return "join" if edge["need"] == edge["of"] else f"join {edge['need']} of {edge['of']}"
    return str(edge["kind"])


def _mermaid(text: str) -> str:
    """Text inside a quoted Mermaid label: what could end or change it is written as an entity."""
    out: list[str] = []
    for char in text:
        if char == "\n":
            out.append("<br/>")
        elif char in '"#&<>|`\\[]{}()' or ord(char) < 32 or ord(char) == 127:
            out.append(f"#{ord(char)};")
        else:
            out.append(char)
    return "".join(out)


def to_dot(plan: Plan) -> str:
    """A Graphviz digraph. Ids are numbers of our own; names stand in quoted labels."""
    ids = {node.name: f"n{node.index}" for node in plan.nodes}
    lines = [f"digraph {_dot(plan.name)} {{", "    rankdir=TB;", "    node [shape=box];", '    s [label="START", shape=oval];']
    for node in plan.nodes:
        shape = ", peripheries=2" if node.child is not None else ""
        lines.append(f"    {ids[node.name]} [label={_dot(node.name)}{shape}];")
    edges = topology(plan)["edges"]
    if any(edge["to"] == "END" for edge in edges):
        lines.append('    e [label="END", shape=oval];')
    for edge in edges:
        src = "s" if edge["from"] == "START" else ids[edge["from"]]
        dst = "e" if edge["to"] == "END" else ids[edge["to"]]
        options: list[str] = []
        if edge["kind"] != "static":
            options.append(f"label={_dot(_edge_label(edge))}")
        if edge["kind"] not in ("static", "conditional"):
            options.append("style=dashed")
        lines.append(f"    {src} -> {dst}{' [' + ', '.join(options) + ']' if options else ''};")
    return "\n".join([*lines, "}"]) + "\n"


def _dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\0", "")
    return f'"{escaped}"'
