"""The report of a search: `Exploration`, its `Counterexample`s, and the progress of a search that is still running."""

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
class Counterexample:
    """A bug found in one of the cases that a search tried."""

    kind: str
    """The kind of bug, such as `order-dependent-result`: the same for all findings of that kind."""
    text: str
    """The problem, with the values that differ: 1..n lines."""
    case: str
    """The smallest case that shows it: an order, a crash, a path through the graph."""
    replay: str
    """A line of Python that tries this case alone."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}\n  case: {indent(self.case, '  ').strip()}\n  replay: {self.replay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The tried cases and the findings of a search."""

    graph: str
    """Name of the graph."""
    what: str
    """The searched things, in plural: `schedules`, `crashes`, `forks`, `paths`, `mutants`."""
    tried: int
    """Number of cases tried."""
    findings: tuple[Counterexample, ...] = ()
    """Findings, 0..n: each kind at each place once, with its smallest case; the smallest cases first."""
    left_out: tuple[str, ...] = ()
    """Parts that were not searched, and why: a bound that was reached, a node that does I/O. Empty if the search was
    complete."""
    noted: tuple[str, ...] = ()
    """Actions of nodes that no search can order or repeat, with the node's name: it reads the wall clock, draws its
    own random numbers, starts threads, sleeps for real, keeps objects outside the state. They are not findings."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search; the findings up to then are kept."""
    states: int = 0
    """Number of distinct states on the paths of `explore_routes`."""
    tests: Mapping[str, str] = field(default_factory=dict[str, str])
    """The `replay` line of each finding of `explore_routes` to the source text of a pytest test that shows the bug."""
    taken: tuple[str, ...] = ()
    """Nodes, edges, routes and exits that some path of `explore_routes` took, in declared order; those of nested graphs
    have their path."""
    not_taken: tuple[str, ...] = ()
    """Those that no path took."""
    defaults: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Maps a node to the labels of its router that only `default=` takes."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether nothing was left out. If so, arcs that `explore_routes` did not take are impossible."""
        return not self.left_out and not self.interrupted

    @property
    def unreached(self) -> tuple[str, ...]:
        """Nodes that no path of `explore_routes` reached, by their paths."""
        return tuple(arc.replace("node ", "", 1) for arc in self.not_taken if "node " in arc and " -" not in arc)

    def check(self) -> Exploration:
        """Return the exploration itself if there are no findings.

        Raises:
            AssertionError: There are findings; the text is that of `str()`.
        """
        if self.findings:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        count = (
            f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}" if self.findings else "no finding"
        )
        lines = [f"{self.graph}: {self.tried:,} {self.what} tried, {count}."]
        lines += [f"{number}. {finding}" for number, finding in enumerate(self.findings, 1)]
        lines += [f"Not searched: {reason}" for reason in self.left_out]
        lines += [f"Noted: {note}" for note in self.noted]
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
    """Reports the progress of a search, at most once a second.

    Args:
        what: What is searched, in plural.
        progress: Takes the lines; True writes them to stderr; False and None write nothing.
    """

    def __init__(
        self,
        what: str,
        progress: Callable[[str], object] | bool | None = None,  # noqa: FBT001 - the value of `progress=`, passed on
    ) -> None:
        self._what = what
        self._report = progress if callable(progress) else _to_stderr if progress else None
        self._last = monotonic()

    def at(self, tried: int, found: int, of: int | None = None) -> None:
        """Report that *tried* cases, out of *of* if known, gave *found* findings."""
        if self._report is None or monotonic() < self._last + _EVERY_S:
            return
        self._last = monotonic()
        self._report(f"{tried:,}{'' if of is None else f' of {of:,}'} {self._what} tried, {found} found")


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
