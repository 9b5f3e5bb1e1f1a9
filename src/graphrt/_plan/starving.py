"""The judgement `starving-join`: some choice of routes runs one source of a join and not another.

A *scenario* is a set of sources that an execution leaves out, so many that the join cannot fire. It is possible if the
run can begin and end without any of them; it starves if it can run another source on the way. All scenarios are
followed at once, one bit each, so that many joins cost little more than one. Most need no scenario: sources that follow
from one node run together.

What is assumed in favour of the graph: undeclared Commands take no shortcut, joins in between fire, on_fatigue is not
reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from graphrt._plan.paths import ALL, OUT, SOME, Choice, Paths
from graphrt._plan.tables import JoinPlan, Plan
from graphrt.errors import Problem

_AT_ONCE: Final = 2_048
"""Scenarios that are followed together; bounds the memory."""


class _Scenario(NamedTuple):
    join: JoinPlan
    missing: tuple[int, ...]


def starving_joins(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """One problem for each join that can starve, in the order of the joins."""
    if not any(paths.choices[at] or paths.instead[at] or at in paths.stops for at in range(-1, paths.count)):
        return
    waiting = [join for join in plan.joins if join.starved == "error" and join.need > 1]
    if not waiting:
        return
    origin = _origins(plan, paths)
    scenarios = [scenario for join in waiting for scenario in _scenarios(join, origin)]
    before = paths.before() if scenarios else []
    told: set[int] = set()
    for start in range(0, len(scenarios), _AT_ONCE):
        some = scenarios[start : start + _AT_ONCE]
        runs = _Executions(plan, paths, before, some).runs()
        for bit, (join, missing) in enumerate(some):
            if join.index in told:
                continue
            other = next((at for at in sorted(join.sources) if at not in missing and runs[at] >> bit & 1), None)
            if other is not None:
                told.add(join.index)
                yield _problem(plan, join, other, missing[0])


def _problem(plan: Plan, join: JoinPlan, runs: int, skipped: int) -> Problem:
    return Problem(
        code="starving-join",
        message=f"The join before {join.dst.name!r} can starve: some choice of routes runs {plan.nodes[runs].name!r} "
        f"and not {plan.nodes[skipped].name!r}.",
        node=join.dst.name,
        hint="Join nodes that always run together, or say starved='ignore' or 'run', or when='any'.",
        where=plan.spec_where(join.dst.index),
    )


def _scenarios(join: JoinPlan, origin: Callable[[int], int]) -> Iterator[_Scenario]:
    groups: dict[int, list[int]] = {}
    for source in sorted(join.sources):
        groups.setdefault(origin(source), []).append(source)
    if len(groups) == 1:
        return  # all sources follow from one node: they run together
    ordered = list(groups.values())
    too_many = len(join.sources) - join.need + 1
    for first in range(len(ordered)):
        missing: list[int] = []
        for group in ordered[first:]:
            if len(missing) >= too_many:
                break
            missing += group
        if too_many <= len(missing) < len(join.sources):
            yield _Scenario(join, tuple(missing))


def _origins(plan: Plan, paths: Paths) -> Callable[[int], int]:
    """For a node the earliest one from which it follows for sure: along static edges, and through joins of such nodes."""
    causes: list[list[tuple[int, ...]]] = [[] for _ in range(paths.count + 1)]
    """What makes a node run, each for itself: a node before it, or the sources of a join; () for what may not happen."""
    for at in range(-1, paths.count):
        certain = at < 0 or not (at in paths.open or at in paths.stops or plan.nodes[at].goto is not None)
        certain = certain and not paths.instead[at]
        for target in paths.sure[at]:
            causes[target].append((at,) if certain else ())
        chosen = [target for choice in paths.choices[at] for target in choice.targets]
        for target in (*paths.instead[at], *paths.tired[at], *chosen):
            if target != OUT:
                causes[target].append(())
    for join in plan.joins:
        causes[join.dst.index].append(tuple(sorted(join.sources)))
    known: dict[int, int] = {-1: -1}

    def origin(wanted: int) -> int:
        work = [wanted]
        while work:
            at = work[-1]
            if at in known and known[at] != _BUSY:
                work.pop()
                continue
            needed = [source for cause in causes[at] for source in cause] if all(causes[at]) else []
            if at not in known:
                known[at] = _BUSY
                unknown = [source for source in needed if source not in known]
                if unknown:
                    work += unknown
                    continue
            work.pop()
            found = {known[source] for source in needed}
            # On a cycle (_BUSY), or from several places: it stands for itself.
            known[at] = found.pop() if len(found) == 1 and _BUSY not in found else at
        return known[wanted]

    return origin


_BUSY: Final = -3


class _Executions:
    """What can happen in each scenario; bit n of a number is scenario n."""

    def __init__(self, plan: Plan, paths: Paths, before: list[list[int]], scenarios: list[_Scenario]) -> None:
        self.plan = plan
        self.paths = paths
        self.before = before
        self.all = (1 << len(scenarios)) - 1
        self.barred: dict[int, int] = {}
        self.begins: dict[int, int] = {-1: self.all}
        """Where an execution may begin: at START, and for a join of all its sources once more after it fired."""
        for bit, (join, missing) in enumerate(scenarios):
            for source in missing:
                self.barred[source] = self.barred.get(source, 0) | 1 << bit
            at = join.dst.index
            if join.need == len(join.sources) and all(source in join.sources for source in before[at]):
                self.begins[at] = self.begins.get(at, 0) | 1 << bit

    def runs(self) -> list[int]:
        """For each node the scenarios in which it can run."""
        safe = self._safe()
        paths, joins = self.paths, self.plan.joins
        found = [0] * (paths.count + 1)
        work: deque[int] = deque()
        for at, bits in self.begins.items():
            found[at] = bits & safe[at]
            work.append(at)
        while work:
            at = work.popleft()
            node = self.plan.nodes[at] if at >= 0 else None
            fires = {joins[join].dst.index: joins[join] for join in node.arrives} if node is not None else {}
            together = {t: choice for choice in paths.choices[at] if choice.names == ALL for t in choice.targets}
            for target in paths.after[at]:
                bits = found[at]
                join = fires.get(target)
                if join is not None and join.need == len(join.sources) and target not in paths.sure[at]:
                    for source in join.sources:
                        bits &= found[source]
                if target in together:
                    bits &= self._all_safe(together[target], safe)
                bits &= safe[target] & ~found[target]
                if bits:
                    found[target] |= bits
                    work.append(target)
        return found

    def _all_safe(self, choice: Choice, safe: list[int]) -> int:
        bits = self.all
        for target in choice.targets:
            if target != OUT:
                bits &= safe[target]
        return bits

    def _safe(self) -> list[int]:
        """For each node the scenarios in which it can run and everything after it end: the least fixpoint."""
        paths = self.paths
        safe = [0] * (paths.count + 1)
        queued = bytearray(b"\1" * (paths.count + 1))
        work = deque([*range(paths.count - 1, -1, -1), -1])
        while work:
            at = work.popleft()
            queued[at] = 0
            bits = self._holds(at, safe)
            if bits != safe[at]:
                safe[at] = bits
                for source in self.before[at]:
                    if not queued[source]:
                        queued[source] = 1
                        work.append(source)
        return safe

    def _holds(self, at: int, safe: list[int]) -> int:
        paths = self.paths
        bits = self.all & ~self.barred.get(at, 0)
        for target in paths.sure[at]:
            bits &= safe[target]
        if at >= 0:
            for join in self.plan.nodes[at].arrives:
                bits &= safe[self.plan.joins[join].dst.index]
        for choice in paths.choices[at]:
            if choice.names == SOME or OUT in choice.targets:
                continue  # it may name none
            if choice.names == ALL:
                bits &= self._all_safe(choice, safe)
            else:
                some = 0
                for target in choice.targets:
                    some |= safe[target]
                bits &= some
        if at in paths.stops:
            return self.all
        for target in paths.instead[at]:
            bits |= safe[target]
        return bits
