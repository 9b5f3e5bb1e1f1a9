"""The report: an Outcome as Markdown for people and as JSON for programs. Pure; it writes nothing to disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from examples.audit.journal import Row
from examples.audit.spdx import FAMILIES, Family, family
from examples.audit.state import UNKNOWN, State
from graphrt.console import duration, size
from graphrt.harness import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The parts of a report."""

    state: State
    usage: Usage
    rows: Sequence[Row]
    elapsed_s: float
    at: float
    """Time of its end, in seconds since the epoch."""
    label: str
    reader: str
    """The reader of the doubtful licences."""
    command: str
    versions: str
    mermaid: str
    fingerprint: str
    page: str = ""
    """The run as an HTML page, or an empty string."""


class LicenceGroup(NamedTuple):
    """The distributions under one licence."""

    licence: str
    family: Family
    names: list[str]


def by_licence(state: State) -> list[LicenceGroup]:
    """The distributions by licence: the least free families first, then the largest groups."""
    names: dict[str, list[str]] = {}
    for package in state.packages:
        names.setdefault(state.licences.get(package.facts.key, UNKNOWN), []).append(package.facts.name)
    groups = [LicenceGroup(licence, family(licence), found) for licence, found in names.items()]
    return sorted(groups, key=lambda group: (-FAMILIES.index(group.family), -len(group.names), group.licence))


def to_json(outcome: Outcome) -> str:
    """The report as JSON text."""
    state, usage = outcome.state, outcome.usage
    decisions = {decision.finding: decision.model_dump(exclude={"finding"}) for decision in state.decisions}
    data: dict[str, Any] = {
        "environment": outcome.label,
        "at": _when(outcome.at),
        "verdict": state.verdict.model_dump() if state.verdict else None,
        "policy": state.policy.model_dump(),
        "bytes": state.size,
        "sources": state.sources,
        "licences": {group.licence: len(group.names) for group in by_licence(state)},
        "findings": [{**f.model_dump(), "decision": decisions.get(f.id)} for f in state.findings],
        "doubtful": [
            {
                "name": state.package(key).facts.name,
                "claim": state.package(key).claim.model_dump(),
                "opinion": state.opinions[key].model_dump() if key in state.opinions else None,
                "licence": state.licences.get(key),
            }
            for key in state.doubts
        ],
        "trouble": state.trouble or None,
        "distributions": [
            {
                **package.facts.model_dump(exclude={"key", "text", "field", "expression", "classifiers"}),
                "licence": state.licences.get(package.facts.key, UNKNOWN),
                "licence_source": package.claim.source,
            }
            for package in state.packages
        ],
        "usage": {
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
            "reader": outcome.reader,
        },
        "steps": [row._asdict() for row in outcome.rows],
        "graph": {"fingerprint": outcome.fingerprint, "mermaid": outcome.mermaid},
        "elapsed_s": round(outcome.elapsed_s, 3),
        "versions": outcome.versions,
        "command": outcome.command,
    }
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def to_markdown(outcome: Outcome) -> str:
    """The report as Markdown text."""
    state = outcome.state
    return "\n".join(
        [
            "# Audit of the installed distributions",
            "",
            *_summary(outcome),
            *_findings(state),
            *_doubtful(state),
            *_section(
                "Licences",
                ("Licence", "Family", "Count", "Distributions"),
                [(g.licence, g.family, len(g.names), ", ".join(g.names)) for g in by_licence(state)],
            ),
            *_section(
                "Distributions",
                ("Name", "Version", "Licence", "Known from", "Size", "Files", "Installed", "Homepage"),
                [
                    (
                        p.facts.name,
                        p.facts.version,
                        state.licences.get(p.facts.key, UNKNOWN),
                        p.claim.source,
                        "editable" if p.facts.editable else size(p.facts.size_bytes),
                        f"{p.facts.files:,}",
                        _when(p.facts.installed_at)[:10] if p.facts.installed_at else "",
                        p.facts.homepage,
                    )
                    for p in state.packages
                ],
            ),
            *_section(
                "How it ran",
                ("Superstep", "Node", "Tasks", "What it changed", "Time"),
                [(r.superstep, r.node, r.tasks, r.changed, duration(r.duration_s)) for r in outcome.rows],
            ),
            "```mermaid",
            outcome.mermaid.rstrip(),
            "```",
            "",
            "## Do it again",
            "",
            "```console",
            outcome.command,
            "```",
            "",
            f"{outcome.versions}; graph fingerprint `{outcome.fingerprint[:16]}`.",
            "",
        ]
    )


def _summary(outcome: Outcome) -> list[str]:
    state, usage, verdict = outcome.state, outcome.usage, outcome.state.verdict
    policy = state.policy
    rows: list[tuple[str, object]] = [("Environment", outcome.label), ("Date", _when(outcome.at))]
    if verdict is not None:
        rejected = f"{verdict.rejected} of {verdict.findings} findings rejected"
        rows.insert(0, ("Verdict", f"**{'passed' if verdict.passed else 'failed'}**, {rejected}"))
        rows.append(("Distributions", f"{verdict.distributions:,} with {verdict.files:,} files, {size(state.size)}"))
        rows.append(("Doubtful licences", f"{verdict.doubtful}, of which {verdict.settled} settled by their text"))
    rows.append(("Policy", f"{policy.name}: allows {', '.join(policy.allow) or 'nothing'}"))
    if policy.deny:
        rows.append(("", f"denies {', '.join(policy.deny)}"))
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    rows.append(("Questions", f"{usage.calls} to {outcome.reader}: {usage.total_tokens:,} tokens{cost}"))
    if state.trouble:
        rows.append(("Trouble", f"the model did not answer: {state.trouble}"))
    rows.append(("Time", duration(outcome.elapsed_s)))
    return [*_table(("", ""), rows), ""]


def _findings(state: State) -> list[str]:
    decisions = {decision.finding: decision for decision in state.decisions}
    rows: list[tuple[object, ...]] = []
    for finding in state.findings:
        made = decisions.get(finding.id)
        verb = "open" if made is None else "accepted" if made.accept else "rejected"
        decided = verb if made is None else f"{verb} by {made.by}: {made.reason}"
        rows.append((finding.id, finding.severity, f"{finding.package} {finding.version}", finding.text, decided))
    return _section("Findings", ("", "Severity", "Distribution", "What", "Decision"), rows, none="None.")


def _doubtful(state: State) -> list[str]:
    rows: list[tuple[object, ...]] = []
    for key in state.doubts:
        package, opinion = state.package(key), state.opinions.get(key)
        read = f"{opinion.licence} ({opinion.confidence:.0%})" if opinion else "no answer"
        rows.append(
            (
                package.facts.name,
                package.claim.why,
                read,
                opinion.reason if opinion else "",
                state.licences.get(key, UNKNOWN),
            )
        )
    titles = ("Distribution", "Doubt", "Read as", "Reason", "Counts as")
    return _section("Doubtful licences", titles, rows, none="None: the metadata settles them all.")


def _section(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]], *, none: str = "None.") -> list[str]:
    return [f"## {title}", "", *(_table(heads, rows) if rows else [none]), ""]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    def line(cells: Iterable[object]) -> str:
        return f"| {' | '.join(_cell(str(cell)) for cell in cells)} |"

    return [line(heads), f"|{' --- |' * len(heads)}", *(line(row) for row in rows)]


def _cell(text: str) -> str:
    """Text that cannot end a cell or become markup; ** is our own."""
    text = " ".join(text.split())
    for char, instead in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("[", "\\["), ("`", "\\`"), ("_", "\\_")):
        text = text.replace(char, instead)
    return text


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
