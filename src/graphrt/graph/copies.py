"""Plans of copies of a compiled graph: with other functions, or without queues.

A copy replaces the declarations of some nodes and builds its plan from all declarations again. The checks of
`compile()` are not repeated, since the edges are unchanged. A value with the attribute `__graphrt_plan__` is a compiled
graph, which is nested if it is the function of a node. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphrt._plan.callables import node_shape
from graphrt._plan.specs import NodeSpec
from graphrt._plan.tables import Plan
from graphrt.commands import node_name
from graphrt.errors import names
from graphrt.errors._codes.findings import BAD_SIGNATURE, DEFINITION, UNKNOWN_NODE
from graphrt.graph.handles import function_of


def with_functions(plan: Plan, replacements: Mapping[Any, Any]) -> Plan:
    """Return the plan with the functions of some nodes replaced, for `CompiledGraph.with_nodes`.

    Args:
        plan: The plan.
        replacements: Node, or its name, to a function or a compiled graph.

    Raises:
        DefinitionError: A node is unknown, or a function cannot be called as a node.
    """
    functions = {node_name(ref): fn for ref, fn in replacements.items()}
    known = plan.by_name
    problems = [
        UNKNOWN_NODE(edge="call of with_nodes()", name=repr(name), fix=f"Known: {names(known)}.")
        for name in functions
        if name not in known
    ]
    for name, fn in functions.items():
        # The signature of a function must be that of a node. A compiled graph has none to check.
        shape = node_shape(fn) if getattr(fn, "__graphrt_plan__", None) is None else None
        if shape is not None and shape.problem:
            problems.append(
                BAD_SIGNATURE(who=f"The replacement of node {name!r}", problem=shape.problem, node=str(name))
            )
    if problems:
        raise DEFINITION(who="The replacement by with_nodes()", problems=problems, where=plan.place())
    return _declared_anew(
        plan,
        {
            name: replace(node, fn=function_of(functions[name]))
            for name, node in _nodes(plan).items()
            if name in functions
        },
    )


def without_queues(plan: Plan) -> Plan:
    """Return the plan without queues, including in nested graphs; see `CompiledGraph.without_queues`."""
    return _declared_anew(plan, {name: _without_queue(node) for name, node in _nodes(plan).items()})


def _without_queue(node: NodeSpec) -> NodeSpec:
    """Return the declaration of a node without its queue, and with a copy of its nested graph, if it has one."""
    nested = getattr(node.fn, "__graphrt_plan__", None) is not None
    fn = node.fn.without_queues() if nested else node.fn
    return replace(node, fn=fn, policy=replace(node.policy, queue=None))


def _nodes(plan: Plan) -> dict[str, NodeSpec]:
    """Return the declarations of the plan's nodes, by name."""
    return {item.name: item for item in plan.spec.declared if isinstance(item, NodeSpec)}


def _declared_anew(plan: Plan, nodes: Mapping[str, NodeSpec]) -> Plan:
    """Return the plan with the declarations of *nodes* replaced in place."""
    declared = tuple(nodes.get(item.name, item) if isinstance(item, NodeSpec) else item for item in plan.spec.declared)
    return Plan(replace(plan.spec, declared=declared), plan.limits)
