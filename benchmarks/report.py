"""Turns the measurements of the children into rows, verdicts, a Markdown table and JSON. It measures nothing itself."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.catalogue import LIBRARIES, Target, Work

YARDSTICK, SUBJECT = "handwritten", "graphrt"


@dataclass(slots=True, kw_only=True)
class Cell:
    """The results of one library for one row: a value per round, or the reason why there is none."""

    rounds: dict[int, float] = field(default_factory=dict)
    note: str = ""

    @property
    def value(self) -> float | None:
        return statistics.median(self.rounds.values()) if self.rounds else None


@dataclass(slots=True, kw_only=True)
class Row:
    work: Work
    size: int
    cells: dict[str, Cell] = field(default_factory=dict)

    def cell(self, library: str) -> Cell:
        return self.cells.setdefault(library, Cell())

    def paired(self, library: str, other: Row | None = None) -> list[tuple[float, float]]:
        """(library, yardstick) of each round; with *other*, (this row, that row) of the library."""
        mine = self.cell(library).rounds
        theirs = self.cell(YARDSTICK).rounds if other is None else other.cell(library).rounds
        return [(mine[i], theirs[i]) for i in sorted(mine.keys() & theirs.keys())]

    def ratio(self, library: str) -> float | None:
        """The median over the rounds of library / hand-written."""
        pairs = [(mine, hand) for mine, hand in self.paired(library) if hand > 0]
        return statistics.median(mine / hand for mine, hand in pairs) if pairs else None


def record(row: Row, library: str, round_: int, answer: Mapping[str, Any]) -> None:
    """Add the answer of one child about *row*."""
    cell, work = row.cell(library), row.work
    result = answer.get("sizes", {}).get(str(row.size))
    if answer.get("absent"):
        cell.note = "-"
    elif "error" in answer:
        cell.note = "failed"
    elif result is None or "skipped" in result:
        cell.note = "-" if result is None else str(result["skipped"])
    else:
        cell.rounds[round_] = result[work.clock] / work.units(row.size) * work.scale


def number(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def show(row: Row, library: str) -> str:
    cell = row.cell(library)
    if cell.value is None:
        return cell.note or "-"
    ratio = None if library == YARDSTICK or row.work.kind == "memory" else row.ratio(library)
    return number(cell.value) if ratio is None else f"{number(cell.value)} (x{number(ratio)})"


def verdicts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(target, verdict) of each row of one workload, in order; empty without a target or a measurement."""
    found: list[tuple[str, str]] = []
    for row in rows:
        target = row.work.target or Target()
        judgements = list(judged(target, row, rows))
        missed = [text for text, held in judgements if not held]
        verdict = "pass" if judgements else ""
        if missed:
            verdict = f"**miss** {'; '.join(missed)}"
        elif row.cell(SUBJECT).note == "failed":
            verdict = "**failed**"
        found.append((wanted(target, row, rows), verdict))
    return found


def wanted(target: Target, row: Row, rows: Sequence[Row]) -> str:
    parts = [] if target.ratio is None else [f"<= x{target.ratio:g}"]
    if row is rows[-1]:
        if target.growth is not None and len(rows) > 1:
            parts.append(f"<= {target.growth:g} of n={rows[0].size:,}")
        if target.most is not None:
            parts.append(f"<= {target.most:g} {row.work.unit}")
    if target.over is not None:
        parts.append(f"<= +{target.over:g} {row.work.unit}")
    return ", ".join(parts)


def judged(target: Target, row: Row, rows: Sequence[Row]) -> Iterable[tuple[str, bool]]:
    """The targets that this row can evaluate, each with the result and whether it is met."""
    ratio, value = row.ratio(SUBJECT), row.cell(SUBJECT).value
    if target.ratio is not None and ratio is not None:
        yield f"x{ratio:.2f}", ratio <= target.ratio
    if target.over is not None and row.paired(SUBJECT):
        over = statistics.median(mine - hand for mine, hand in row.paired(SUBJECT))
        yield f"+{over:.0f}", over <= target.over
    if row is not rows[-1]:
        return
    if target.growth is not None and len(rows) > 1:
        pairs = row.paired(SUBJECT, rows[0])
        if pairs:
            growth = statistics.median(large / small for large, small in pairs)
            yield f"grows {growth:.2f}", growth <= target.growth
    if target.most is not None and value is not None:
        yield number(value), value <= target.most


def grouped(rows: Iterable[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.work.name, []).append(row)
    return list(groups.values())


def markdown(rows: Sequence[Row], libraries: Sequence[str], versions: Mapping[str, str], about: str) -> str:
    """The whole report: one line about the run, and one table."""
    names = [f"{LIBRARIES[name][1]} {versions.get(name, '')}".strip() for name in libraries]
    lines = [
        "# Benchmarks",
        "",
        about,
        "Medians; `x` is the ratio to the hand-written loop in the same round. `-`: the library does not offer it.",
        "",
        "| " + " | ".join(["work", "n", "unit", *names, "target for graphrt", "verdict"]) + " |",
        "|" + "---|" * (len(names) + 5),
    ]
    for group in grouped(rows):
        for row, (target, verdict) in zip(group, verdicts(group), strict=True):
            cells = [show(row, name) for name in libraries]
            title = [row.work.title, f"{row.size:,}", row.work.unit]
            lines.append("| " + " | ".join([*title, *cells, target, verdict]) + " |")
    return "\n".join(lines) + "\n"


def data(rows: Sequence[Row], libraries: Sequence[str], versions: Mapping[str, str], about: str) -> dict[str, Any]:
    """The same as plain data, with the value of every round."""
    found = []
    for group in grouped(rows):
        for row, (target, verdict) in zip(group, verdicts(group), strict=True):
            cells = {
                name: {"median": row.cell(name).value, "ratio": row.ratio(name), "note": row.cell(name).note,
                       "rounds": list(row.cell(name).rounds.values())}
                for name in libraries
            }  # fmt: skip
            found.append({"work": row.work.name, "n": row.size, "unit": row.work.unit, "clock": row.work.clock,
                          "libraries": cells, "target": target, "verdict": verdict})  # fmt: skip
    return {"about": about, "versions": dict(versions), "rows": found}
