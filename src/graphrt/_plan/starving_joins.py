"""The judgement `starving-join`: some choice of routes runs one source of a join but not another, so it never fires.

A source *arrives* when it has run and followed its edges. A join *fires* when `need` of its sources have arrived.

A *scenario* is a set of sources of one join that do not arrive, large enough that the join cannot fire. A scenario is
possible if an execution can reach an end without any of these sources. The join starves in it if such an execution runs
another of its sources. Most joins need no scenario, because sources that follow from one node always run together.

All scenarios are followed at once. A set of scenarios is an int with one bit per scenario, so many joins cost little
more than one. Two passes over the graph compute, for every node, the scenarios in which

1. the node can run and everything after it can end (`safe`, backward from the ends);
2. an execution that can still end reaches the node (`found`, forward from START).

To avoid false positives, the analysis assumes that undeclared Commands take no shortcut, joins in between fire, and
on_fatigue is not reached. Node numbers and the attributes of `Paths` are explained in `paths`. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from graphrt._plan.paths import ALL, OUT, SOME, Choice, Paths
from graphrt._plan.tables import JoinPlan, Plan
from graphrt.errors import Problem
from graphrt.errors._codes.findings import STARVING_JOIN

_AT_ONCE: Final = 2_048
"""Maximum number of scenarios followed at once, which is the width of the ints in bits. It limits memory use."""


class _Scenario(NamedTuple):
    """A join and those of its sources that do not arrive."""

    join: JoinPlan
    missing: tuple[int, ...]
    """Indexes of the sources; too many for the join to fire, but not all."""


def starving_joins(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """Yield one problem for each join that can starve, in the order of the joins."""
    if not any(paths.choices[at] or paths.instead[at] or at in paths.stops for at in range(-1, paths.count)):
        return  # without a choice, every source runs
    # Only joins whose starvation is an error; a join that needs a single source fires with any of them.
    candidates = [join for join in plan.joins if join.starved == "error" and join.need > 1]
    if not candidates:
        return
    origin = _origins(plan, paths)
    scenarios = [scenario for join in candidates for scenario in _scenarios(paths, join, origin)]
    if not scenarios:
        return
    order = _Order(paths)
    reported: set[int] = set()  # joins already reported; each is reported once
    for start in range(0, len(scenarios), _AT_ONCE):
        batch = [scenario for scenario in scenarios[start : start + _AT_ONCE] if scenario.join.index not in reported]
        runs = _Executions(plan, paths, order, batch).runs() if batch else []
        for bit, (join, missing) in enumerate(batch):
            if join.index in reported:
                continue
            # A source that runs in this scenario; the join then waits and never fires.
            running = next((at for at in sorted(join.sources) if runs[at] >> bit & 1 and at not in missing), None)
            if running is not None:
                reported.add(join.index)
                yield _problem(plan, join, running, missing[0])


def _problem(plan: Plan, join: JoinPlan, runs: int, skipped: int) -> Problem:
    """Return the finding for *join*, whose source *runs* may run while *skipped* does not."""
    return STARVING_JOIN(
        node=join.dst.name,
        runs=plan.nodes[runs].name,
        skipped=plan.nodes[skipped].name,
        where=plan.spec_where(join.dst.index),
    )


def _scenarios(paths: Paths, join: JoinPlan, origin: Callable[[int], int]) -> Iterator[_Scenario]:
    """Yield the scenarios of *join*: sequences of neighbouring groups of sources that are absent together.

    Sources with the same origin form one group, since they run together. Not every combination of groups is tried, as
    their number would grow exponentially.

    Args:
        paths: The successors.
        join: The join.
        origin: Maps a node to its origin; see `_origins`.
    """
    groups: dict[int, list[int]] = {}
    for source in sorted(join.sources):
        # With a goto or on_error the source may run and yet not arrive, so it forms a separate group.
        otherwise = paths.instead[source] or source in paths.stops
        groups.setdefault(source if otherwise else origin(source), []).append(source)
    if len(groups) == 1:
        return  # all sources follow from one node: they run together
    ordered = list(groups.values())
    too_many = len(join.sources) - join.need + 1  # number of missing sources with which the join cannot fire
    for first in range(len(ordered)):
        missing: list[int] = []
        at = first
        while at < len(ordered) and len(missing) < too_many:
            missing += ordered[at]
            at += 1
        # A join does not wait if none of its sources arrives.
        if too_many <= len(missing) < len(join.sources):
            yield _Scenario(join, tuple(missing))


def _origins(plan: Plan, paths: Paths) -> Callable[[int], int]:
    """Return a function from a node to its origin: the earliest node after which it is certain to run.

    START has origin -1.

    A node is certain to run after another along static edges, and through joins of such nodes. A node that can be
    reached from several origins, or by a choice, is its own origin.
    """
    # The causes of each node. Any one of them makes the node run: (predecessor,), the sources of a join, or () for a
    # cause that may not occur.
    causes: list[list[tuple[int, ...]]] = [[] for _ in range(paths.count + 1)]
    for at in range(-1, paths.count):
        certain = at < 0 or not (at in paths.open or at in paths.stops or plan.nodes[at].goto is not None)
        certain = certain and not paths.instead[at]
        for target in paths.sure[at]:
            causes[target].append((at,) if certain else ())
        branch_targets = [target for choice in paths.choices[at] for target in choice.targets]
        for target in (*paths.instead[at], *paths.tired[at], *branch_targets):
            if target != OUT:
                causes[target].append(())
    for join in plan.joins:
        causes[join.dst.index].append(tuple(sorted(join.sources)))
    origins: dict[int, int] = {-1: -1}

    def origin(node: int) -> int:
        """Return the origin of a node. Results for it and all nodes before it are cached in `origins`."""
        work = [node]  # depth first without recursion; a node stays on the stack until its causes are known
        while work:
            at = work[-1]
            if at in origins and origins[at] != _BUSY:
                work.pop()
                continue
            # All causes count. If one of them may not occur, none counts, and the node is its own origin.
            needed = [source for cause in causes[at] for source in cause] if all(causes[at]) else []
            if at not in origins:
                origins[at] = _BUSY
                unknown = [source for source in needed if source not in origins]
                if unknown:
                    work += unknown
                    continue
            work.pop()
            cause_origins = {origins[source] for source in needed}
            # On a cycle (_BUSY), or with several origins: the node is its own origin.
            origins[at] = cause_origins.pop() if len(cause_origins) == 1 and _BUSY not in cause_origins else at
        return origins[node]

    return origin


_BUSY: Final = -3
"""Placeholder for an origin while the node's causes are being examined. Neither an index nor OUT."""


class _Order:
    """An order of the nodes in which most edges lead forward, so that computing a fixpoint visits few nodes twice.

    A fixpoint is reached when recomputing any node's value from its neighbours' values changes nothing.
    """

    def __init__(self, paths: Paths) -> None:
        self.before = paths.before()
        """Predecessors of each node."""
        # Reverse postorder of a depth-first search, counted down from 0.
        place = [0] * (paths.count + 1)
        last = 0
        seen = bytearray(paths.count + 1)
        for root in range(-1, paths.count):
            if seen[root]:
                continue
            seen[root] = 1
            work = [(root, iter(paths.after[root]))]
            while work:
                at, successors = work[-1]
                following = next((target for target in successors if not seen[target]), None)
                if following is None:
                    last -= 1
                    place[at] = last  # lower than the place of every later node, except in loops
                    work.pop()
                else:
                    seen[following] = 1
                    work.append((following, iter(paths.after[following])))
        self.place = place

    def settle(self, first_nodes: Iterable[int], look: Callable[[int], Iterable[int]], *, backward: bool) -> None:
        """Call *look* on every node in *first_nodes*, then on the nodes it returns, until there are none left.

        Args:
            first_nodes: Indexes of the first nodes.
            look: Updates a node; returns the nodes that depend on it if it changed.
            backward: Take the last nodes first.
        """
        sign = -1 if backward else 1
        place = self.place
        work = [(sign * place[at], at) for at in first_nodes]
        heapify(work)
        queued = {at for _, at in work}
        while work:
            _, at = heappop(work)
            queued.discard(at)
            for dependent in look(at):
                if dependent not in queued:
                    queued.add(dependent)
                    heappush(work, (sign * place[dependent], dependent))


class _Executions:
    """The executions that are possible in each scenario; bit n of an int is scenario n."""

    def __init__(self, plan: Plan, paths: Paths, order: _Order, scenarios: list[_Scenario]) -> None:
        self.plan = plan
        self.paths = paths
        self.order = order
        self.all = (1 << len(scenarios)) - 1
        """All scenarios, as bits."""
        self.barred: dict[int, int] = {}
        """By source, the scenarios in which it does not arrive."""
        self.begins: dict[int, int] = {-1: self.all}
        """By node, the scenarios in which an execution may begin there. At START, these are all scenarios. An execution
        may also begin at a join's own node, if only the join's sources lead there and all must arrive: when the join
        fires, one round of arrivals is complete and the next one begins (R5)."""
        again: dict[int, bool] = {}  # by join: whether an execution may begin at its node
        for bit, (join, missing) in enumerate(scenarios):
            for source in missing:
                self.barred[source] = self.barred.get(source, 0) | 1 << bit
            at = join.dst.index
            if join.index not in again:
                again[join.index] = join.need == len(join.sources) and join.sources.issuperset(order.before[at])
            if again[join.index]:
                self.begins[at] = self.begins.get(at, 0) | 1 << bit
        self.safe = [0] * (paths.count + 1)
        """By node, the scenarios in which it can run and everything after it can end: the least fixpoint."""
        self.found = [0] * (paths.count + 1)
        """By node, the scenarios in which an execution that can end runs it."""
        self.joins: dict[int, list[JoinPlan]] = {}
        """By index of a node, the joins that lead to it."""
        for join in plan.joins:
            self.joins.setdefault(join.dst.index, []).append(join)

    def runs(self) -> list[int]:
        """Return, by node, the scenarios in which an execution that can end runs it."""
        self.order.settle(range(-1, self.paths.count), self._look_back, backward=True)
        self.order.settle(self.begins, self._look_on, backward=False)
        return self.found

    def _look_back(self, at: int) -> Iterable[int]:
        """Update `safe` of a node; return the nodes that depend on it, its predecessors, if it changed."""
        bits = self._ends(at)
        if bits == self.safe[at]:
            return ()
        self.safe[at] = bits
        return self.order.before[at]

    def _ends(self, at: int) -> int:
        """Return the scenarios in which the node can run and end, based on what is known about its successors."""
        paths, safe = self.paths, self.safe
        if at in paths.stops:  # it may end its branch and so not arrive, as the scenario requires
            return self.all
        bits = self.all & ~self.barred.get(at, 0)  # a source that follows its edges arrives
        for target in paths.sure[at]:
            bits &= safe[target]
        if at >= 0:
            for join in self.plan.nodes[at].arrives:
                bits &= safe[self.plan.joins[join].dst.index]
        for choice in paths.choices[at]:
            if choice.names == SOME or OUT in choice.targets:
                continue  # the router may name no node, which ends this branch
            bits &= self._all_end(choice) if choice.names == ALL else self._one_ends(choice)
        # A goto or on_error replaces all edges, including the arrival at a join, so a barred source may run.
        for target in paths.instead[at]:
            bits |= safe[target]
        return bits

    def _all_end(self, choice: Choice) -> int:
        """Return the scenarios in which every target of the choice can run and end."""
        bits = self.all
        for target in choice.targets:
            if target != OUT:
                bits &= self.safe[target]
        return bits

    def _one_ends(self, choice: Choice) -> int:
        """Return the scenarios in which some target of the choice can run and end; END is not among the targets."""
        bits = 0
        for target in choice.targets:
            bits |= self.safe[target]
        return bits

    def _look_on(self, at: int) -> Iterable[int]:
        """Update `found` of a node; return its successors if it changed. Executions begin at START."""
        bits = self.begins.get(at, 0) | self._incoming(at) if at >= 0 else self.all
        bits &= self.safe[at]
        if not bits & ~self.found[at]:
            return ()
        self.found[at] |= bits
        return self.paths.after[at]

    def _incoming(self, at: int) -> int:
        """Return the scenarios in which some edge or join leads to the node."""
        paths, found = self.paths, self.found
        bits = 0
        waits: set[int] = set()  # sources of joins before the node; their edges are not followed one by one
        for join in self.joins.get(at, ()):
            waits |= join.sources
            if join.need == len(join.sources):  # needs all of them; for "any" or n, one source is treated as enough
                scenarios = self.all
                for source in join.sources:
                    scenarios &= found[source]
            else:
                scenarios = 0
                for source in join.sources:
                    scenarios |= found[source]
            bits |= scenarios
        for source in self.order.before[at]:
            if source not in waits or at in self._otherwise(source):
                scenarios = found[source]
                # A router that names ALL its targets runs this one only where the others can end as well.
                for choice in paths.choices[source]:
                    if choice.names == ALL and at in choice.targets:
                        scenarios &= self._all_end(choice)
                bits |= scenarios
        return bits

    def _otherwise(self, at: int) -> tuple[int, ...]:
        """Return the nodes that follow other than through a join; may contain OUT."""
        paths = self.paths
        branch_targets = tuple(target for choice in paths.choices[at] for target in choice.targets)
        return (*paths.sure[at], *branch_targets, *paths.instead[at], *paths.tired[at])
