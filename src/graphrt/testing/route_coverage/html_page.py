"""The HTML report: one page without scripts or links, with a picture and a table of each graph."""

from __future__ import annotations

from html import escape
from typing import Final

from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.layout import Layout, lay_out
from graphrt.testing.route_coverage.reports import lines_of, nodes, percent
from graphrt.testing.route_coverage.summary import GraphSummary, Summary

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c1f23; --soft: #5b6470; --line: #d5dae1; --page: #fff; --card: #f6f8fa;
  --taken: #1a7f37; --missed: #b3261e; --fill: #e9f5ec; --gap: #fdecea; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ee; --soft: #9aa4b2; --line: #363d47; --page: #14171b;
  --card: #1c2026; --taken: #57c46f; --missed: #ff8a80; --fill: #17301e; --gap: #3a1d1b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; } h2 { font-size: 1.15rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0 1rem; color: var(--soft); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1.25rem 0; }
.picture { overflow-x: auto; margin: .75rem 0; }
.missed { color: var(--missed); } .taken { color: var(--taken); }
a { color: inherit; } details summary { cursor: pointer; white-space: nowrap; } details ul { margin: .25rem 0; padding-left: 1.1rem; }
svg { display: block; font: 13px system-ui, sans-serif; max-width: 100%; height: auto; min-width: calc(var(--width) * .8); }
svg .node rect { fill: var(--fill); stroke: var(--taken); stroke-width: 1.5; } svg .node.missed rect { fill: var(--gap);
  stroke: var(--missed); stroke-dasharray: 5 3; } svg .node.virtual rect { fill: none; stroke: var(--soft); }
svg text { fill: var(--text); text-anchor: middle; dominant-baseline: central; }
svg .edge path { fill: none; stroke: var(--taken); stroke-width: 1.5; } svg .edge.missed path { stroke: var(--missed);
  stroke-dasharray: 5 3; } svg .edge polygon { fill: var(--taken); } svg .edge.missed polygon { fill: var(--missed); }
svg .edge text { fill: var(--soft); font-size: 12px; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
svg .edge.missed text { fill: var(--missed); }
"""


def html(summary: Summary) -> str:
    """Return the page."""
    rows = "".join(
        f'<tr><td><a href="#g{number}">{escape(graph.title)}</a></td><td class="number">{graph.count}</td>'
        f'<td class="number">{len(graph.taken)}</td><td class="number">{len(graph.missing)}</td>'
        f'<td class="number">{percent(graph.percent)}</td></tr>'
        for number, graph in enumerate(summary.graphs)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Route coverage: {percent(summary.percent)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>Route coverage: {percent(summary.percent)}</h1>"
        f"<p>{summary.taken} of {summary.count} arcs were taken. What was not taken is red and dashed.</p>"
        '<table><thead><tr><th>Graph</th><th class="number">Arcs</th><th class="number">Taken</th>'
        '<th class="number">Missed</th><th class="number">Cover</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
        + "".join(_section(number, graph) for number, graph in enumerate(summary.graphs))
        + "</body></html>\n"
    )


def _section(number: int, graph: GraphSummary) -> str:
    where = f"{graph.graph.file}:{graph.graph.line}" if graph.graph.file else "made at an unknown place"
    arcs = [*((arc, False) for arc in graph.missing), *((arc, True) for arc in graph.taken)]
    rows = "".join(_arc_row(arc, graph.taken.get(arc, ()), taken=taken) for arc, taken in arcs)
    return (
        f'<section id="g{number}"><h2>{escape(graph.title)}: {percent(graph.percent)}</h2><p>{escape(where)}</p>'
        f'<div class="picture">{_picture(graph)}</div>'
        f"<table><thead><tr><th>Arc</th><th>Kind</th><th>Tests</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _arc_row(arc: Arc, tests: tuple[str, ...], *, taken: bool) -> str:
    if not taken:
        told = '<span class="missed">never taken</span>'
    elif any(tests):
        items = "".join(f"<li>{escape(test or 'outside of a test')}</li>" for test in tests)
        told = f'<details><summary class="taken">{_count(len(tests))}</summary><ul>{items}</ul></details>'
    else:
        told = '<span class="taken">outside of a test</span>'
    return f"<tr><td>{escape(str(arc))}</td><td>{escape(arc.kind)}</td><td>{told}</td></tr>"


def _count(tests: int) -> str:
    return "1 test" if tests == 1 else f"{tests} tests"


def _picture(graph: GraphSummary) -> str:
    """Return the graph as SVG."""
    lines = lines_of(graph)
    layout = lay_out(nodes(graph), [(source, target, label) for source, target, label, _ in lines])
    edges = "".join(_edge(layout, at, label, taken=taken) for at, (_, _, label, taken) in enumerate(lines))
    return (
        f'<svg role="img" aria-label="{escape(graph.title, quote=True)}" width="{layout.width:.0f}" '
        f'height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" '
        f'style="--width: {layout.width:.0f}px">'
        f"{edges}{''.join(_node(layout, graph, name) for name in layout.boxes)}</svg>"
    )


def _node(layout: Layout, graph: GraphSummary, name: str) -> str:
    box = layout.boxes[name]
    virtual = name in ("START", "END")
    kind = "virtual" if virtual else "missed" if Arc("node", name) in graph.missing else "taken"
    return (
        f'<g class="node {kind}"><title>{escape(name)}</title><rect x="{box.x:.1f}" y="{box.y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{box.height / 2 if virtual else 6:.1f}"/>'
        f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + box.height / 2:.1f}">{escape(name)}</text></g>'
    )


def _edge(layout: Layout, number: int, label: str, *, taken: bool) -> str:
    path = layout.paths[number]
    text = f'<text x="{path.label_x:.1f}" y="{path.label_y:.1f}">{escape(label)}</text>' if label else ""
    tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in path.tip)
    kind = "taken" if taken else "missed"
    return f'<g class="edge {kind}"><path d="{path.d}"/><polygon points="{tip}"/>{text}</g>'
