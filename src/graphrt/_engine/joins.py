"""Generations of a join (rule R5): which sources arrived, and whether it has fired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from graphrt._engine.route import Routed
from graphrt._plan.tables import BranchPlan, JoinPlan
from graphrt.errors import StarvedJoinError, names

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


@final
class JoinState:
    """The open generation of one join."""

    __slots__ = ("arrived", "emptied", "fired", "plan")

    def __init__(self, plan: JoinPlan) -> None:
        self.plan = plan
        self.arrived: set[int] = set()
        self.fired = False
        self.emptied = False
        """Whether a router sent nothing to a source, and none has arrived since: a map over nothing."""

    def arrive(self, source: int) -> bool:
        """Count an arrival of *source*; True if the join fires now.

        Before it fires, a repeat counts once. After it fired, first arrivals of the remaining sources are absorbed;
        the generation closes when all have arrived, or when a counted source arrives again, which opens the next.
        """
        self.emptied = False
        if self.fired and source in self.arrived:
            self.arrived = set()
            self.fired = False
        self.arrived.add(source)
        fires = not self.fired and len(self.arrived) >= self.plan.need
        if fires:
            self.fired = True
        if self.fired and len(self.arrived) == len(self.plan.sources):
            self.arrived = set()
            self.fired = False
        return fires

    @property
    def starved(self) -> bool:
        """Whether sources arrived and the generation never fired."""
        return bool(self.arrived) and not self.fired

    def missing(self) -> list[int]:
        """Sources that did not arrive, by index."""
        return sorted(self.plan.sources - self.arrived)


def starved_error(engine: Engine, joins: Sequence[JoinState]) -> StarvedJoinError:
    """The error for *joins* that wait though nothing is due any more."""
    nodes = engine.plan.nodes
    first = joins[0]
    missing = [nodes[at].name for at in first.missing()]
    text = "; ".join(
        f"the join before {join.plan.dst.name!r} waits for {names(nodes[at].name for at in join.missing())}"
        for join in joins
    )
    return StarvedJoinError(
        f"Nothing is due any more, and {text}.",
        where=engine.where(),
        known=f"arrived: {names(nodes[at].name for at in sorted(first.arrived))}; needed: {first.plan.need}",
        fix="Route to every source of the join, or give it starved='run', starved='ignore' or when='any'.",
        join=first.plan.dst.name,
        node=first.plan.dst.name,
        nodes=tuple(missing),
    )


def empty(engine: Engine, branch: BranchPlan) -> list[JoinState]:
    """The router of *branch* returned an empty list: the joins that wait for what it could have started hear of it."""
    nodes = engine.plan.nodes
    reached = {target.index for target in branch.table.values() if target is not None}
    waiting = list(reached)
    while waiting:  # what follows those nodes by static edges does not run either
        for target in nodes[waiting.pop()].static:
            if target.index not in reached:
                reached.add(target.index)
                waiting.append(target.index)
    told = [join for join in engine.joins if not join.arrived and not join.plan.sources.isdisjoint(reached)]
    for join in told:
        join.emptied = True
    return told


def never_fired(engine: Engine) -> list[str]:
    """What to warn of at the end of a run: joins that nothing arrived at, since a router sent nothing to a source."""
    nodes = engine.plan.nodes
    return [
        f"The join before {join.plan.dst.name!r} never fired: a router returned an empty list, so nothing was started "
        f"that leads to {names(nodes[at].name for at in sorted(join.plan.sources))}. Give the join starved='run' to "
        "run it all the same, or starved='ignore' if this is meant."
        for join in engine.joins
        if join.emptied and join.plan.starved == "error"
    ]


def fire_starved(engine: Engine) -> list[JoinState]:
    """Nothing is due: the joins that fire with those that arrived, which are due now.

    Raises:
        StarvedJoinError: A join with starved="error" waits.
    """
    starved = [join for join in engine.joins if join.starved]
    emptied = [join for join in engine.joins if join.emptied and join.plan.starved == "run"]
    if not starved and not emptied:
        return []
    bad = [join for join in starved if join.plan.starved == "error"]
    if bad:
        raise starved_error(engine, bad)
    fired = [join for join in starved if join.plan.starved == "run"]
    routed = Routed()
    for join in fired:
        join.fired = True
    for join in emptied:  # nobody arrived: the next arrival opens a generation of its own
        join.emptied = False
    for join in (*fired, *emptied):
        routed.plain[join.plan.dst.index] = join.plan.dst
    engine.due = routed.due()
    return [*fired, *emptied]
