"""The open generation of one join (rule R5): which sources arrived, and whether it fired."""

from __future__ import annotations

from typing import final

from graphrt._plan.tables import JoinPlan


@final
class JoinState:
    """The open generation of one join."""

    __slots__ = ("arrived", "emptied", "fired", "plan")

    def __init__(self, plan: JoinPlan) -> None:
        self.plan = plan
        self.arrived: set[int] = set()
        """Sources that have arrived in this generation, by node index."""
        self.fired = False
        """Whether this generation has fired."""
        self.emptied = False
        """Whether a router returned an empty list where a source could have started, and no source has arrived since:
        a map over nothing (decision 0060)."""

    def arrive(self, source: int) -> bool:
        """Count an arrival of *source*; return True if the join fires now.

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
        """Whether sources have arrived and the generation has not fired."""
        return bool(self.arrived) and not self.fired

    def missing(self) -> list[int]:
        """Return the sources that have not arrived, as node indexes in ascending order."""
        return sorted(self.plan.sources - self.arrived)
