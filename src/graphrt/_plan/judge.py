"""Judgements about a well-formed graph: what can be reached, what can wait for ever, what can loop for ever.

Each looks at every choice that routers could make, never at what they do. A judgement may be wrong about a
particular router; `compile(allow=...)` accepts it by its code. Linear in edges, except where joins or declared
writes ask for more (`judge_joins`); no recursion, so that a chain of 100,000 nodes is judged like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from graphrt._plan.judge_joins import conflicts, starving
from graphrt._plan.paths import OUT, Paths
from graphrt._plan.tables import Plan
from graphrt.errors import Problem

JUDGEMENTS: Final = ("unreachable-node", "no-way-out", "starving-join", "write-conflict", "endless-loop")
"""Codes that `compile(allow=...)` may accept, in the order in which they are reported."""


def judgements(plan: Plan) -> list[Problem]:
    """All judgements, in the order of JUDGEMENTS, then in the order of the nodes."""
    paths = Paths(plan)
    return [
        *_unreachable(plan, paths),
        *_no_way_out(plan, paths),
        *starving(plan, paths),
        *conflicts(plan, paths),
        *_endless(plan, paths),
    ]


def _unreachable(plan: Plan, paths: Paths) -> Iterator[Problem]:
    seen: set[int] = {-1}
    work = [-1]
    while work:
        at = work.pop()
        if at in paths.open:
            return  # a Command without declared targets may lead anywhere
        for target in paths.targets(at):
            if target not in seen:
                seen.add(target)
                work.append(target)
    for node in plan.nodes:
        if node.index not in seen:
            yield Problem(
                code="unreachable-node",
                message=f"Node {node.name!r} can never run: no path leads to it from START.",
                node=node.name,
                hint="Add an edge to it, declare it in goto= of the node that commands it, or remove it.",
                where=plan.spec_where(node.index),
            )


def _no_way_out(plan: Plan, paths: Paths) -> Iterator[Problem]:
    before: list[list[int]] = [[] for _ in plan.nodes]
    good: set[int] = set(paths.open)
    for node in plan.nodes:
        at = node.index
        followers = list(paths.targets(at))
        ends = not node.static and not node.arrives and not node.branches  # a sink
        ends = ends or any(OUT in choice for choice in paths.choices[at]) or at in paths.may_stop
        if ends or plan.leads_to_end(at):
            good.add(at)
        for target in followers:
            before[target].append(at)
    work = list(good)
    while work:
        for at in before[work.pop()]:
            if at not in good:
                good.add(at)
                work.append(at)
    for node in plan.nodes:
        if node.index not in good:
            yield Problem(
                code="no-way-out",
                message=f"From node {node.name!r} neither END nor a node without edges can be reached.",
                node=node.name,
                hint="Give a router on the way a route to END.",
                where=plan.spec_where(node.index),
            )


# -- loops -------------------------------------------------------------------------------------------------------


def _components(count: int, targets: Callable[[int], Sequence[int]]) -> list[list[int]]:
    """Strongly connected components that hold a cycle, by Tarjan's algorithm without recursion."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in range(count):
        if root in order:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(targets(root)))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            at, rest = work[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(targets(target))))
                    break
                if target in on_stack:
                    low[at] = min(low[at], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == order[at]:
                    cut = stack.index(at) if len(stack) < 64 else len(stack) - 1 - stack[::-1].index(at)
                    component = stack[cut:]
                    del stack[cut:]
                    on_stack.difference_update(component)
                    if len(component) > 1 or at in targets(at):
                        found.append(sorted(component))
    return found


def _endless(plan: Plan, paths: Paths) -> Iterator[Problem]:
    count = len(plan.nodes)
    reported: set[int] = set()

    def always(at: int) -> tuple[int, ...]:
        leaves = at in paths.open or at in paths.may_stop or plan.nodes[at].goto is not None
        return () if leaves else paths.sure[at]

    def report(component: list[int]) -> Problem:
        reported.update(component)
        loop = " -> ".join(repr(plan.nodes[at].name) for at in component[:8])
        more = f" and {len(component) - 8} more" if len(component) > 8 else ""
        return Problem(
            code="endless-loop",
            message=f"The loop {loop}{more} has no conditional way out: once entered, it runs until a limit.",
            node=plan.nodes[component[0]].name,
            hint="Put a conditional edge on it that can lead out.",
            where=plan.spec_where(component[0]),
        )

    found = [report(component) for component in _components(count, always)]
    for component in _components(count, lambda at: tuple(paths.targets(at))):
        inside = set(component)
        if inside & reported:
            continue
        leaves = any(
            at in paths.open
            or at in paths.may_stop
            or any(c - inside for c in paths.choices[at])
            or any(target not in inside for target in paths.side[at])
            for at in component
        )
        if not leaves:
            found.append(report(component))
    yield from sorted(found, key=lambda problem: plan.by_name[problem.node or ""].index)
