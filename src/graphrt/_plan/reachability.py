"""Runs all judgements of `compile()` on a graph without errors, and implements `unreachable-node` and `no-way-out`.

A judgement considers every choice that routers could make, not what they actually do. It may be wrong about a
particular router, so `compile(allow=...)` can suppress it by its code. The other judgements have separate modules.

Nothing is recursive, since a chain of 100,000 nodes would exceed Python's stack. Node numbers and the attributes of
`Paths` are explained in `paths`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graphrt._plan.deleted_sources import deleted_sources
from graphrt._plan.endless_loops import endless_loops
from graphrt._plan.paths import OUT, SOME, Paths
from graphrt._plan.starving_joins import starving_joins
from graphrt._plan.tables import Plan
from graphrt._plan.write_conflicts import write_conflicts
from graphrt.errors import Problem
from graphrt.errors._codes.findings import (
    DELETED_SOURCE,
    ENDLESS_LOOP,
    NO_WAY_OUT,
    STARVING_JOIN,
    UNREACHABLE_NODE,
    WRITE_CONFLICT,
)

JUDGEMENTS: Final = tuple(
    finding.code
    for finding in (UNREACHABLE_NODE, NO_WAY_OUT, STARVING_JOIN, WRITE_CONFLICT, ENDLESS_LOOP, DELETED_SOURCE)
)
"""Codes that `compile(allow=...)` accepts, in the order in which they are reported."""


def judgements(plan: Plan) -> list[Problem]:
    """Return all judgements about *plan*, a graph without errors, in the order of JUDGEMENTS and then by node.

    `compile()` raises those that `allow=` does not suppress.
    """
    paths = Paths(plan)
    return [
        *_unreachable(plan, paths),
        *_no_way_out(plan, paths),
        *starving_joins(plan, paths),
        *write_conflicts(plan, paths),
        *endless_loops(plan, paths),
        *deleted_sources(plan, paths),
    ]


def _unreachable(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """Yield a problem for each node that no path from START reaches."""
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
        # A Send may start any node that can receive its argument: one that takes a context, or a nested graph (R4).
        if not work and paths.sends:
            for node in plan.nodes:
                if not seen[node.index] and (node.wants_context or node.child is not None):
                    seen[node.index] = 1
                    work.append(node.index)
    for node in plan.nodes:
        if not seen[node.index]:
            yield UNREACHABLE_NODE(node=node.name, where=plan.spec_where(node.index))


def _no_way_out(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """Yield a problem for each node from which no path leads to END or to a node without edges."""
    # Start from the nodes at which a branch may end, then mark everything that may lead to them. A router that names
    # SOME targets may name none, and a join with starved="ignore" ends the run if a source never arrives.
    good = bytearray(paths.count + 1)
    for node in plan.nodes:
        at = node.index
        good[at] = (
            (not node.static and not node.arrives and not node.branches)  # a sink
            or plan.leads_to_end(at)
            or at in paths.open
            or at in paths.stops
            or at in paths.leaves
            or OUT in paths.tired[at]
            or any(choice.names == SOME or OUT in choice.targets for choice in paths.choices[at])
            or any(plan.joins[join].starved == "ignore" for join in node.arrives)
        )
    if all(good[:-1]):  # the last place is START
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
            yield NO_WAY_OUT(node=node.name, where=plan.spec_where(node.index))
