"""Judgements about a well-formed graph: what can be reached, what can wait for ever, what can loop for ever.

Each looks at every choice that routers could make, never at what they do. A judgement may be wrong about a
particular router; `compile(allow=...)` accepts it by its code. Linear in edges, except where joins or declared
writes ask for more; no recursion, so that a chain of 100,000 nodes is judged like any other.
"""

from __future__ import annotations

import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._plan import hints
from graphrt._plan.specs import BranchSpec
from graphrt._plan.tables import NO_DEFAULT, NodePlan, Plan
from graphrt.commands import Command, EndType
from graphrt.errors import Problem, names

JUDGEMENTS: Final = ("unreachable-node", "no-way-out", "starving-join", "write-conflict", "endless-loop")
"""Codes that `compile(allow=...)` may accept, in the order in which they are reported."""

_OUT: Final = -2
"""Stands for END in choices."""
_MOST_PAIRS: Final = 200_000


class Paths:
    """The graph as sets of indexes: what surely follows a node, and what a choice may lead to."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        count = len(plan.nodes)
        self.sure: list[tuple[int, ...]] = [()] * (count + 1)
        """Static targets; the last one is START's."""
        self.joined: list[tuple[int, ...]] = [()] * (count + 1)
        self.choices: list[list[frozenset[int]]] = [[] for _ in range(count + 1)]
        """For each branch the targets of one choice; END is _OUT."""
        self.side: list[tuple[int, ...]] = [()] * (count + 1)
        """Targets of on_error, on_fatigue and declared gotos."""
        self.open: set[int] = set()
        """Nodes that may return a Command to anywhere."""
        self.may_stop: set[int] = set()
        """Nodes with a router that may return an empty list, or a fatigue route out of everything."""
        self.lists: dict[int, bool] = {}
        """Whether a router of the node is annotated to return a list: several labels, or none."""
        for item in plan.spec.declared:
            if isinstance(item, BranchSpec):
                at = plan.by_name[item.src].index if isinstance(item.src, str) else -1  # -1 is START
                self.lists[at] = self.lists.get(at, False) or _gives_list(item.hint)
        for node in (*plan.nodes, plan.start):
            self._read(node)

    def _read(self, node: NodePlan) -> None:
        at = node.index
        self.sure[at] = tuple(target.index for target in node.static)
        self.joined[at] = tuple(self.plan.joins[join].dst.index for join in node.arrives)
        for branch in node.branches:
            targets = {_OUT if target is None else target.index for target in branch.table.values()}
            if branch.default is not NO_DEFAULT:
                targets.add(_OUT if branch.default is None else branch.default.index)
            self.choices[at].append(frozenset(targets))
        side: list[int] = []
        for route in (node.on_error, node.on_fatigue):
            if isinstance(route, NodePlan):
                side.append(route.index)
        if node.on_fatigue is not None:
            self.may_stop.add(at)
        if node.goto is not None:
            side += [self.plan.by_name[ref].index for ref in node.goto if isinstance(ref, str)]
            if not side or any(isinstance(ref, EndType) for ref in node.goto):
                self.may_stop.add(at)
        elif at >= 0 and _may_command(self.plan, at):
            self.open.add(at)
        if self.lists.get(at):
            self.may_stop.add(at)
        self.side[at] = tuple(side)

    def targets(self, at: int) -> Iterator[int]:
        """Every node that may follow, the join's node included; END is left out."""
        yield from self.sure[at]
        yield from self.joined[at]
        for choice in self.choices[at]:
            yield from (target for target in choice if target != _OUT)
        yield from self.side[at]


def _may_command(plan: Plan, at: int) -> bool:
    hint = plan.spec_hint(at)
    return any((typing.get_origin(member) or member) is Command for member in hints.members(hint))


def _gives_list(hint: Any) -> bool:
    return any(typing.get_origin(member) in (list, tuple) or member in (list, tuple) for member in hints.members(hint))


def judgements(plan: Plan) -> list[Problem]:
    """All judgements, in the order of JUDGEMENTS, then in the order of the nodes."""
    paths = Paths(plan)
    return [
        *_unreachable(plan, paths),
        *_no_way_out(plan, paths),
        *_starving(plan, paths),
        *_conflicts(plan, paths),
        *_endless(plan, paths),
    ]


def _where(plan: Plan, at: int) -> str:
    return plan.spec_where(at)


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
                where=_where(plan, node.index),
            )


def _no_way_out(plan: Plan, paths: Paths) -> Iterator[Problem]:
    before: list[list[int]] = [[] for _ in plan.nodes]
    good: set[int] = set(paths.open)
    for node in plan.nodes:
        at = node.index
        followers = list(paths.targets(at))
        ends = not node.static and not node.arrives and not node.branches  # a sink
        ends = ends or any(_OUT in choice for choice in paths.choices[at]) or at in paths.may_stop
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
                where=_where(plan, node.index),
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
            where=_where(plan, component[0]),
        )

    found = [report(component) for component in _components(count, always)]
    for component in _components(count, lambda at: tuple(paths.targets(at))):
        inside = set(component)
        if inside & reported:
            continue
        leaves = any(
            at in paths.open or at in paths.may_stop or any(c - inside for c in paths.choices[at]) or
            any(target not in inside for target in paths.side[at])
            for at in component
        )
        if not leaves:
            found.append(report(component))
    yield from sorted(found, key=lambda problem: plan.by_name[problem.node or ""].index)


# -- joins -------------------------------------------------------------------------------------------------------


def _starving(plan: Plan, paths: Paths) -> Iterator[Problem]:
    if not plan.joins or not any(paths.choices[at] or paths.side[at] for at in range(-1, len(plan.nodes))):
        return
    origin = _origins(plan, paths)
    for join in plan.joins:
        if join.starved != "error" or join.need == 1:
            continue
        groups: dict[int, int] = {}
        for source in sorted(join.sources):
            groups.setdefault(origin[source], source)
        if len(groups) == 1:
            continue  # all sources follow from one node: they run together
        sources = sorted(groups.values())
        missing = _can_miss(plan, paths, sources, tolerated=len(join.sources) - join.need)
        if missing is None:
            continue
        runs, skipped = (plan.nodes[at].name for at in missing)
        yield Problem(
            code="starving-join",
            message=f"The join before {join.dst.name!r} can starve: some choice of routes runs {runs!r} and not "
            f"{skipped!r}.",
            node=join.dst.name,
            hint="Join nodes that always run together, or say starved='ignore' or 'run', or when='any'.",
            where=_where(plan, join.dst.index),
        )


def _origins(plan: Plan, paths: Paths) -> list[int]:
    """For each node the earliest one from which it follows for sure, along single static edges."""
    before: list[list[tuple[int, bool]]] = [[] for _ in plan.nodes]
    for at in range(-1, len(plan.nodes)):
        commands = at in paths.open or (at >= 0 and plan.nodes[at].goto is not None)
        for target in paths.sure[at]:
            before[target].append((at, not commands))
        for target in (*paths.joined[at], *paths.side[at], *(t for c in paths.choices[at] for t in c if t != _OUT)):
            before[target].append((at, False))
    origin = list(range(len(plan.nodes)))
    for node in plan.nodes:
        at, seen = node.index, set[int]()
        while at >= 0 and at not in seen and len(before[at]) == 1 and before[at][0][1]:
            seen.add(at)
            at = before[at][0][0]
        origin[node.index] = at
    return origin


def _can_miss(plan: Plan, paths: Paths, sources: list[int], tolerated: int) -> tuple[int, int] | None:
    """A pair (runs, is skipped) that some choice of routes allows, or None.

    With *tolerated* sources that may be missing, a set of that many others is taken as skipped beside it.
    """
    if tolerated >= len(sources):
        return None
    for first in range(len(sources) - tolerated):
        skipped = set(sources[first : first + tolerated + 1])
        safe = _finishing(plan, paths, skipped)
        if -1 not in safe:
            continue
        for runs in sources:
            if runs not in skipped and -1 in _reaching(plan, paths, runs, safe):
                return runs, sources[first]
    return None


def _finishing(plan: Plan, paths: Paths, avoid: set[int]) -> set[int]:
    """Nodes from which every branch can end without touching *avoid*: the least fixpoint."""
    return _fixpoint(plan, paths, lambda at, good: at not in avoid and _all_good(paths, at, good))


def _all_good(paths: Paths, at: int, good: set[int]) -> bool:
    if any(paths.side[at]) and any(target in good for target in paths.side[at]):
        return True
    return all(target in good for target in paths.sure[at]) and all(
        _OUT in choice or any(target in good for target in choice) or at in paths.may_stop
        for choice in paths.choices[at]
    )


def _reaching(plan: Plan, paths: Paths, goal: int, safe: set[int]) -> set[int]:
    """Nodes from which *goal* runs while everything else stays *safe*."""

    def reaches(at: int, good: set[int]) -> bool:
        if at not in safe:
            return False
        if at == goal:
            return True
        ways = (*paths.sure[at], *paths.joined[at], *paths.side[at])
        return any(target in good for target in ways) or any(
            target in good for choice in paths.choices[at] for target in choice
        )

    return _fixpoint(plan, paths, reaches)


def _fixpoint(plan: Plan, paths: Paths, holds: Callable[[int, set[int]], bool]) -> set[int]:
    before: dict[int, list[int]] = {}
    for at in range(-1, len(plan.nodes)):
        for target in paths.targets(at):
            before.setdefault(target, []).append(at)
    good: set[int] = set()
    work = deque(range(-1, len(plan.nodes)))
    while work:
        at = work.popleft()
        if at not in good and holds(at, good):
            good.add(at)
            work.extend(b for b in before.get(at, ()) if b not in good)
    return good


# -- conflicts ---------------------------------------------------------------------------------------------------


def declared_writes(plan: Plan, at: int) -> frozenset[str]:
    """Fields that a node declares to write: by `writes=`, or by a return type narrower than the Update."""
    policy = plan.nodes[at].policy
    if policy.writes is not None:
        return frozenset(policy.writes)
    found: set[str] = set()
    for member in hints.members(plan.spec_hint(at)):
        cls = member
        if (typing.get_origin(member) or member) is Command:
            cls = (typing.get_args(member) or (None,))[0]
        if cls is plan.update.cls:
            return frozenset()
        if te.is_typeddict(cls):
            found.update(cls.__annotations__)
        elif isinstance(cls, type) and issubclass(cls, BaseModel) and cls is not plan.state.cls:
            found.update(cls.model_fields)
    names_ = frozenset(found)
    return names_ if names_ < plan.update.names else frozenset()


def _conflicts(plan: Plan, paths: Paths) -> Iterator[Problem]:
    last = {name for name, field in plan.state.fields.items() if not field.aggregates}
    writers: dict[int, frozenset[str]] = {}
    for node in plan.nodes:
        if plan.update.kind == "overwrite" and not node.policy.writes:
            continue
        wrote = declared_writes(plan, node.index) & last
        if wrote:
            writers[node.index] = wrote
    if len(writers) < 2:
        return
    for one, two in sorted(_together(plan, paths, set(writers))):
        both = sorted(writers[one] & writers[two])
        if both:
            a, b = plan.nodes[one].name, plan.nodes[two].name
            yield Problem(
                code="write-conflict",
                message=f"Nodes {a!r} and {b!r} can run in one superstep, and both write {names(both)}, "
                f"{'which has' if len(both) == 1 else 'which have'} no aggregating reducer.",
                node=a,
                hint="Give the field a reducer, write different fields, or run the nodes one after the other.",
                where=_where(plan, one),
            )


def _together(plan: Plan, paths: Paths, wanted: set[int]) -> set[tuple[int, int]]:
    """Pairs of *wanted* nodes that can share a superstep: branches of one fan-out walk in lockstep."""
    pairs: set[tuple[int, int]] = set()
    work: list[tuple[int, int]] = []

    def meet(left: Iterable[int], right: Iterable[int]) -> None:
        for a in left:
            for b in right:
                pair = (a, b) if a < b else (b, a)
                if a != b and pair not in pairs and len(pairs) < _MOST_PAIRS:
                    pairs.add(pair)
                    work.append(pair)

    for at in range(-1, len(plan.nodes)):
        meet(paths.sure[at], paths.sure[at])
        inside = [[target for target in choice if target != _OUT] for choice in paths.choices[at]]
        for n, choice in enumerate(inside):
            for other in inside[n + 1 :]:
                meet(choice, other)
            if paths.lists.get(at):
                meet(choice, choice)
    while work:
        a, b = work.pop()
        meet(tuple(paths.targets(a)), tuple(paths.targets(b)))
    return {pair for pair in pairs if pair[0] in wanted and pair[1] in wanted}
