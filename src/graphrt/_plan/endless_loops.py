"""The judgement `endless-loop`: cycles that no choice can leave, so that only a limit of the run ends them.

A choice is a conditional edge, a goto, on_error, on_fatigue, or a join that waits for a node outside the cycle. A goto
and on_error name nodes that replace a node's edges. on_fatigue names a node that runs instead of one that was active
too often. Node numbers and the attributes of `Paths` are explained in `paths`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from graphrt._plan.paths import OUT, SOME, Paths
from graphrt._plan.tables import Plan
from graphrt.errors import Problem
from graphrt.errors._codes.findings import ENDLESS_LOOP

_SHOWN = 8
"""Maximum number of a loop's nodes that its message names."""


def endless_loops(plan: Plan, paths: Paths) -> list[Problem]:
    """Return one problem per loop without a conditional way out, in the order of the loops' first nodes."""
    if all(target > at for at in range(paths.count) for target in paths.after[at]):
        return []  # every edge leads to a later node, so there is no cycle
    problems: dict[int, Problem] = {}  # by the first node of the loop
    reported: set[int] = set()  # the nodes of all loops in `problems`
    # First the cycles of static edges alone, since static edges are followed whatever routers choose.
    always = [() if _may_leave(plan, paths, at) else paths.sure[at] for at in range(paths.count)]
    for component in components(always):
        reported.update(component)
        problems[component[0]] = _problem(plan, component, always)
    # Then every other cycle, including joins and conditional edges, unless a choice leads out of it. The last item of
    # `after` is START, which is never in a cycle.
    for component in components(paths.after[:-1]):
        if reported.isdisjoint(component) and not _leads_out(plan, paths, set(component)):
            problems[component[0]] = _problem(plan, component, paths.after)
    return [problems[at] for at in sorted(problems)]


def _may_leave(plan: Plan, paths: Paths, at: int) -> bool:
    """Return True if something may replace the edges of the node: a Command, goto, on_error or on_fatigue."""
    node = plan.nodes[at]
    return (
        at in paths.open
        or at in paths.leaves
        or node.goto is not None
        or node.on_error is not None
        or node.on_fatigue is not None
    )


def _leads_out(plan: Plan, paths: Paths, inside: set[int]) -> bool:
    """Return True if some choice leads out of the cycle of nodes *inside*."""
    # Joins from the cycle back into it.
    joins = {join for at in inside for join in plan.nodes[at].arrives if plan.joins[join].dst.index in inside}
    if any(len(plan.joins[join].sources & inside) < plan.joins[join].need for join in joins):
        return True  # the join waits for a node outside, which the loop does not run
    for at in inside:
        if (
            at in paths.open or at in paths.stops or at in paths.leaves
        ):  # may go anywhere, or end its branch or the graph
            return True
        if any(target not in inside for target in (*paths.instead[at], *paths.tired[at])):
            return True
        if inside.isdisjoint(paths.edges(at)):
            return True  # its own edges lead out; only a goto, on_error or on_fatigue stays inside
        for choice in paths.choices[at]:
            # A router that names SOME targets may name none of them, which ends the branch.
            if choice.names == SOME or any(target == OUT or target not in inside for target in choice.targets):
                return True
    return False


def _problem(plan: Plan, component: Sequence[int], after: Sequence[Sequence[int]]) -> Problem:
    """Return the finding for a strongly connected *component*, with one cycle in it; *after* has the successors."""
    loop = [plan.nodes[at].name for at in _cycle(component, after)]  # the first node is also the last
    text = " -> ".join(map(repr, loop if len(loop) <= _SHOWN else loop[:_SHOWN]))
    if len(loop) > _SHOWN:
        text += f" -> ... ({len(loop) - 1} nodes)"
    return ENDLESS_LOOP(loop=text, node=loop[0], where=plan.spec_where(component[0]))


def _cycle(component: Sequence[int], after: Sequence[Sequence[int]]) -> list[int]:
    """Return a shortest cycle through the first node of *component*, as indexes; that node is first and last."""
    start, inside = component[0], set(component)
    reached_from: dict[int, int] = {}  # breadth first: node to the one from which it was reached first
    work = deque([start])
    while work:
        at = work.popleft()
        for target in after[at]:
            if target == start:
                path = [at]
                while path[-1] != start:
                    path.append(reached_from[path[-1]])
                return [*reversed(path), start]
            if target in inside and target not in reached_from:
                reached_from[target] = at
                work.append(target)
    raise AssertionError("a strongly connected component has a cycle through each of its nodes")


def components(after: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components that contain a cycle, each as a sorted list of indexes.

    Tarjan's algorithm without recursion: a chain of 100,000 nodes would exceed Python's stack.

    Args:
        after: By node, its successors, which may repeat.

    Source:
        Tarjan, "Depth-First Search and Linear Graph Algorithms", SIAM Journal on Computing 1 (1972).
    """
    count = len(after)
    order = [0] * count  # the number of the node in the order of discovery, from 1; 0 if it was not discovered yet
    low = [0] * count  # the smallest such number of a node on the stack that can be reached from the node
    on_stack = bytearray(count)
    stack: list[int] = []  # discovered nodes whose component is not complete
    clock = 0
    for root in range(count):
        if order[root]:
            continue
        # In place of recursion frames: a node and its targets not yet visited.
        work: list[tuple[int, Iterator[int]]] = [(root, iter(after[root]))]
        clock += 1
        order[root] = low[root] = clock
        stack.append(root)
        on_stack[root] = 1
        while work:
            at, successors = work[-1]
            for target in successors:
                if not order[target]:
                    clock += 1
                    order[target] = low[target] = clock
                    stack.append(target)
                    on_stack[target] = 1
                    work.append((target, iter(after[target])))
                    break
                if on_stack[target] and order[target] < low[at]:
                    low[at] = order[target]
            else:
                work.pop()
                if work and low[at] < low[work[-1][0]]:
                    low[work[-1][0]] = low[at]
                if low[at] == order[at]:  # `at` is the first node of its component; the rest is above it on the stack
                    component = [stack.pop()]
                    while component[-1] != at:
                        component.append(stack.pop())
                    for member in component:
                        on_stack[member] = 0
                    if len(component) > 1 or at in after[at]:
                        yield sorted(component)
