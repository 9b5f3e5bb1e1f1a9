"""Reports of verdicts: findings about mutants, the score, and JSON."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from graphrt.testing.exploring.search import Search
from graphrt.testing.mutate.first_run import Candidate, FirstRun
from graphrt.testing.mutate.verdicts import ALIVE, KILLED, Verdict, score

JSON_BEGINS: Final = rb'\{\s+"format": 1,\s+"targets": \['
"""The beginning of every text that `as_json` makes, as a regular expression."""


def counted(count: int, what: str) -> str:
    """Return "1 mutant", or "2 mutants"."""
    return f"{count} {what}{'s' * (count != 1)}"


def listed(candidate: Candidate) -> str:
    """Return the line of one mutant in a list."""
    tests = counted(len(candidate.tests), "test")
    if candidate.refused:
        tests = f"refused by compile(): {', '.join(candidate.refused)}"
    return f"{candidate.id}: {candidate.mutation.words} ({tests})"


def replay_line(candidate: Candidate, first: FirstRun, arguments: Sequence[str]) -> str:
    """Return the command that tests one mutant again; *arguments* are those of pytest."""
    drawn = [f"--seed={first.seed}"] if first.seed else []
    words = ["python", "-m", "graphrt.testing.mutate", *first.targets, *drawn, f"--only={candidate.id}", "--"]
    return shlex.join([*words, *arguments])


def place(candidate: Candidate) -> str:
    """Return where the graph of a mutant was declared, and where the changed node was added."""
    graph, node = candidate.graph, candidate.mutation.node
    if not graph.file:
        return f"{candidate.title}, declared at an unknown place"
    file, here = Path(graph.file), Path.cwd()
    shown = (file.relative_to(here) if here in file.parents else file).as_posix()
    added = f", node {node} at {shown}:{graph.lines[node]}" if node in graph.lines else ""
    return f"{candidate.title}, declared at {shown}:{graph.line}{added}"


def score_line(verdicts: Sequence[Verdict]) -> str:
    """Return the score, and the number of mutants by outcome."""
    counts = [f"{count} {status}" for status, count in _counts(verdicts).items() if count]
    line = f"mutation score: {score(verdicts):.1f}% of {counted(len(verdicts), 'mutant')}"
    return f"{line} ({', '.join(counts) or 'none'})"


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    counts = Counter(verdict.status for verdict in verdicts)
    return {status: counts[status] for status in (*KILLED, *ALIVE)}


def case(verdict: Verdict) -> str:
    """Return the mutant of a verdict, the location of its graph, and the test that came nearest to detecting it."""
    candidate = verdict.candidate
    lines = [candidate.id, place(candidate)]
    if verdict.test:
        over = f"took {', '.join(map(str, candidate.taken))}" if candidate.taken else "ran the graph"
        count = "the only one" if verdict.passed == 1 else f"of {verdict.passed} that passed"
        lines.append(f"nearest: {verdict.test} {over} and passed ({count})")
    return "\n".join([*lines, verdict.note] if verdict.note else lines)


def as_json(first: FirstRun, search: Search[Verdict], verdicts: Sequence[Verdict], arguments: Sequence[str]) -> str:
    """Return everything as JSON text; *arguments* are those of pytest."""
    data: dict[str, Any] = {
        "format": 1,
        "targets": list(first.targets),
        "pytest": list(arguments),
        "seed": first.seed,
        "score": round(score(verdicts), 2),
        "interrupted": search.interrupted,
        "mutants": search.total,
        "left_out": list(search.left_out),
        "counts": _counts(verdicts),
        "verdicts": [_verdict_json(first, verdict, arguments) for verdict in verdicts],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _verdict_json(first: FirstRun, verdict: Verdict, arguments: Sequence[str]) -> dict[str, Any]:
    candidate = verdict.candidate
    return {
        "id": candidate.id,
        "operator": candidate.mutation.operator,
        "change": candidate.mutation.words,
        "graph": candidate.title,
        "file": candidate.graph.file,
        "line": candidate.graph.lines.get(candidate.mutation.node, candidate.graph.line),
        "arcs": [arc.id for arc in candidate.mutation.arcs],
        "status": verdict.status,
        "test": verdict.test,
        "note": verdict.note,
        "tests": list(candidate.tests),
        "passed": verdict.passed,
        "seconds": round(verdict.seconds, 3),
        "replay": replay_line(candidate, first, arguments),
    }
