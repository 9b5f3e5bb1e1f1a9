"""A graph as SVG, with the layout of the route coverage report: no other program, no network."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from graphrt._display import safe
from graphrt.graph import CompiledGraph
from graphrt.testing.route_coverage.layout import Layout, lay_out

_STYLE: Final = """
svg { font: 13px system-ui, sans-serif; color-scheme: light dark; }
rect { fill: #f6f8fa; stroke: #5b6470; stroke-width: 1.5; } .virtual rect { fill: none; }
path { fill: none; stroke: #5b6470; stroke-width: 1.5; } polygon { fill: #5b6470; } .policy path { stroke-dasharray: 5 3; }
text { fill: #1c1f23; text-anchor: middle; dominant-baseline: central; }
.edge text { fill: #5b6470; font-size: 12px; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
@media (prefers-color-scheme: dark) { rect { fill: #1c2026; } text { fill: #e6e9ee; } .edge text { fill: #9aa4b2; stroke: #14171b; } }
"""


def to_svg(graph: CompiledGraph[Any, Any]) -> str:
    """Return a picture of *graph*."""
    topology = graph.topology()
    names = ["START", *(str(node["name"]) for node in topology["nodes"]), "END"]
    edges: dict[tuple[str, str, str], str] = {}
    for edge in topology["edges"]:
        kind = str(edge["kind"])
        label = {"static": "", "conditional": str(edge.get("label") or "")}.get(kind, kind)
        edges.setdefault((str(edge["from"]), str(edge["to"]), safe(label)), kind)
    layout = lay_out(names, list(edges))
    drawn = "".join(_edge(layout, at, label, kind) for at, ((_, _, label), kind) in enumerate(edges.items()))
    boxes = "".join(_node(layout, name) for name in layout.boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(safe(graph.name), quote=True)}" '
        f'width="{layout.width:.0f}" height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}">'
        f"<style>{_STYLE}</style>{drawn}{boxes}</svg>\n"
    )


def _node(layout: Layout, name: str) -> str:
    box, text = layout.boxes[name], escape(safe(name))
    virtual = name in ("START", "END")
    return (
        f'<g class="{"virtual" if virtual else "node"}"><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{box.height / 2 if virtual else 6:.1f}"/>'
        f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + box.height / 2:.1f}">{text}</text></g>'
    )


def _edge(layout: Layout, number: int, label: str, kind: str) -> str:
    path = layout.paths[number]
    text = f'<text x="{path.label_x:.1f}" y="{path.label_y:.1f}">{escape(label)}</text>' if label else ""
    tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in path.tip)
    policy = "" if kind in ("static", "conditional") else " policy"
    return f'<g class="edge{policy}"><path d="{path.d}"/><polygon points="{tip}"/>{text}</g>'
