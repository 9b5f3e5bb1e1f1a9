"""What a search reports: `Exploration`, its `Finding`s, and the progress of a search that is still running."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import indent
from time import monotonic
from typing import final

_EVERY_S = 1.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that went wrong in one of the cases that a search tried."""

    kind: str
    """What kind of bug it is, such as `order-dependent-result`: the same for all findings of that kind."""
    text: str
    """What went wrong, with the values that differ: 1..n lines."""
    case: str
    """The smallest case that shows it: an order, a crash, a path through the graph."""
    replay: str
    """A line of Python that tries this case alone."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}\n  case: {indent(self.case, '  ').strip()}\n  replay: {self.replay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What a search tried and found."""

    graph: str
    """Name of the graph."""
    what: str
    """What was searched, in plural: `schedules`, `crashes`, `forks`, `paths`, `mutants`."""
    tried: int
    """How many cases were tried."""
    findings: tuple[Finding, ...] = ()
    """0..n findings, each kind at each place once, with its smallest case; those with the smallest cases first."""
    left_out: tuple[str, ...] = ()
    """What was not searched, and why: a bound that was reached, a node that does I/O. Empty if the search was
    complete."""
    noted: tuple[str, ...] = ()
    """What nodes do that no search can order or repeat, with the node's name: it reads the wall clock, draws its own
    random numbers, starts threads, sleeps for real, keeps objects outside the state. None of it is a finding."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search; what was found until then is there."""
    states: int = 0
    """How many different states the paths of `explore_routes` met."""
    tests: Mapping[str, str] = field(default_factory=dict[str, str])
    """The `replay` line of each finding of `explore_routes` to the source text of a pytest test that shows the bug."""
    taken: tuple[str, ...] = ()
    """Nodes, edges, routes and exits that some path of `explore_routes` took, in declared order; those of nested graphs
    have their path."""
    not_taken: tuple[str, ...] = ()
    """Those that no path took."""
    defaults: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Node to the labels of its router that only `default=` takes."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether nothing was left out. What `explore_routes` did not take is impossible then."""
        return not self.left_out and not self.interrupted

    @property
    def unreached(self) -> tuple[str, ...]:
        """Nodes that no path of `explore_routes` reached, by their paths."""
        return tuple(arc.replace("node ", "", 1) for arc in self.not_taken if "node " in arc and " -" not in arc)

    def check(self) -> Exploration:
        """Return the exploration itself if nothing was found.

        Raises:
            AssertionError: Something was found; the text is that of `str()`.
        """
        if self.findings:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        found = (
            f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}" if self.findings else "no finding"
        )
        lines = [f"{self.graph}: {self.tried:,} {self.what} tried, {found}."]
        lines += [f"{number}. {finding}" for number, finding in enumerate(self.findings, 1)]
        lines += [f"Not searched: {reason}" for reason in self.left_out]
        lines += [f"Noted: {what}" for what in self.noted]
        if self.not_taken:
            why = "Impossible with these alternatives" if self.complete else "Not taken within the bounds"
            lines.append(f"{why}: {'; '.join(self.not_taken)}")
        for name, labels in self.defaults.items():
            lines.append(f"Only default= of {name!r} takes {', '.join(map(repr, labels))}.")
        if self.interrupted:
            lines.append("The search was interrupted.")
        return "\n".join(lines)


@final
class Progress:
    """Tells how far a search is, at most once a second.

    Args:
        what: What is searched, in plural.
        tell: Gets the lines; True writes them to stderr; False and None write nothing.
    """

    def __init__(
        self,
        what: str,
        tell: Callable[[str], object] | bool | None = None,  # noqa: FBT001 - the value of `tell=`, passed on
    ) -> None:
        self._what = what
        self._tell = tell if callable(tell) else _to_stderr if tell else None
        self._last = monotonic()

    def at(self, tried: int, found: int, of: int | None = None) -> None:
        """Tell that *tried* cases, out of *of* if that is known, gave *found* findings."""
        if self._tell is None or monotonic() < self._last + _EVERY_S:
            return
        self._last = monotonic()
        self._tell(f"{tried:,}{'' if of is None else f' of {of:,}'} {self._what} tried, {found} found")


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
