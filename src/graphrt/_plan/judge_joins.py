"""Judgements about nodes that run side by side: joins that can starve, writes that can conflict.

Like those of `judge`, they look at every choice that routers could make. They ask for more than one pass over the
edges, but only where there are joins or declared writes; no recursion.
"""

from __future__ import annotations

import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._plan import hints
from graphrt._plan.paths import OUT, Paths
from graphrt._plan.tables import Plan
from graphrt.commands import Command
from graphrt.errors import Problem, names

_MOST_PAIRS: Final = 200_000


# -- joins -------------------------------------------------------------------------------------------------------


def starving(plan: Plan, paths: Paths) -> Iterator[Problem]:
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
            where=plan.spec_where(join.dst.index),
        )


def _origins(plan: Plan, paths: Paths) -> list[int]:
    """For each node the earliest one from which it follows for sure, along single static edges."""
    before: list[list[tuple[int, bool]]] = [[] for _ in plan.nodes]
    for at in range(-1, len(plan.nodes)):
        commands = at in paths.open or (at >= 0 and plan.nodes[at].goto is not None)
        for target in paths.sure[at]:
            before[target].append((at, not commands))
        for target in (*paths.joined[at], *paths.side[at], *(t for c in paths.choices[at] for t in c if t != OUT)):
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
    if any(target in good for target in paths.side[at]):
        return True
    return all(target in good for target in paths.sure[at]) and all(
        OUT in choice or any(target in good for target in choice) or at in paths.may_stop
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


def conflicts(plan: Plan, paths: Paths) -> Iterator[Problem]:
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
                where=plan.spec_where(one),
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
        inside = [[target for target in choice if target != OUT] for choice in paths.choices[at]]
        for n, choice in enumerate(inside):
            for other in inside[n + 1 :]:
                meet(choice, other)
            if paths.lists.get(at):
                meet(choice, choice)
    while work:
        a, b = work.pop()
        meet(tuple(paths.targets(a)), tuple(paths.targets(b)))
    return {pair for pair in pairs if pair[0] in wanted and pair[1] in wanted}
