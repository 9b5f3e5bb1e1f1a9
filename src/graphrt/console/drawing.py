"""Draws any compiled graph with characters, from its topology alone: nodes on a rail, other edges in lanes beside it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from graphrt._display import safe
from graphrt.console.screen import Line, cells, fit
from graphrt.graph import CompiledGraph

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES: Final = {
    0: " ",
    _UP: "│",
    _DOWN: "│",
    _LEFT: "─",
    _RIGHT: "─",
    _UP | _DOWN: "│",
    _LEFT | _RIGHT: "─",
    _LEFT | _DOWN: "╮",
    _LEFT | _UP: "╯",
    _RIGHT | _DOWN: "╭",
    _RIGHT | _UP: "╰",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _LEFT | _RIGHT | _DOWN: "┬",
    _LEFT | _RIGHT | _UP: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}


class Edge(NamedTuple):
    """One arrow, by the positions of its ends in the order of the nodes."""

    src: int
    dst: int
    label: str


def draw(graph: CompiledGraph[Any, Any, Any], width: int) -> list[Line]:
    """Return the lines of a drawing of *graph*; a list of its edges where there is no room for one."""
    names, edges = _read(graph.topology())
    drawing = _Drawing(names, edges)
    if drawing.width <= width:
        return list(drawing.lines())
    lines: list[Line] = []
    for edge in edges:
        lines.append([(fit(f"{names[edge.src]} → {names[edge.dst]}", width), "name")])
        if edge.label:
            lines.append([(fit(f"  {edge.label}", width), "accent")])
    return lines


def _read(topology: dict[str, Any]) -> tuple[list[str], list[Edge]]:
    node_names = ["START", *(str(node["name"]) for node in topology["nodes"]), "END"]
    at = {name: position for position, name in enumerate(node_names)}
    names = [safe(name) for name in node_names]
    edges: dict[tuple[int, int], Edge] = {}
    for edge in topology["edges"]:
        kind = str(edge["kind"])
        label = {"static": "", "conditional": safe(str(edge.get("label") or "otherwise"))}.get(kind, kind)
        ends = (at[edge["from"]], at[edge["to"]])
        if ends not in edges:  # no second arrow where one is already drawn
            edges[ends] = Edge(*ends, label)
    return names, sorted(edges.values())


class _Drawing:
    """Rows of cells. A line is a set of directions in a cell, so crossings need no special case."""

    def __init__(self, names: list[str], edges: list[Edge]) -> None:
        self._names = names
        self._rows: list[dict[int, int]] = []
        self._words: list[list[tuple[int, str, str]]] = []
        """For each row: column, text, style."""
        self._node_row: list[int] = []
        self._starts: dict[Edge, int] = {}
        beside = [edge for edge in edges if edge.dst != edge.src + 1]
        rail = {edge.src: edge for edge in edges if edge.dst == edge.src + 1}
        for position in range(len(names)):
            self._place(position, [edge for edge in beside if edge.src == position], rail.get(position))
        base = 5 + max(cells(name) for name in names)
        base = max([base, *(7 + cells(edge.label) for edge in beside)])
        lanes = self._lanes(beside)
        self.width = base + 3 * max(lanes.values(), default=0) + 1
        for edge, lane in lanes.items():
            self._arrow(edge, base + 3 * lane)

    def lines(self) -> Iterator[Line]:
        """The rows, from top to bottom."""
        for row, words in zip(self._rows, self._words, strict=True):
            shown: list[tuple[str, str]] = [(_LINES[row.get(x, 0)], "faint") for x in range(self.width)]
            for column, text, style in words:
                shown[column : column + len(text)] = [(char, style) for char in text]
            yield [("".join(char for char, _ in run), style) for style, run in groupby(shown, key=lambda cell: cell[1])]

    def _place(self, position: int, beside: list[Edge], rail: Edge | None) -> None:
        name = self._names[position]
        mark = {"START": "○", "END": "◉"}.get(name, "●")
        self._node_row.append(self._row([(0, mark, "accent"), (2, name, "name")]))
        last = beside[-1] if beside else None
        for edge in beside:
            down = 0 if edge is last and rail is None else _DOWN
            words = [(3, edge.label, "accent")] if edge.label else []
            self._starts[edge] = self._row(words, {0: _UP | down | _RIGHT, 1: _LEFT | _RIGHT})
        if rail is not None and (rail.label or beside):
            self._row([(2, rail.label, "accent")], {0: _UP | _DOWN})

    def _row(self, words: list[tuple[int, str, str]], lines: dict[int, int] | None = None) -> int:
        self._words.append([(column, text, style) for column, text, style in words if text])
        self._rows.append(lines or {})
        return len(self._rows) - 1

    def _lanes(self, edges: list[Edge]) -> dict[Edge, int]:
        """A lane for each edge, short ones inside, no two of a lane side by side."""
        taken: list[list[tuple[int, int]]] = []
        lanes: dict[Edge, int] = {}
        for edge in sorted(edges, key=lambda edge: (abs(edge.dst - edge.src), -edge.src)):
            top, bottom = sorted((self._starts[edge], self._node_row[edge.dst]))
            lane = next(
                (n for n, spans in enumerate(taken) if all(bottom < a or b < top for a, b in spans)), len(taken)
            )
            if lane == len(taken):
                taken.append([])
            taken[lane].append((top, bottom))
            lanes[edge] = lane
        return lanes

    def _arrow(self, edge: Edge, x: int) -> None:
        start, end = self._starts[edge], self._node_row[edge.dst]
        self._across(start, 1 if not edge.label else 4 + cells(edge.label), x)
        head = 3 + cells(self._names[edge.dst])
        self._across(end, head + 1, x)
        self._words[end].append((head, "◀", "faint"))
        step = 1 if end > start else -1
        for y in range(start, end, step):
            self._add(y, x, _DOWN if step > 0 else _UP)
            self._add(y + step, x, _UP if step > 0 else _DOWN)

    def _across(self, y: int, left: int, right: int) -> None:
        for x in range(left, right):
            self._add(y, x, _RIGHT | (_LEFT if x > left else 0))
            self._add(y, x + 1, _LEFT)

    def _add(self, y: int, x: int, direction: int) -> None:
        self._rows[y][x] = self._rows[y].get(x, 0) | direction
