"""`rewired`: a copy of a graph that is wired as edited topology data says, with the functions of the original.

For tools that ask what another graph would do, such as mutation testing. It reads no source and judges nothing itself:
the declarations are changed, and the checks of `compile()` judge them. What the data leaves as it was is kept as it was
declared, since topologies do not tell everything.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from graphrt import reducers
from graphrt._plan.fields import LAST, Field, read_marks
from graphrt._plan.specs import BranchSpec, Declared, EdgeSpec, JoinSpec, NodeSpec, Policy, pairs
from graphrt._plan.state import StateSchema
from graphrt._plan.tables import Plan
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import END, START, EndType
from graphrt.errors import Problem
from graphrt.errors._codes.arguments import IMPOSSIBLE_EDGES, OTHER_NAMES, WRAP_OF_UNKNOWN_NODES
from graphrt.errors._codes.findings import TOPOLOGY_WITH_UNKNOWN_REDUCER, UNKNOWN_REDUCER
from graphrt.graph.checking import checked
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.handles import S, U, function_of
from graphrt.graph.policies import read_policy
from graphrt.limits import Limits

_POLICIES: Final = (
    "retry", "timeout_s", "max_visits", "cache", "writes", "interrupt_before", "interrupt_after", "tools", "budget",
    "version", "input", "output", "queue",
)  # fmt: skip
"""Policies that a node of a topology shows; `on_error`, `on_fatigue` and `goto` are edges."""
_NOTHING: Final = Policy()
_MISSING: Final = object()


def rewired(
    graph: CompiledGraph[S, U],
    topology: Mapping[str, Any],
    *,
    wrap: Mapping[str, Callable[[Any], Any]] | None = None,
) -> CompiledGraph[S, U]:
    """Return a copy of *graph* that is wired as *topology* says.

    Args:
        graph: The original. It does not change.
        topology: What `graph.topology()` returns, edited: edges removed, added or with another target; routes with
            another target or removed, defaults removed; policies of nodes removed, or set to what `add_node` accepts;
            limits removed or set; `need` and `starved` of a join. The `reducer` of a field may be the name of a
            built-in reducer, `"overwrite"` included, or a function. Nodes, fields, routers and labels stay.
        wrap: Names of nodes to functions that take the node's function and return the one to call instead.

    Raises:
        DefinitionError: `compile()` would refuse the graph. What `compile(allow=...)` accepted is accepted here.
        InputError: The topology has other nodes or fields, or an edge that cannot be added.
    """
    plan = graph.__graphrt_plan__
    changed = plan if topology == graph.topology() else _changed(graph, topology)
    unknown = [name for name in wrap or () if name not in plan.by_name]
    if unknown:
        raise WRAP_OF_UNKNOWN_NODES(unknown=unknown, known_nodes=plan.by_name, where=plan.place())
    if wrap:
        # After the checks, which look into the code of functions: a wrapper does not show what its function returns.
        declared = tuple(
            replace(item, fn=function_of(wrap[item.name](item.fn)))
            if isinstance(item, NodeSpec) and item.name in wrap
            else item
            for item in changed.spec.declared
        )
        changed = Plan(replace(changed.spec, declared=declared), changed.limits)
    return CompiledGraph(changed, graph._allow)


def _changed(graph: CompiledGraph[Any, Any], topology: Mapping[str, Any]) -> Plan:
    plan = graph.__graphrt_plan__
    before = graph.topology()
    _same_names(plan, before, topology)
    edges = _Edges(topology["edges"])
    problems: list[Problem] = []
    nodes = {node["name"]: node for node in topology["nodes"]}
    declared: list[Declared] = []
    for item in plan.spec.declared:
        match item:
            case NodeSpec():
                old = next(node for node in before["nodes"] if node["name"] == item.name)
                declared.append(_node(item, old, nodes[item.name], _Edges(before["edges"]), edges, problems))
            case EdgeSpec():
                declared += [item] if edges.take(_name(item.src), _name(item.dst)) else []
            case JoinSpec():
                declared += _join(item, edges)
            case BranchSpec():
                declared.append(_branch(item, edges))
    declared += [EdgeSpec(_ref(src), _ref(dst), plan.spec.where) for src, dst in edges.static]
    left = edges.left()
    if left:
        raise IMPOSSIBLE_EDGES(number=len(left), source=left[0]["from"], destination=left[0]["to"], where=plan.place())
    state, update = _schemas(plan, before["state"], topology["state"], problems)
    spec = replace(plan.spec, declared=tuple(declared), state=state, update=update, problems=tuple(problems))
    limits = plan.limits if topology["limits"] == before["limits"] else Limits(**topology["limits"])
    return checked(spec, limits, graph._allow)


def _same_names(plan: Plan, before: Mapping[str, Any], topology: Mapping[str, Any]) -> None:
    for what, had, has in (
        ("nodes", plan.by_name, {node["name"] for node in topology["nodes"]}),
        ("fields", before["state"], set(topology["state"])),
    ):
        if set(had) != has:
            raise OTHER_NAMES(kind=what, different=sorted(set(had) ^ has), known_names=had, where=plan.place())


class _Edges:
    """The edges of a topology, which are taken out one by one as their declarations are found."""

    def __init__(self, edges: list[dict[str, Any]]) -> None:
        self.static: dict[tuple[str, str], None] = {}
        self.routes: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.joins: dict[int, list[dict[str, Any]]] = {}
        self.policies: dict[tuple[str, str], list[str]] = {}
        """Targets by node and policy: `on_error`, `on_fatigue` or `goto`."""
        self._branches: dict[str, int] = {}
        """Conditional edges that were found so far, by their source."""
        self._found_joins = 0
        for edge in edges:
            match edge["kind"]:
                case "static":
                    self.static[edge["from"], edge["to"]] = None
                case "conditional":
                    self.routes.setdefault((edge["from"], edge["branch"]), []).append(edge)
                case "join":
                    self.joins.setdefault(edge["join"], []).append(edge)
                case kind:
                    self.policies.setdefault((edge["from"], kind), []).append(edge["to"])

    def take(self, source: str, target: str) -> bool:
        """Take the static edge out; return whether there was one."""
        return self.static.pop((source, target), _MISSING) is not _MISSING

    def branch(self, source: str) -> list[dict[str, Any]]:
        """Take out the routes of the next conditional edge of *source*."""
        number = self._branches[source] = self._branches.get(source, -1) + 1
        return self.routes.pop((source, number), [])

    def join(self) -> list[dict[str, Any]]:
        """Take out the edges of the next join."""
        self._found_joins += 1
        return self.joins.pop(self._found_joins - 1, [])

    def left(self) -> list[dict[str, Any]]:
        """Return the routes and joins that no declaration has taken out."""
        return [edge for edges in (*self.routes.values(), *self.joins.values()) for edge in edges]


def _node(
    item: NodeSpec,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    old_edges: _Edges,
    edges: _Edges,
    problems: list[Problem],
) -> NodeSpec:
    changes: dict[str, Any] = {}
    given = {key: new[key] for key in _POLICIES if key in new and new[key] != old.get(key, _MISSING)}
    if given:
        read, found = read_policy(item.name, given, _ref, item.where)
        problems += found
        changes = {key: getattr(read, key) for key in given}
    changes |= {key: getattr(_NOTHING, key) for key in _POLICIES if key in old and key not in new}
    for kind in ("on_error", "on_fatigue", "goto"):
        targets = edges.policies.get((item.name, kind), [])
        if targets != old_edges.policies.get((item.name, kind), []):
            refs = tuple(_ref(target) for target in targets)
            changes[kind] = refs if kind == "goto" else refs[0] if refs else None
    fn = item.fn
    if new.get("graph") != old.get("graph"):
        fn = rewired(fn, new["graph"])
    return replace(item, fn=fn, policy=replace(item.policy, **changes) if changes else item.policy)


def _join(item: JoinSpec, edges: _Edges) -> list[JoinSpec]:
    if item.dst is END:  # its sources have static edges to END in a topology
        sources = tuple(src for src in item.sources if edges.take(_name(src), "END"))
        return [replace(item, sources=sources)] if sources else []
    kept = edges.join()
    if not kept:
        return []
    sources = tuple(src for src in item.sources if any(edge["from"] == src for edge in kept))
    need = kept[0]["need"]
    when = item.when if need == kept[0]["of"] == len(sources) and item.when == "all" else need
    return [replace(item, sources=sources, dst=_ref(kept[0]["to"]), when=when, starved=kept[0]["starved"])]


def _branch(item: BranchSpec, edges: _Edges) -> BranchSpec:
    kept = edges.branch(_name(item.src))
    targets = {edge["label"]: edge["to"] for edge in kept if not edge.get("default")}
    default = next((_ref(edge["to"]) for edge in kept if edge.get("default")), None)
    known = pairs(item.routes)
    if all(targets.get(_shown(label)) == _name(target) for label, target in known):
        return replace(item, default=default)
    # A list of nodes has END twice, as the object and as its text; a closed annotation may have only one of them.
    labels, closed = item.labels or ((), False)
    routes = {
        label: _ref(targets[_shown(label)])
        for label, _ in known
        if _shown(label) in targets and not (closed and label in (END, END.value) and label not in labels)
    }
    return replace(item, routes=routes, default=default)


def _shown(label: Any) -> Any:
    """Return a label as a topology shows it."""
    if not isinstance(label, Enum):
        return label
    has_value = isinstance(label, (str, int)) or label is END
    return label.value if has_value else label.name


def _schemas(
    plan: Plan, before: Mapping[str, Any], after: Mapping[str, Any], problems: list[Problem]
) -> tuple[StateSchema, UpdateSchema]:
    """Return the schemas with the reducers that *after* names."""
    changed = {name: after[name]["reducer"] for name in before if after[name]["reducer"] != before[name]["reducer"]}
    if not changed:
        return plan.state, plan.update
    state, update = copy.copy(plan.state), copy.copy(plan.update)
    state.fields = {
        name: _field(field, changed[name], problems) if name in changed else field
        for name, field in plan.state.fields.items()
    }
    update.state = state
    update.fields = {name: state.fields[name] for name in plan.update.fields}
    return state, update


def _field(field: Field, reducer: Any, problems: list[Problem]) -> Field:
    """Return a copy of *field* with another reducer. What it starts from stays."""
    fn = reducers.by_name(reducer) or reducer
    if not callable(fn):
        raise TOPOLOGY_WITH_UNKNOWN_REDUCER(problems=[UNKNOWN_REDUCER(field=field.name, reducer=reducer)])
    copied = copy.copy(field)
    copied.kind, copied.aggregates = LAST, False
    read_marks(copied, (fn,), problems)
    copied.identity = field.identity
    copied.boxed = True
    if copied.kind == LAST and copied.check is not copied.check_whole:
        # What a reducer takes may be of another type than the field, which now gets the value as it is.
        copied.check, copied.exact = copied.check_whole, None
    return copied


def _name(ref: Any) -> str:
    return "START" if ref is START else "END" if isinstance(ref, EndType) else str(ref)


def _ref(name: Any) -> Any:
    return START if name == "START" else END if name == "END" else name
