"""`rewired`: copies a graph with the wiring of an edited topology and the functions of the original.

For tools that examine what a different graph would do, such as mutation testing. It reads no source and does no checks
itself: it changes the declarations, and the checks of `compile()` apply to them. Parts that the data leaves unchanged
keep their declarations, since a topology does not describe everything.

A *topology* is a graph as plain data, from `graph.topology()`. Its edges are a flat list of mappings with `from`, `to`
and `kind`: `static`, `conditional` (one for each label of a router), `join` (one for each source), or the name of a
policy that leads to a node. `START` and `END` are texts there. Each declaration takes its edges out of the edited list
and is updated from them. A remaining static edge is new; any other remaining edge is rejected. For the terms, see
docs/glossary.md.
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
from graphrt.errors import Problem, count, names
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.findings import BAD_REDUCER, DEFINITION, FIELD_BESIDE_STATE_REDUCER
from graphrt.graph.checking import checked
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.handles import S, U, function_of
from graphrt.graph.policies import read_policy
from graphrt.limits import Limits

_POLICIES: Final = (
    "retry", "timeout_s", "idle_timeout_s", "max_visits", "cache", "writes", "interrupt_before", "interrupt_after", "defer", "tools", "budget",
    "version", "input", "output", "stateful", "queue",
)  # fmt: skip
"""Policies that a node of a topology shows; `on_error`, `on_fatigue` and `goto` are edges."""
_NOTHING: Final = Policy()
"""The defaults of all policies, for those that were removed."""
_MISSING: Final = object()
"""Sentinel that differs from every value in a topology, including None."""


def rewired(
    graph: CompiledGraph[S, U],
    topology: Mapping[str, Any],
    *,
    wrap: Mapping[str, Callable[[Any], Any]] | None = None,
) -> CompiledGraph[S, U]:
    """Return a copy of *graph* with the wiring of *topology*.

    Args:
        graph: The original. It does not change.
        topology: The result of `graph.topology()`, edited: edges removed, added or with another target; routes with
            another target or removed, defaults removed. Policies of nodes may be removed, or set to values that
            `add_node` accepts; limits may be removed or set, and so may `need` and `starved` of a join. The `reducer`
            of a field may be the name of a built-in reducer, `"overwrite"` included, or a function. Nodes, fields,
            routers and labels stay.
        wrap: Names of nodes to functions that take the node's function and return the one to call instead.

    Raises:
        DefinitionError: `compile()` would reject the graph. Judgements accepted with `compile(allow=...)` are also
            accepted here.
        InputError: The topology has other nodes or fields, or an edge that cannot be added.
    """
    plan = graph.__graphrt_plan__
    changed = plan if topology == graph.topology() else _changed(graph, topology)
    unknown = [name for name in wrap or () if name not in plan.by_name]
    if unknown:
        raise UNKNOWN_NAME_IN_ARGUMENT(
            argument="wrap=", name=unknown[0], what="node of the graph", known_names=plan.by_name, where=plan.place()
        )
    if wrap:
        # After the checks, since they inspect the code of functions, and a wrapper does not show what its function
        # returns.
        declared = tuple(
            replace(item, fn=function_of(wrap[item.name](item.fn)))
            if isinstance(item, NodeSpec) and item.name in wrap
            else item
            for item in changed.spec.declared
        )
        changed = Plan(replace(changed.spec, declared=declared), changed.limits)
    return CompiledGraph(changed, graph._allow)


def _changed(graph: CompiledGraph[Any, Any, Any], topology: Mapping[str, Any]) -> Plan:
    """Return the plan of *graph* with the changes of *topology*, checked as `compile()` does.

    Raises:
        DefinitionError: `compile()` would refuse the graph.
        InputError: *topology* has other nodes or fields, or an edge that cannot be added.
    """
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
    # Remaining static edges are new. They have no line of their own, so errors name the graph's line.
    declared += [EdgeSpec(_ref(src), _ref(dst), plan.spec.where) for src, dst in edges.static]
    unused = edges.left()
    if unused:  # a new router or a new join would need more than its edges
        raise ARGUMENT_OUT_OF_BOUNDS(
            problem=f"The topology has {count(len(unused), 'edge')} that the graph cannot have, "
            f"the first from {unused[0]['from']!r} to {unused[0]['to']!r}",
            wanted="what graph.topology() returned; static edges may be added to it, and no routes or joins",
            where=plan.place(),
        )
    state, update = _schemas(plan, before["state"], topology["state"], problems)
    spec = replace(plan.spec, declared=tuple(declared), state=state, update=update, problems=tuple(problems))
    limits = plan.limits if topology["limits"] == before["limits"] else Limits(**topology["limits"])
    return checked(spec, limits, graph._allow)


def _same_names(plan: Plan, before: Mapping[str, Any], topology: Mapping[str, Any]) -> None:
    """Check that *topology* has the nodes and fields of the graph, whose own topology is *before*.

    Raises:
        InputError: It has others: there would be no function or type for them.
    """
    for noun, expected, present in (
        ("nodes", plan.by_name, {node["name"] for node in topology["nodes"]}),
        ("fields", before["state"], set(topology["state"])),
    ):
        if set(expected) != present:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem=f"The topology has other {noun} than the graph: {names(sorted(set(expected) ^ present))}",
                wanted=f"what graph.topology() returned, with the {noun} {names(expected)}",
                where=plan.place(),
            )


class _Edges:
    """The edges of a topology, which are taken out one by one as their declarations are found.

    Args:
        edges: The mappings in `topology["edges"]`.
    """

    def __init__(self, edges: list[dict[str, Any]]) -> None:
        self.static: dict[tuple[str, str], None] = {}
        """Source and target of the static edges, in order."""
        self.routes: dict[tuple[str, int], list[dict[str, Any]]] = {}
        """Routes by the source and the number of the conditional edge: a source may have several routers."""
        self.joins: dict[int, list[dict[str, Any]]] = {}
        """Edges by the number of the join, counted in the order of declaration."""
        self.policies: dict[tuple[str, str], list[str]] = {}
        """Targets by node and policy: `on_error`, `on_fatigue` or `goto`."""
        self._branches: dict[str, int] = {}
        """Number of conditional edges found so far, by source."""
        self._found_joins = 0
        """Number of joins found so far."""
        for edge in edges:
            match edge["kind"]:
                case "static":
                    self.static[edge["from"], edge["to"]] = None
                case "conditional":
                    self.routes.setdefault((edge["from"], edge["branch"]), []).append(edge)
                case "join":
                    self.joins.setdefault(edge["join"], []).append(edge)
                case kind:  # a policy
                    self.policies.setdefault((edge["from"], kind), []).append(edge["to"])

    def take(self, source: str, target: str) -> bool:
        """Take the static edge out; return whether there was one."""
        return self.static.pop((source, target), _MISSING) is not _MISSING

    def branch(self, source: str) -> list[dict[str, Any]]:
        """Take out the routes of the next conditional edge of *source*: called in the order of declaration."""
        number = self._branches[source] = self._branches.get(source, -1) + 1
        return self.routes.pop((source, number), [])

    def join(self) -> list[dict[str, Any]]:
        """Take out the edges of the next join: called in the order of declaration."""
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
    """Return the declaration of a node with the policies and nested graph from the topology.

    Args:
        item: The declaration.
        old: The node in the graph's own topology.
        new: The node in the edited one.
        old_edges: The edges of the graph's own topology.
        edges: The edges of the edited one.
        problems: Problems of the policy are appended to it.
    """
    changes: dict[str, Any] = {}
    edited = {key: new[key] for key in _POLICIES if key in new and new[key] != old.get(key, _MISSING)}
    if edited:
        read, policy_problems = read_policy(item.name, edited, _ref, item.where)
        problems += policy_problems
        changes = {key: getattr(read, key) for key in edited}
    # Policies that were removed get their defaults.
    changes |= {key: getattr(_NOTHING, key) for key in _POLICIES if key in old and key not in new}
    for kind in ("on_error", "on_fatigue", "goto"):  # policies that lead to nodes: edges in a topology
        targets = edges.policies.get((item.name, kind), [])
        if targets != old_edges.policies.get((item.name, kind), []):
            refs = tuple(_ref(target) for target in targets)
            changes[kind] = refs if kind == "goto" else refs[0] if refs else None
    fn = item.fn
    if new.get("graph") != old.get("graph"):  # the topology of a nested graph, which is the node's function
        fn = rewired(fn, new["graph"])
    return replace(item, fn=fn, policy=replace(item.policy, **changes) if changes else item.policy)


def _join(item: JoinSpec, edges: _Edges) -> list[JoinSpec]:
    """Return the declaration of a join with the edges that the topology still has; an empty list if it has none."""
    if item.dst is END:  # its sources have static edges to END in a topology
        sources = tuple(src for src in item.sources if edges.take(_name(src), "END"))
        return [replace(item, sources=sources)] if sources else []
    join_edges = edges.join()
    if not join_edges:
        return []
    sources = tuple(src for src in item.sources if any(edge["from"] == src for edge in join_edges))
    # All edges of a join have the same `need` (arrivals for which it waits) and `of` (number of sources). A join that
    # was declared for "all" stays so if neither was edited; otherwise it waits for a number.
    need = join_edges[0]["need"]
    when = item.when if need == join_edges[0]["of"] == len(sources) and item.when == "all" else need
    return [replace(item, sources=sources, dst=_ref(join_edges[0]["to"]), when=when, starved=join_edges[0]["starved"])]


def _branch(item: BranchSpec, edges: _Edges) -> BranchSpec:
    """Return the declaration of a conditional edge with the routes that the topology has for it."""
    branch_edges = edges.branch(_name(item.src))
    targets = {edge["label"]: edge["to"] for edge in branch_edges if not edge.get("default")}
    default = next((_ref(edge["to"]) for edge in branch_edges if edge.get("default")), None)
    known = pairs(item.routes)
    # Unchanged routes stay as they were declared, for instance as a list of nodes.
    if all(targets.get(_shown(label)) == _name(target) for label, target in known):
        return replace(item, default=default)
    # A list of nodes has END twice, as the object and as text. If the router's annotation is closed, that is, names all
    # labels that it can return, `compile()` rejects a route for any other label, so only the END that it names is kept.
    labels, closed = item.labels or ((), False)
    routes = {
        label: _ref(targets[_shown(label)])
        for label, _ in known
        if _shown(label) in targets and not (closed and label in (END, END.value) and label not in labels)
    }
    return replace(item, routes=routes, default=default)


def _shown(label: Any) -> Any:
    """Return a label of a router as a topology shows it: JSON has no Enums."""
    if not isinstance(label, Enum):
        return label
    has_value = isinstance(label, (str, int)) or label is END
    return label.value if has_value else label.name


def _schemas(
    plan: Plan, before: Mapping[str, Any], after: Mapping[str, Any], problems: list[Problem]
) -> tuple[StateSchema, UpdateSchema]:
    """Return the schemas of state and update with the reducers that *after* names.

    Args:
        plan: The plan, whose schemas do not change.
        before: The fields of the graph's own topology.
        after: Those of the edited one.
        problems: Problems of reducers are appended to it.
    """
    changed = {name: after[name]["reducer"] for name in before if after[name]["reducer"] != before[name]["reducer"]}
    if plan.update.reducer is not None:
        problems += [FIELD_BESIDE_STATE_REDUCER(field=name, mark=changed[name]) for name in changed]
    if not changed or plan.update.reducer is not None:
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
    """Return a copy of *field* with another reducer.

    Args:
        field: The field.
        reducer: Name of a built-in reducer, or a function.
        problems: Problems of the reducer are appended to it.

    Raises:
        DefinitionError: There is no such reducer.
    """
    fn = reducers.by_name(reducer) or reducer
    if not callable(fn):
        raise DEFINITION(
            who="The topology",
            problems=[
                BAD_REDUCER(
                    reducer=reducer,
                    owner=f"field {field.name!r}",
                    problem="is not known",
                    fix="Use a built-in reducer's name, or a function.",
                )
            ],
        )
    copied = copy.copy(field)
    copied.kind, copied.aggregates = LAST, False  # as without a reducer; `read_marks` sets what *fn* needs
    read_marks(copied, (fn,), problems)
    copied.identity = field.identity  # the value that the field starts from stays
    copied.boxed = True  # values may now be lists or mappings, whose length the engine tracks
    if copied.kind == LAST and copied.check is not copied.check_whole:
        # `check` accepts the input of the old reducer, whose type may differ from the field's. The field now gets the
        # value unchanged, so it is checked as a whole. `exact` is a shortcut around the old check.
        copied.check, copied.exact = copied.check_whole, None
    return copied


def _name(ref: Any) -> str:
    """Return a declaration's reference in the form used in a topology."""
    return "START" if ref is START else "END" if isinstance(ref, EndType) else str(ref)


def _ref(name: Any) -> Any:
    """Return a topology's reference in the form used in a declaration."""
    return START if name == "START" else END if name == "END" else name
