"""A graph as SVG, with a layered layout: START at the top, edges down, loops at the side.

Needs no other program or network.

Nodes are assigned to layers by their distance from START, and ordered within each layer by the mean position of their
predecessors (the barycentre heuristic of Sugiyama, Tagawa and Toda, 1981). This is good enough for graphs of a few
dozen nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from graphrt._display import safe

_STYLE: Final = """
.graphrt { font: 13px system-ui, sans-serif; color-scheme: light dark; }
.graphrt rect { fill: #f6f8fa; stroke: #5b6470; stroke-width: 1.5; } .graphrt .virtual rect { fill: none; }
.graphrt path { fill: none; stroke: #5b6470; stroke-width: 1.5; } .graphrt polygon { fill: #5b6470; }
.graphrt .policy path { stroke-dasharray: 5 3; }
.graphrt text { fill: #1c1f23; text-anchor: middle; dominant-baseline: central; }
.graphrt .edge text { fill: #5b6470; font-size: 12px; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
@media (prefers-color-scheme: dark) {
  .graphrt rect { fill: #1c2026; } .graphrt text { fill: #e6e9ee; }
  .graphrt .edge text { fill: #9aa4b2; stroke: #14171b; }
}
"""
"""Its selectors match nothing outside the picture, for example in a notebook that contains it."""
_HEIGHT: Final = 34.0
_ACROSS: Final = 56.0
_DOWN: Final = 72.0
_EDGE: Final = 20.0
_LANE: Final = 30.0


def to_svg(topology: Mapping[str, Any]) -> str:
    """Return a picture of the graph with this *topology*."""
    names = ["START", *(str(node["name"]) for node in topology["nodes"]), "END"]
    edges: dict[tuple[str, str, str], str] = {}
    for edge in topology["edges"]:
        kind = str(edge["kind"])
        label = {"static": "", "conditional": str(edge.get("label") or "")}.get(kind, kind)
        edges.setdefault((str(edge["from"]), str(edge["to"]), safe(label)), kind)
    layout = _lay_out(names, list(edges))
    drawn = "".join(_edge(layout, at, label, kind) for at, ((_, _, label), kind) in enumerate(edges.items()))
    boxes = "".join(_node(layout, name) for name in layout.boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graphrt" role="img" '
        f'aria-label="{escape(safe(topology["name"]), quote=True)}" '
        f'width="{layout.width:.0f}" height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}">'
        f"<style>{_STYLE}</style>{drawn}{boxes}</svg>\n"
    )


def _node(layout: _Layout, name: str) -> str:
    box, text = layout.boxes[name], escape(safe(name))
    virtual = name in ("START", "END")
    return (
        f'<g class="{"virtual" if virtual else "node"}"><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{box.height / 2 if virtual else 6:.1f}"/>'
        f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + box.height / 2:.1f}">{text}</text></g>'
    )


def _edge(layout: _Layout, number: int, label: str, kind: str) -> str:
    path = layout.paths[number]
    text = f'<text x="{path.label_x:.1f}" y="{path.label_y:.1f}">{escape(label)}</text>' if label else ""
    tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in path.tip)
    policy = "" if kind in ("static", "conditional") else " policy"
    return f'<g class="edge{policy}"><path d="{path.d}"/><polygon points="{tip}"/>{text}</g>'


# -- layout ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Box:
    """Position and size of a node, in pixels from the upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Path:
    """Geometry of an edge: an SVG path, the arrowhead at its end, and the position of its label."""

    d: str
    tip: tuple[tuple[float, float], ...]
    label_x: float
    label_y: float


@dataclass(frozen=True, slots=True)
class _Layout:
    """A laid-out graph. *paths* are in the order of the given edges."""

    width: float
    height: float
    boxes: dict[str, _Box]
    paths: tuple[_Path, ...]


def _lay_out(nodes: Sequence[str], edges: Sequence[tuple[str, str, str]]) -> _Layout:
    """Return the layout of *nodes* and *edges*.

    Args:
        nodes: Names; "START" is first and "END" last.
        edges: Source, target and label of each.
    """
    layers = _ordered(_layers(nodes, edges), edges)
    labels = [len(label) for _, _, label in edges]
    across = _ACROSS + (7 * max(labels) if labels else 0) / 2
    widths = [sum(_width(name) for name in layer) + across * (len(layer) - 1) for layer in layers]
    inner = max(widths)
    rank = {name: at for at, layer in enumerate(layers) for name in layer}
    side = [number for number, (source, target, _) in enumerate(edges) if rank[target] <= rank[source]]
    left = _EDGE + _LANE * sum(rank[target] - rank[source] > 1 for source, target, _ in edges) / 2
    boxes: dict[str, _Box] = {}
    for at, layer in enumerate(layers):
        x = left + (inner - widths[at]) / 2
        for name in layer:
            boxes[name] = _Box(x, _EDGE + at * (_HEIGHT + _DOWN), _width(name), _HEIGHT)
            x += _width(name) + across
    paths, right = _paths(edges, rank, boxes, left, inner)
    longest = max((len(edges[number][2]) for number in side), default=0)
    return _Layout(
        max(right + 4 * longest, left + inner) + _EDGE,
        2 * _EDGE + len(layers) * (_HEIGHT + _DOWN) - _DOWN,
        boxes,
        tuple(paths),
    )


def _paths(
    edges: Sequence[tuple[str, str, str]], rank: dict[str, int], boxes: dict[str, _Box], left: float, inner: float
) -> tuple[list[_Path], float]:
    """Return the paths of the edges and their rightmost extent."""
    paths: list[_Path] = []
    between: dict[tuple[str, str], int] = {}
    right, outer = left + inner, left
    for source, target, label in edges:
        nth = between[source, target] = between.get((source, target), -1) + 1
        box, goal = boxes[source], boxes[target]
        if rank[target] <= rank[source]:
            right += _LANE + 3.5 * len(label)
            paths.append(_around(box, goal, right, nth, label, boxes.values()))
            right += 3.5 * len(label)
        elif rank[target] - rank[source] > 1 and _blocked(box, goal, boxes):
            outer -= _LANE / 2
            paths.append(_down(box, goal, nth, bend=outer))
        else:
            paths.append(_down(box, goal, nth))
    return paths, right


def _blocked(box: _Box, goal: _Box, boxes: dict[str, _Box]) -> bool:
    """Return whether a box lies on the line between two others."""
    x1, x2 = box.x + box.width / 2, goal.x + goal.width / 2
    for other in boxes.values():
        if other in (box, goal) or not box.y < other.y < goal.y:
            continue
        share = (other.y + other.height / 2 - box.y) / (goal.y - box.y)
        x = x1 + (x2 - x1) * share
        if other.x - 12 < x < other.x + other.width + 12:
            return True
    return False


def _width(name: str) -> float:
    return max(64.0, 7.6 * len(name) + 24)


def _down(box: _Box, goal: _Box, nth: int, bend: float | None = None) -> _Path:
    """Return a curve from the lower side of *box* to the upper side of *goal*, past *bend* if there is one."""
    shift = 22 * nth
    x1, y1 = box.x + box.width / 2 + shift, box.y + box.height
    x2, y2 = goal.x + goal.width / 2 + shift, goal.y - 7
    if bend is None:
        middle = (y1 + y2) / 2
        d = f"M{x1:.1f} {y1:.1f} C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
        return _Path(d, _tip(x2, y2 + 7), (x1 + x2) / 2, middle + 16 * (nth % 2) - 4)
    top, low = y1 + 36, y2 - 36
    d = (
        f"M{x1:.1f} {y1:.1f} C{x1:.1f} {top:.1f} {bend:.1f} {y1 + 12:.1f} {bend:.1f} {top:.1f} "
        f"L{bend:.1f} {low:.1f} C{bend:.1f} {y2 - 6:.1f} {x2:.1f} {low:.1f} {x2:.1f} {y2:.1f}"
    )
    label_offset = 17 * (round(bend / (_LANE / 2)) % 3 - 1)  # labels of neighbouring lanes are at different heights
    return _Path(d, _tip(x2, y2 + 7), bend + 26, (top + low) / 2 + label_offset)


def _around(box: _Box, goal: _Box, lane: float, nth: int, label: str, boxes: Iterable[_Box]) -> _Path:
    """Return a path back up, or to the same node, through a lane on the right.

    Where other boxes are on the right, it leaves *box* at the bottom, or enters *goal* at the top.
    """
    points: list[tuple[float, float]] = []
    if _is_last(box, boxes):
        y1 = box.y + box.height * (0.85 if box is goal else 0.65)
        points += [(box.x + box.width, y1), (lane, y1)]
    else:
        x1, y1 = box.x + box.width * 0.85, box.y + box.height + 14
        points += [(x1, y1 - 14), (x1, y1), (lane, y1)]
    if _is_last(goal, boxes):
        y2 = goal.y + goal.height * (0.35 - 0.12 * min(nth, 2))
        points += [(lane, y2), (goal.x + goal.width + 7, y2)]
        x, y = goal.x + goal.width, y2
        tip: tuple[tuple[float, float], ...] = ((x, y), (x + 8, y - 4.5), (x + 8, y + 4.5))
    else:
        x2, y2 = goal.x + goal.width * 0.85, goal.y - 18
        points += [(lane, y2), (x2, y2), (x2, goal.y - 7)]
        tip = _tip(x2, goal.y)
    label_offset = 14 if label and math.isclose(y1, y2, abs_tol=24) else 0
    return _Path(_rounded(points), tip, lane, (y1 + y2) / 2 - label_offset)


def _is_last(box: _Box, boxes: Iterable[_Box]) -> bool:
    """Return whether no other box of its layer is on its right."""
    return not any(other.y == box.y and other.x > box.x for other in boxes)


def _rounded(points: Sequence[tuple[float, float]], radius: float = 10) -> str:
    """Return the path of a line through *points*, each corner cut by a curve."""
    d = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        (x1, y1), (x2, y2) = _towards(corner, before, radius), _towards(corner, after, radius)
        d += f" L{x1:.1f} {y1:.1f} Q{corner[0]:.1f} {corner[1]:.1f} {x2:.1f} {y2:.1f}"
    return f"{d} L{points[-1][0]:.1f} {points[-1][1]:.1f}"


def _towards(start: tuple[float, float], end: tuple[float, float], length: float) -> tuple[float, float]:
    """Return the point *length* away from *start* towards *end*, at most half way."""
    whole = math.dist(start, end)
    share = min(length / whole, 0.5) if whole else 0.0
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _tip(x: float, y: float) -> tuple[tuple[float, float], ...]:
    return ((x, y), (x - 4.5, y - 8), (x + 4.5, y - 8))


def _layers(nodes: Sequence[str], edges: Sequence[tuple[str, str, str]]) -> list[list[str]]:
    """Return the nodes by layer, each one layer below its lowest predecessor, ignoring edges of loops."""
    after: dict[str, list[str]] = {name: [] for name in nodes}
    for source, target, _ in edges:
        if target not in after[source] and target != source:
            after[source].append(target)
    order = _postorder(nodes, after)[::-1]
    place = {name: at for at, name in enumerate(order)}
    depth = dict.fromkeys(nodes, 0)
    for name in order:
        for target in after[name]:
            if place[target] > place[name]:
                depth[target] = max(depth[target], depth[name] + 1)
    for name in nodes:
        if depth[name] == 0 and name != "START":
            depth[name] = 1
    last = max([depth[name] for name in nodes if name != "END"] or [0])
    depth["END"] = last + 1
    return [[name for name in nodes if depth[name] == at] for at in range(last + 2)]


def _postorder(nodes: Sequence[str], after: dict[str, list[str]]) -> list[str]:
    seen: set[str] = set()
    order: list[str] = []
    for root in nodes:
        stack: list[tuple[str, int]] = [(root, 0)] if root not in seen else []
        seen.add(root)
        while stack:
            name, at = stack.pop()
            if at < len(after[name]):
                stack.append((name, at + 1))
                target = after[name][at]
                if target not in seen:
                    seen.add(target)
                    stack.append((target, 0))
            else:
                order.append(name)
    return order


def _ordered(layers: list[list[str]], edges: Sequence[tuple[str, str, str]]) -> list[list[str]]:
    """Return the layers with their nodes ordered so that few edges cross."""
    above: dict[str, list[str]] = {}
    for source, target, _ in edges:
        above.setdefault(target, []).append(source)
    place: dict[str, float] = {}
    result: list[list[str]] = []
    for layer in layers:

        def mean(name: str, layer: list[str] = layer) -> float:
            known = [place[source] for source in above.get(name, ()) if source in place]
            return sum(known) / len(known) if known else float(layer.index(name))

        ordered = sorted(layer, key=mean)
        place.update({name: at - (len(ordered) - 1) / 2 for at, name in enumerate(ordered)})
        result.append(ordered)
    return [layer for layer in result if layer]
