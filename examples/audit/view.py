"""The audit in a terminal: its graph, its step log, its findings, its verdict. It makes no decisions."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

from examples.audit.journal import Row
from examples.audit.report import Outcome, by_licence
from examples.audit.state import Decision, Finding, State
from graphrt import CompiledGraph
from graphrt.console import Column, Screen, Segment, cells, draw, duration, fit, size, table

_MARKS: Final = {"error": ("✗", "bad"), "warning": ("!", "warn"), "note": ("·", "faint")}
_NODE: Final = 9
"""Columns for a node's name in the step log."""
_MOST_ROWS: Final = 15
"""Rows of a table, unless they are grave."""


class Log:
    """The live step log: rows as they arrive, and the progress in between."""

    def __init__(self, screen: Screen, *, shown: bool) -> None:
        self._screen = screen
        self._shown = shown
        self._due: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._lock = Lock()

    def start(self) -> None:
        """Show the titles."""
        self._screen.line()
        self._line("step", "node", "tasks", "what it changed", "time", style="faint")

    def show(self, row: Row) -> None:
        """Show one row."""
        if not self._shown:
            return
        style = "bad" if row.failed else ""
        self._line(str(row.superstep), row.node, str(row.tasks), row.changed, duration(row.duration_s), style=style)

    def due(self, nodes: Sequence[str]) -> None:
        """Show which tasks run next."""
        with self._lock:
            self._due, self._done = Counter(nodes), Counter()
        self._busy()

    def tick(self, node: str) -> None:
        """Show that another task of *node* is done. Called from any worker thread."""
        with self._lock:
            self._done[node] += 1
        self._busy()

    def _busy(self) -> None:
        if not self._shown:
            return
        parts = [f"{node} {self._done[node]}/{n}" if n > 1 else node for node, n in self._due.items()]
        self._screen.busy(", ".join(parts) or None)

    def _line(self, step: str, node: str, tasks: str, changed: str, took: str, *, style: str) -> None:
        width = self._screen.width
        head: list[Segment] = [
            (fit(step, 4, right=True), style),
            "  ",
            (fit(node, _NODE), style or "name"),
            " ",
            (fit(tasks, 5, right=True), style),
        ]
        room = width - 4 - 2 - _NODE - 1 - 5 - 2 - 9
        if room >= 24:
            self._screen.line(*head, "  ", (fit(changed, room), style), (fit(took, 9, right=True), "faint"))
        elif style != "faint":  # narrow: the rest goes on the next line, and titles are dropped
            name = f"{step} {node}" if tasks == "1" else f"{step} {node} ({tasks})"
            self._screen.line((fit(name, width - 9), style or "name"), (fit(took, 9, right=True), "faint"))
            for line in textwrap.wrap(changed, max(10, width - 2)):
                self._screen.line("  ", (line, style or "faint"))


def show_head(screen: Screen, label: str, policy: str, reader: str) -> None:
    """Show the subject and the options of the audit."""
    screen.line()
    screen.line(("graphrt audit", "title"))
    paragraph(screen, label)
    paragraph(screen, f"policy {policy}; doubtful licences are read by {reader}", style="faint")


def show_graph(screen: Screen, graph: CompiledGraph[Any, Any, Any]) -> None:
    """Draw the graph."""
    screen.line()
    for line in draw(graph, screen.width):
        screen.line(*line)


def show_outcome(screen: Screen, outcome: Outcome) -> None:
    """Show licences, doubtful ones and findings."""
    state = outcome.state
    screen.busy(None)
    if state.packages:
        columns = [
            Column(title="licence", least=14),
            Column(title="family", rank=2),
            Column(title="n", right=True),
            Column(title="distributions", least=12, rank=1),
        ]
        groups = by_licence(state)
        rows = [[(g.licence, "name"), g.family, str(len(g.names)), (", ".join(g.names), "faint")] for g in groups]
        _table(screen, columns, rows)
    if state.doubts:
        _doubtful(screen, state)
    if state.findings:
        _findings(screen, state.findings, {decision.finding: decision for decision in state.decisions})


def show_verdict(screen: Screen, outcome: Outcome) -> None:
    """Show the verdict."""
    state, verdict = outcome.state, outcome.state.verdict
    assert verdict is not None  # a completed run has one
    screen.busy(None)
    screen.line()
    if state.trouble:
        paragraph(screen, f"! the model did not answer: {state.trouble}", style="warn")
    mark, word, style = ("✓", "passed", "verdict-good") if verdict.passed else ("✗", "failed", "verdict-bad")
    said = summary(outcome)
    if cells(said) + 10 <= screen.width:
        screen.line((f"{mark} {word}", style), f"  {said}")
    else:
        screen.line((f"{mark} {word}", style))
        paragraph(screen, said)
    facts = [_count(verdict.distributions, "distribution"), _count(verdict.files, "file"), size(state.size)]
    if outcome.usage.calls:
        facts += [_count(outcome.usage.calls, "question"), _count(outcome.usage.total_tokens, "token")]
    paragraph(screen, ", ".join([*facts, duration(outcome.elapsed_s)]), style="faint")


def summary(outcome: Outcome) -> str:
    """The findings as a clause."""
    verdict = outcome.state.verdict
    if verdict is None or not verdict.distributions:
        return f"there are no distributions in {outcome.label}"
    if not verdict.findings:
        return "nothing to object to"
    return f"{verdict.rejected or 'none'} of {_count(verdict.findings, 'finding')} rejected"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def paragraph(screen: Screen, text: str, *, style: str = "") -> None:
    """Show *text* in as many lines as it takes."""
    for line in textwrap.wrap(text, screen.width, break_on_hyphens=False):
        screen.line((line, style))


def _doubtful(screen: Screen, state: State) -> None:
    rows: list[list[Segment]] = []
    for key in state.doubts[:_MOST_ROWS]:
        package, opinion = state.package(key), state.opinions.get(key)
        read = (opinion.licence, "accent") if opinion else ("no answer", "bad")
        sure = f"{opinion.confidence:.0%}" if opinion else ""
        why = opinion.reason if opinion else package.claim.why
        rows.append([(package.facts.name, "name"), read, sure, (why, "faint")])
    columns = [
        Column(title="doubtful", least=10),
        Column(title="read as", least=14),
        Column(title="sure", right=True, rank=2),
        Column(title="because", least=16, rank=1, wrap=True),
    ]
    _table(screen, columns, rows, hidden=len(state.doubts) - len(rows))


def _findings(screen: Screen, found: Sequence[Finding], decisions: dict[str, Decision]) -> None:
    rows: list[list[Segment]] = []
    for finding in found:
        if finding.severity == "note" and len(rows) >= _MOST_ROWS:
            continue
        mark, style = _MARKS[finding.severity]
        decision = decisions.get(finding.id)
        accepted = decision is not None and decision.accept
        verb = "open" if decision is None else "accepted" if accepted else "rejected"
        name: Segment = (finding.package, "name")
        rows.append([(f"{mark} {finding.id}", style), name, finding.text, (verb, "good" if accepted else "bad")])
    columns = [
        Column(title="finding"),
        Column(title="distribution", least=8),
        Column(title="what", least=16, wrap=True),
        Column(title="decision", rank=1),
    ]
    _table(screen, columns, rows, hidden=len(found) - len(rows))


def _table(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Segment]], *, hidden: int = 0) -> None:
    screen.line()
    for line in table(columns, rows, screen.width):
        screen.line(*line)
    if hidden:
        paragraph(screen, f"and {hidden} more, in the report", style="faint")
