"""Reports of verdicts: a line for each mutant as it is tested, the survivors as findings at the end, and JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphrt.testing.mutate.first_run import Candidate
from graphrt.testing.mutate.verdicts import ALIVE, KILLED, Verdict, Verdicts


def counted(count: int, what: str) -> str:
    """Return "1 mutant", or "2 mutants"."""
    return f"{count} {what}{'s' * (count != 1)}"


def progress(verdict: Verdict, number: int, count: int) -> str:
    """Return the line of one mutant."""
    by = ""
    if verdict.status == "killed":
        by = f" by {verdict.test}"
    elif verdict.note:
        by = f": {verdict.note}"
    width = len(str(count))
    return f"[{number:>{width}}/{count}] {verdict.status:<9} {verdict.candidate.id}{by}"


def listed(candidate: Candidate) -> str:
    """Return the line of one mutant in a list."""
    tests = counted(len(candidate.tests), "test")
    if candidate.refused:
        tests = f"refused by compile(): {', '.join(candidate.refused)}"
    return f"{candidate.id}: {candidate.mutation.words} ({tests})"


def replay_line(candidate: Candidate, seed: int, targets: Sequence[str], arguments: Sequence[str]) -> str:
    """Return the command that tests one mutant again."""
    drawn = [f"--seed={seed}"] if seed else []
    words = ["python", "-m", "graphrt.testing.mutate", *targets, *drawn, f"--only={candidate.id}", "--", *arguments]
    return shlex.join(words)


def place(candidate: Candidate) -> str:
    """Return where the graph of a mutant was declared, and where the node was added that it changes."""
    graph, node = candidate.graph, candidate.mutation.node
    if not graph.file:
        return f"{candidate.title}, declared at an unknown place"
    file, here = Path(graph.file), Path.cwd()
    shown = (file.relative_to(here) if here in file.parents else file).as_posix()
    added = f", node {node} at {shown}:{graph.lines[node]}" if node in graph.lines else ""
    return f"{candidate.title}, declared at {shown}:{graph.line}{added}"


def terminal(verdicts: Verdicts) -> str:
    """Return the survivors and the score."""
    graphs = ", ".join(dict.fromkeys(verdicts.first.titles.values()))
    counts = [f"{len(verdicts.of(status))} {status}" for status in (*KILLED, *ALIVE) if verdicts.of(status)]
    score = f"mutation score: {verdicts.score:.1f}% of {counted(len(verdicts.found), 'mutant')}"
    return f"{verdicts.search.report(graphs)}\n{score} ({', '.join(counts) or 'none'})"


def case(verdict: Verdict) -> str:
    """Return which mutant a verdict is on, where its graph is, and which test came nearest to noticing it."""
    candidate = verdict.candidate
    lines = [candidate.id, place(candidate)]
    if verdict.test:
        over = f"took {', '.join(map(str, candidate.taken))}" if candidate.taken else "ran the graph"
        count = "the only one" if verdict.passed == 1 else f"of {verdict.passed} that passed"
        lines.append(f"nearest: {verdict.test} {over} and passed ({count})")
    return "\n".join([*lines, verdict.note] if verdict.note else lines)


def as_json(verdicts: Verdicts, targets: Sequence[str], arguments: Sequence[str]) -> str:
    """Return everything as JSON text."""
    data: dict[str, Any] = {
        "format": 1,
        "targets": list(targets),
        "pytest": list(arguments),
        "seed": verdicts.first.seed,
        "score": round(verdicts.score, 2),
        "interrupted": verdicts.search.interrupted,
        "mutants": len(verdicts.candidates),
        "left_out": verdicts.left_out,
        "counts": {status: len(verdicts.of(status)) for status in (*KILLED, *ALIVE)},
        "verdicts": [_verdict_json(verdicts, verdict, targets, arguments) for verdict in verdicts.found],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _verdict_json(
    verdicts: Verdicts, verdict: Verdict, targets: Sequence[str], arguments: Sequence[str]
) -> dict[str, Any]:
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
        "replay": replay_line(candidate, verdicts.first.seed, targets, arguments),
    }
