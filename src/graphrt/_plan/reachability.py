"""Judgements about a well-formed graph: what can be reached, and whether it can end. The others have rooms of their own.

Each looks at every choice that routers could make, never at what they do. A judgement may be wrong about a
particular router; `compile(allow=...)` accepts it by its code. No recursion, so that a chain of 100,000 nodes is judged
like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graphrt._plan.endless_loops import endless_loops
from graphrt._plan.paths import OUT, SOME, Paths
from graphrt._plan.starving_joins import starving_joins
from graphrt._plan.tables import Plan
from graphrt._plan.write_conflicts import write_conflicts
from graphrt.errors import Problem

JUDGEMENTS: Final = ("unreachable-node", "no-way-out", "starving-join", "write-conflict", "endless-loop")
"""Codes that `compile(allow=...)` may accept, in the order in which they are reported."""


def judgements(plan: Plan) -> list[Problem]:
    """All judgements, in the order of JUDGEMENTS, then in the order of the nodes."""
    paths = Paths(plan)
    return [
        *_unreachable(plan, paths),
        *_no_way_out(plan, paths),
        *starving_joins(plan, paths),
        *write_conflicts(plan, paths),
        *endless_loops(plan, paths),
    ]


def _unreachable(plan: Plan, paths: Paths) -> Iterator[Problem]:
    seen = bytearray(paths.count + 1)
    work = [-1]
    while work:
        at = work.pop()
        if at in paths.open:
            return  # a Command without declared targets may lead anywhere
        for target in paths.after[at]:
            if not seen[target]:
                seen[target] = 1
                work.append(target)
        if not work and paths.sends:  # a Send without a declared route may lead to any node that sees its argument
            for node in plan.nodes:
                if not seen[node.index] and (node.wants_context or node.child is not None):
                    seen[node.index] = 1
                    work.append(node.index)
    for node in plan.nodes:
        if not seen[node.index]:
            yield Problem(
                code="unreachable-node",
                message=f"Node {node.name!r} can never run: no path leads to it from START.",
                node=node.name,
                hint="Add an edge to it, declare it in goto= of the node that commands it, or remove it.",
                where=plan.spec_where(node.index),
            )


def _no_way_out(plan: Plan, paths: Paths) -> Iterator[Problem]:
    good = bytearray(paths.count + 1)
    for node in plan.nodes:
        at = node.index
        good[at] = (
            (not node.static and not node.arrives and not node.branches)  # a sink
            or plan.leads_to_end(at)
            or at in paths.open
            or at in paths.stops
            or OUT in paths.tired[at]
            or any(choice.names == SOME or OUT in choice.targets for choice in paths.choices[at])
            or any(plan.joins[join].starved == "ignore" for join in node.arrives)
        )
    if all(good[:-1]):
        return
    before = paths.before()
    work = [at for at in range(paths.count) if good[at]]
    while work:
        for at in before[work.pop()]:
            if not good[at]:
                good[at] = 1
                work.append(at)
    for node in plan.nodes:
        if not good[node.index]:
            yield Problem(
                code="no-way-out",
                message=f"From node {node.name!r} neither END nor a node without edges can be reached.",
                node=node.name,
                hint="Give a router on the way a route to END.",
                where=plan.spec_where(node.index),
            )
