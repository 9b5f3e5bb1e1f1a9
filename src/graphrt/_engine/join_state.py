"""The open generation of one join (rule R5): which sources arrived, and whether it fired.

A join is a node that waits for other nodes, its *sources*. A source *arrives* when it has finished and its edges apply.
The join *fires*, that is, its node becomes due, once `need` distinct sources have arrived: all, one, or a given number.
Arrivals are counted in *generations*, so that a join in a loop can fire again. Only the open one is kept.
"""

from __future__ import annotations

from typing import final

from graphrt._plan.tables import JoinPlan


@final
class JoinState:
    """The open generation of one join. `RunState.joins` has one for each join of the graph, for the whole run."""

    __slots__ = ("arrived", "emptied", "fired", "plan")

    def __init__(self, plan: JoinPlan) -> None:
        self.plan = plan
        """The join in the graph: its node `dst`, the node indexes of its `sources`, and `need`."""
        self.arrived: set[int] = set()
        """Sources that have arrived in this generation, by node index."""
        self.fired = False
        """Whether this generation has fired."""
        self.emptied = False
        """Whether a router returned an empty list where a source could have started, and no source has arrived since:
        a map over nothing (decision 0060). When nothing is due any more, such a join may run, or give a warning."""

    def arrive(self, source: int) -> bool:
        """Count an arrival of *source*, a node index; return True if the join fires now.

        Before it fires, a repeat counts once. After it fired, first arrivals of the remaining sources are absorbed;
        the generation closes when all have arrived, or when a counted source arrives again, which opens the next.
        """
        self.emptied = False
        if self.fired and source in self.arrived:  # its second arrival opens the next generation
            self.arrived = set()
            self.fired = False
        self.arrived.add(source)
        fires = not self.fired and len(self.arrived) >= self.plan.need
        if fires:
            self.fired = True
        if self.fired and len(self.arrived) == len(self.plan.sources):  # all have arrived: the generation closes
            self.arrived = set()
            self.fired = False
        return fires

    @property
    def starved(self) -> bool:
        """True if sources have arrived but the generation has not fired. The engine asks when no more tasks are due."""
        return bool(self.arrived) and not self.fired

    def missing(self) -> list[int]:
        """Return the sources that have not arrived, as node indexes in ascending order, for an error."""
        return sorted(self.plan.sources - self.arrived)
