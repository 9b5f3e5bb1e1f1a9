"""Renders a plan as data and as pictures: topology, fingerprint, Mermaid and DOT.

The same graph gives the same output in any process. Layout is left to the tools that render the text; nothing here uses
the network. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from copy import deepcopy
from enum import Enum
from typing import Any

from graphrt._arguments import is_mapping
from graphrt._plan.fields import Field
from graphrt._plan.hints import describe
from graphrt._plan.tables import NO_DEFAULT, BranchPlan, NodePlan, Plan
from graphrt.commands import EndType


def topology(plan: Plan) -> dict[str, Any]:
    """Return the graph as plain data, ready for JSON: nodes, edges, state fields and limits.

    Nodes are in declaration order, edges by source node and then by kind, join edges last. A nested graph has its
    topology inside its node. `classes` describes the classes reachable from the fields; see `state_classes`.
    """
    nodes = [_node(node) for node in plan.nodes]
    edges: list[dict[str, Any]] = []
    for node in (plan.start, *plan.nodes):
        src = _name(node)
        edges += [{"from": src, "to": target.name, "kind": "static"} for target in node.static]
        if plan.leads_to_end(node.index):
            edges.append({"from": src, "to": "END", "kind": "static"})
        for n, branch in enumerate(node.branches):
            edges += _branch(src, n, branch)
        for kind, route in (("on_error", node.on_error), ("on_fatigue", node.on_fatigue)):
            if route is not None:
                # A node or END, which both have a `name`.
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
    data: dict[str, Any] = {
        "name": plan.name,
        "nodes": nodes,
        "edges": edges,
        **_schema(plan),
        "limits": plan.limits.to_dict(),
    }
    if plan.spec.hands_over_to:
        data["hands_over_to"] = sorted(
            "END" if isinstance(ref, EndType) else str(ref) for ref in plan.spec.hands_over_to
        )
    for option, field_names in (("input", plan.spec.input_names), ("output", plan.spec.output_names)):
        if field_names is not None:
            data[option] = sorted(field_names)
    return data


def _name(node: NodePlan) -> str:
    """Return the name of a node as a source of edges; START has the index -1."""
    return "START" if node.index < 0 else node.name


def _branch(src: str, number: int, branch: BranchPlan) -> list[dict[str, Any]]:
    """Return one edge for each route of a conditional edge, and one for its `default=`.

    Args:
        src: Name of the source.
        number: Index of the conditional edge at its source, from 0; groups its routes.
        branch: The conditional edge. A target of None is END.
    """
    edges: list[dict[str, Any]] = []
    for label, target in branch.table.items():
        if isinstance(label, EndType):
            continue  # the table also has END as a text label, see `specs.pairs`
        to = "END" if target is None else target.name
        # A member of a StrEnum or IntEnum appears by its value, which a router may also return; of any other enum, by
        # its name.
        label_value = label.value if isinstance(label, (str, int)) and isinstance(label, Enum) else label
        label_value = label_value.name if isinstance(label_value, Enum) else label_value
        edges.append(
            {
                "from": src,
                "to": to,
                "kind": "conditional",
                "branch": number,
                "router": branch.router_name,
                "label": label_value,
            }
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


def _node(node: NodePlan) -> dict[str, Any]:  # noqa: C901, PLR0912 - one line for each policy
    """Return a node as data.

    Policies at their default are omitted, so that a new kind of policy does not change fingerprints.

    Policies that name a node are edges. `inline=` and `key=` are never in the data, since they do not affect the
    fingerprint.
    """
    policy = node.policy
    kind = "graph" if node.child is not None else "chosen" if node.choose else "function"
    data: dict[str, Any] = {"name": node.name, "kind": kind}
    if node.child is not None:
        data["graph"] = topology(node.child)
        for option in ("input", "output"):
            if is_mapping(getattr(policy, option)):
                data[option] = dict(getattr(policy, option))
    data["async"] = node.is_async
    if policy.retry is not None:
        data["retry"] = policy.retry.to_dict()
    for option in ("timeout_s", "idle_timeout_s"):
        if getattr(policy, option) is not None:
            data[option] = getattr(policy, option)
    if node.max_visits != "graph":
        data["max_visits"] = node.max_visits
    if policy.cache is not False:
        data["cache"] = policy.cache
    if policy.writes is not None:
        data["writes"] = list(policy.writes)
    for flag in ("interrupt_before", "interrupt_after", "defer"):
        if getattr(policy, flag):
            data[flag] = True
    if policy.stateful is not None:
        data["stateful"] = policy.stateful
    if policy.tools:
        data["tools"] = list(policy.tools)
    if policy.budget is not None:
        data["budget"] = policy.budget.described  # its limits as a list
    for option in ("version", "queue"):
        if getattr(policy, option) is not None:
            data[option] = getattr(policy, option)
    return data


def _schema(plan: Plan) -> dict[str, Any]:
    """Return the fields of the state, the reducer of the whole state, and their classes, without empty parts."""
    data: dict[str, Any] = {"state": {name: _field(plan, field) for name, field in plan.state.fields.items()}}
    if plan.update.reducer is not None:
        data["update"] = {**plan.classes.typed(plan.update.cls), "reducer": plan.update.reducer.name}
    if plan.classes.data:
        data["classes"] = deepcopy(plan.classes.data)  # a topology may be edited
    return data


def _field(plan: Plan, field: Field) -> dict[str, Any]:
    """Return a field of the state as data: its type, classes, reducer name and markers."""
    # An untracked field is never stored, so its classes do not matter.
    typed = {"type": describe(field.annotation)} if field.untracked else plan.classes.typed(field.annotation)
    data: dict[str, Any] = {**typed, "reducer": field.reducer_name}
    if field.ephemeral:
        data["ephemeral"] = True
    if field.untracked:
        data["untracked"] = True
    if field.redacted:
        data["redacted"] = True
    return data


def to_json(plan: Plan) -> str:
    """Return the topology as indented JSON text."""
    import json  # imported here: most processes never draw a graph

    from graphrt._display import safe_json

    return safe_json(json.dumps(topology(plan), indent=2, ensure_ascii=False))


def fingerprint(plan: Plan) -> str:
    """Return the SHA-256 of names, edges, policies, schema and versions, as 64 hex digits.

    A thread stores the fingerprint of its graph (R14). Function bodies do not count, nor do the graph's limits, since a
    runtime may override them (decision 0017).
    """
    return fingerprint_of(topology(plan))


def fingerprint_of(data: dict[str, Any]) -> str:
    """Return the fingerprint of the topology *data*; parts that do not count are removed from *data*."""
    from hashlib import sha256

    _forget_what_may_change(data)
    import json

    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def _forget_what_may_change(data: dict[str, Any]) -> None:
    """Remove the parts of a topology, in place, that are not part of the fingerprint."""
    del data["limits"]
    for node in data["nodes"]:
        node.pop("async", None)  # `async def` or `def` counts as part of the function body
        node.pop("queue", None)  # where the node runs, not what it does
        if "graph" in node:
            _forget_what_may_change(node["graph"])


# -- pictures ----------------------------------------------------------------------------------------------------


def to_mermaid(plan: Plan) -> str:
    """Return a Mermaid flowchart. Node ids are numbers, so no node name can collide or break the syntax."""
    ids = {node.name: f"n{node.index}" for node in plan.nodes}
    lines = ["flowchart TD", "    s([START])"]
    for node in plan.nodes:
        text = _mermaid(_shown(node))
        lines.append(
            f'    {ids[node.name]}[["{text}"]]' if node.child is not None else f'    {ids[node.name]}["{text}"]'
        )
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


def _shown(node: NodePlan) -> str:
    """Return the label of a node in a picture: its name, and whether it is deferred."""
    return f"{node.name}\n(deferred)" if node.defer else node.name


def _edge_label(edge: dict[str, Any]) -> str:
    """Return an edge's label in a picture: a router's label, the number of sources a join needs, or a policy's name."""
    if edge["kind"] == "conditional":
        return "otherwise" if edge.get("default") else str(edge["label"])
    if edge["kind"] == "join":
        return "join" if edge["need"] == edge["of"] else f"join {edge['need']} of {edge['of']}"
    return str(edge["kind"])


def _mermaid(text: str) -> str:
    """Return *text* for a quoted Mermaid label; characters that could end or restyle the label become entities."""
    out: list[str] = []
    for at, char in enumerate(text):
        if char == "\n":
            out.append("<br/>")
        elif char in _SPECIAL or not char.isprintable() or (char in _SPECIAL_AT_START and not text[:at].strip()):
            out.append(f"#{ord(char)};")  # Mermaid's form of an entity
        elif char == "." and text[:at].strip().isdigit():  # "1." would begin a Markdown list
            out.append("#46;")
        else:
            out.append(char)
    return "".join(out) or " "  # Mermaid does not accept an empty label


_SPECIAL = frozenset('"#&<>|`*\\[]{}()~')
"""Characters that are special anywhere in a Mermaid label."""
_SPECIAL_AT_START = frozenset("-+_=")
"""Characters that are special at the start of a label."""


def to_dot(plan: Plan) -> str:
    """Return a Graphviz digraph. Node ids are numbers; names are quoted labels."""
    ids = {node.name: f"n{node.index}" for node in plan.nodes}
    lines = [
        f"digraph {_dot(plan.name)} {{",
        "    rankdir=TB;",
        "    node [shape=box];",
        '    s [label="START", shape=oval];',
    ]
    for node in plan.nodes:
        shape = ", peripheries=2" if node.child is not None else ""
        lines.append(f"    {ids[node.name]} [label={_dot(_shown(node))}{shape}];")
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
    """Return *text* as a quoted DOT string.

    Graphviz decodes entities in labels, so `&` is escaped. Control characters other than line ends are replaced.
    """
    out: list[str] = []
    for char in text:
        if char in _DOT_ESCAPES:
            out.append(_DOT_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        else:
            out.append(f"&#{ord(char)};" if ord(char) > 31 else "\N{REPLACEMENT CHARACTER}")
    return f'"{"".join(out)}"'


_DOT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": " ", "&": "&amp;"}
