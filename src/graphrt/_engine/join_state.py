"""The open generation of one join (rule R5): which sources arrived, and whether it fired.

`joins` explains the terms and operates on the state of a run. This is a separate module because that state contains
generations. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import final

from graphrt._plan.tables import JoinPlan

JoinKey = tuple[str, tuple[str, ...]]
"""Identifies a join in a journal: the name of its node, and the sorted names of its sources."""


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
        """Whether a router returned an empty list where a source could have started, and no source has arrived since (a
        map over nothing, decision 0060). When nothing is due any more, this join may run or cause a warning."""

    def arrive(self, source: int) -> bool:
        """Count an arrival of *source*, a node index.

        Returns True if the join fires now. Before the join fires, repeated arrivals count once. After it has fired,
        first arrivals of the remaining sources are absorbed. The generation closes when all have arrived, or when a
        counted source arrives again, which opens the next.
        """
        self.emptied = False
        if self.fired and source in self.arrived:  # its second arrival opens the next generation
            self.arrived = set()
            self.fired = False
        self.arrived.add(source)
        fires = not self.fired and len(self.arrived) >= self.plan.need
        if fires:
            self.fired = True
        self._close_if_all_arrived()
        return fires

    def restore(self, arrived: set[int], *, fired: bool, emptied: bool) -> None:
        """Set the generation to one that was stored, perhaps by an older graph with other sources or another `need`."""
        self.arrived, self.fired, self.emptied = arrived, fired, emptied
        self._close_if_all_arrived()

    def _close_if_all_arrived(self) -> None:
        if self.fired and len(self.arrived) == len(self.plan.sources):
            self.arrived = set()
            self.fired = False

    @property
    def is_overdue(self) -> bool:
        """True if enough sources have arrived but the join has not fired: a changed graph needs fewer sources."""
        return not self.fired and len(self.arrived) >= self.plan.need

    @property
    def starved(self) -> bool:
        """True if sources have arrived but the generation has not fired. The engine asks when no more tasks are due."""
        return bool(self.arrived) and not self.fired

    def missing(self) -> list[int]:
        """Return the sources that have not arrived, as node indexes in ascending order, for an error."""
        return sorted(self.plan.sources - self.arrived)
