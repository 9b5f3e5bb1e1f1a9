"""`RouteExploration`: what a search through routes tried, found, took and could not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphrt.testing.exploring.report import Exploration, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteExploration:
    """What `explore_routes` tried and found."""

    graph: str
    """Name of the graph."""
    tried: int
    """How many paths were run."""
    states: int
    """How many different states they met."""
    findings: tuple[Finding, ...] = ()
    """0..n findings, each kind at each place once, with the shortest path that shows it."""
    tests: Mapping[str, str] = field(default_factory=dict[str, str])
    """The `replay` line of each finding to the source text of a pytest test that shows the bug."""
    taken: tuple[str, ...] = ()
    """Nodes, edges, routes and exits that some path took, in declared order; those of nested graphs have their path."""
    not_taken: tuple[str, ...] = ()
    """Those that no path took."""
    defaults: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Node to the labels of its router that only `default=` takes."""
    left_out: tuple[str, ...] = ()
    """What was not searched, and why: a bound that was reached, a router that was asked as it is. Empty if the search
    was complete."""
    notes: tuple[str, ...] = ()
    """What nodes do that a path cannot repeat: they read a clock, draw numbers, start threads or sleep."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search; what was found until then is there."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether every path was followed to an end or a known state, so that what was not taken is impossible."""
        return not self.left_out and not self.interrupted

    @property
    def unreached(self) -> tuple[str, ...]:
        """Nodes that no path reached, by their paths."""
        return tuple(arc.replace("node ", "", 1) for arc in self.not_taken if "node " in arc and " -" not in arc)

    def check(self) -> RouteExploration:
        """Return the exploration itself if nothing was found.

        Raises:
            AssertionError: Something was found; the text is that of `str()`.
        """
        if self.findings:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        lines = [
            str(
                Exploration(
                    graph=self.graph,
                    what="paths",
                    tried=self.tried,
                    findings=self.findings,
                    left_out=self.left_out,
                    interrupted=self.interrupted,
                )
            )
        ]
        lines += [f"Note: {note}" for note in self.notes]
        if self.not_taken:
            why = "Impossible with these alternatives" if self.complete else "Not taken within the bounds"
            lines.append(f"{why}: {'; '.join(self.not_taken)}")
        lines += [
            f"Only default= of {name!r} takes {', '.join(map(repr, labels))}." for name, labels in self.defaults.items()
        ]
        return "\n".join(lines)
