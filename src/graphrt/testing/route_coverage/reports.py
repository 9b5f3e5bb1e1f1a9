"""Reports of route coverage as text: for terminals, for other programs, and for services that show code coverage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from graphrt._display import safe, safe_json
from graphrt.testing.route_coverage.arcs import KINDS, Arc
from graphrt.testing.route_coverage.summary import GraphSummary, Summary


def percent(value: float) -> str:
    """Return a percentage that is "100%" only if nothing is missing."""
    return f"{min(int(value), 99) if value < 100 else 100}%"


def terminal(summary: Summary, *, missing: bool = True) -> str:
    """Return a table of the graphs, each with the arcs that were not taken.

    Args:
        missing: Whether to list these arcs.
    """
    width = max([len("graph"), len("TOTAL"), *(len(safe(graph.title)) for graph in summary.graphs)])
    lines = [f"{'graph':{width}}  {'arcs':>5}  {'taken':>5}  {'missed':>6}  {'cover':>5}"]
    lines.append("-" * len(lines[0]))
    for graph in summary.graphs:
        lines.append(_row(safe(graph.title), width, graph.count, len(graph.taken), graph.percent))
        if missing:
            lines += [f"    {safe(str(arc))}{_explored(graph, arc)}" for arc in graph.missing]
    if len(summary.graphs) != 1:
        lines.append("-" * len(lines[0]))
        lines.append(_row("TOTAL", width, summary.count, summary.taken, summary.percent))
    return "\n".join(lines)


def _explored(graph: GraphSummary, arc: Arc) -> str:
    """Return what explorers know about an arc that no test took."""
    if arc in graph.possible:
        return "  (possible: an explorer took it)"
    return "  (impossible: no explored path takes it)" if arc in graph.impossible else ""


def _row(title: str, width: int, count: int, taken: int, cover: float) -> str:
    return f"{title:{width}}  {count:5}  {taken:5}  {count - taken:6}  {percent(cover):>5}"


def as_json(summary: Summary) -> str:
    """Return every arc with whether it was taken, and by which tests."""
    data = {
        "percent": round(summary.percent, 2),
        "arcs": summary.count,
        "taken": summary.taken,
        "graphs": [
            {
                "graph": graph.title,
                "name": graph.graph.name,
                "path": graph.path,
                "file": graph.graph.file,
                "line": graph.graph.line,
                "percent": round(graph.percent, 2),
                "arcs": [
                    {
                        **_arc(arc),
                        "taken": arc in graph.taken,
                        "tests": list(graph.taken.get(arc, ())),
                        **_possible(graph, arc),
                    }
                    for arc in [*graph.taken, *graph.missing]
                ],
            }
            for graph in summary.graphs
        ],
    }
    return safe_json(json.dumps(data, ensure_ascii=False, indent=1)) + "\n"


def _possible(graph: GraphSummary, arc: Arc) -> dict[str, bool]:
    if arc in graph.possible or arc in graph.impossible:
        return {"possible": arc in graph.possible}
    return {}


def _arc(arc: Arc) -> dict[str, Any]:
    data: dict[str, Any] = {"id": arc.id, "kind": arc.kind, "source": arc.source}
    for name in ("target", "label"):
        if getattr(arc, name):
            data[name] = getattr(arc, name)
    return data


# -- formats of code coverage ------------------------------------------------------------------------------------


def _by_file(summary: Summary) -> dict[str, dict[int, list[tuple[str, int]]]]:
    """Map files to lines to the arcs of that line, as (name, number of tests that took it).

    An arc belongs to the line where its node was added; an arc from START, to that of the graph.
    """
    files: dict[str, dict[int, list[tuple[str, int]]]] = {}
    for graph in summary.graphs:
        where = graph.graph
        lines = files.setdefault(where.file or where.name, {})
        for arc in sorted([*graph.taken, *graph.missing], key=lambda arc: KINDS.index(arc.kind)):
            line = where.lines.get(arc.source.partition(",")[0], where.line)
            lines.setdefault(line, []).append((f"{graph.title}: {arc}", len(graph.taken.get(arc, ()))))
    return files


def lcov(summary: Summary) -> str:
    """Return the LCOV trace format: each arc is a branch of the line where its node was added."""
    records: list[str] = []
    for file, lines in sorted(_by_file(summary).items()):
        arcs = [arc for line in lines.values() for arc in line]
        records += ["TN:", f"SF:{file}"]
        for line, branches in sorted(lines.items()):
            never = "0" if any(hits for _, hits in branches) else "-"
            records += [f"BRDA:{line},0,{number},{hits or never}" for number, (_, hits) in enumerate(branches)]
        records += [f"BRF:{len(arcs)}", f"BRH:{sum(hits > 0 for _, hits in arcs)}"]
        records += [f"DA:{line},{max(hits for _, hits in branches)}" for line, branches in sorted(lines.items())]
        records += [f"LF:{len(lines)}", f"LH:{sum(any(h for _, h in branches) for branches in lines.values())}"]
        records.append("end_of_record")
    return "\n".join(records) + "\n"


def cobertura(summary: Summary) -> str:
    """Return Cobertura's XML: each arc is a condition of the line where its node was added."""
    from xml.sax.saxutils import quoteattr  # imports urllib.request, which takes 15 ms

    files = _by_file(summary)
    classes: list[str] = []
    covered_lines = total_lines = 0
    for file, lines in sorted(files.items()):
        rows: list[str] = []
        for line, branches in sorted(lines.items()):
            taken = sum(hits > 0 for _, hits in branches)
            covered_lines, total_lines = covered_lines + (taken > 0), total_lines + 1
            shown = f"{100 * taken // len(branches)}% ({taken}/{len(branches)})"
            rows.append(
                f'<line number="{line}" hits="{max(hits for _, hits in branches)}" branch="true" '
                f'condition-coverage="{shown}"/>'
            )
        arcs = [arc for line in lines.values() for arc in line]
        rate = sum(hits > 0 for _, hits in arcs) / len(arcs) if arcs else 1.0
        name = Path(file).stem
        classes.append(
            f'<class name={quoteattr(name)} filename={quoteattr(file)} line-rate="{_rate(lines):.4f}" '
            f'branch-rate="{rate:.4f}" complexity="0"><methods/><lines>{"".join(rows)}</lines></class>'
        )
    line_rate = covered_lines / total_lines if total_lines else 1.0
    branch_rate = summary.percent / 100
    return (
        '<?xml version="1.0" ?>\n'
        f'<coverage line-rate="{line_rate:.4f}" branch-rate="{branch_rate:.4f}" lines-covered="{covered_lines}" '
        f'lines-valid="{total_lines}" branches-covered="{summary.taken}" branches-valid="{summary.count}" '
        'complexity="0" version="graphrt" timestamp="0"><sources><source>.</source></sources>'
        f'<packages><package name="graphs" line-rate="{line_rate:.4f}" branch-rate="{branch_rate:.4f}" '
        f'complexity="0"><classes>{"".join(classes)}</classes></package></packages></coverage>\n'
    )


def _rate(lines: Mapping[int, list[tuple[str, int]]]) -> float:
    return sum(any(hits for _, hits in branches) for branches in lines.values()) / len(lines) if lines else 1.0


WRITERS: Final[dict[str, Callable[[Summary], str]]] = {
    "term": terminal,
    "json": as_json,
    "lcov": lcov,
    "cobertura": cobertura,
}
"""Kind of report to the function that makes its text."""
BEGINS: Final[dict[str, bytes]] = {
    "json": rb'\{\s+"percent": \S+\s+"arcs": ',
    "lcov": rb"TN:\s",
    "cobertura": rb'<\?xml version="1\.0" \?>\s+<coverage ',
}
"""Kind of report that is written to a file to a regular expression of its beginning."""
