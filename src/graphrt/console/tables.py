"""Tables that fit: columns shrink, then the least important ones are dropped, until the table is narrow enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphrt._display import safe
from graphrt.console.screen import Line, Segment, cells, fit, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column."""

    title: str
    least: int = 0
    """The width to which it may shrink; 0: it does not shrink."""
    right: bool = False
    wrap: bool = False
    """Text that does not fit continues on the next line, instead of being cut."""
    rank: int = 0
    """Rank for dropping columns when there is no room: the highest goes first; 0 is never dropped."""


def table(columns: Sequence[Column], rows: Sequence[Sequence[Segment]], width: int) -> list[Line]:
    """Return the lines of a table, its titles first.

    Args:
        columns: 1..n columns.
        rows: 0..n rows of one cell for each column.
        width: Maximum width of a line.
    """
    texts = [[safe(cell if isinstance(cell, str) else cell[0]) for cell in row] for row in rows]
    shown = list(range(len(columns)))
    sizes = [max([cells(column.title), *(cells(row[n]) for row in texts)]) for n, column in enumerate(columns)]
    while True:
        fitted = _shrunk(columns, sizes, shown, width)
        if fitted is not None:
            break
        shown.remove(max(shown, key=lambda n: columns[n].rank))
    lines: list[Line] = [[(_join(columns, fitted, [c.title for c in columns]), "faint")]]
    for row, plain in zip(rows, texts, strict=True):
        folded = {n: fold(plain[n], size) if columns[n].wrap else [plain[n]] for n, size in fitted.items()}
        for part in range(max(len(texts) for texts in folded.values())):
            line: list[Segment] = []
            for n, size in fitted.items():
                cell, texts_here = row[n], folded[n]
                text = fit(texts_here[part] if part < len(texts_here) else "", size, right=columns[n].right)
                line += [text if isinstance(cell, str) else (text, cell[1]), "  "]
            lines.append(line[:-1])
    return lines


def _shrunk(columns: Sequence[Column], sizes: Sequence[int], shown: Sequence[int], width: int) -> dict[int, int] | None:
    """The width of each remaining column, or None if one has to be dropped."""
    fitted = {n: sizes[n] for n in shown}
    over = sum(fitted.values()) + 2 * (len(fitted) - 1) - width
    while over > 0:
        n = max(shown, key=lambda n: fitted[n] - columns[n].least if columns[n].least else -1)
        if not columns[n].least or fitted[n] <= columns[n].least:
            break
        fitted[n] -= 1
        over -= 1
    if over > 0 and len(shown) == 1:
        return {shown[0]: max(1, width)}
    return None if over > 0 else fitted


def _join(columns: Sequence[Column], fitted: dict[int, int], texts: Sequence[str]) -> str:
    return "  ".join(fit(texts[n], size, right=columns[n].right) for n, size in fitted.items())
