"""`draw`: a graph as a drawing of characters, Mermaid, DOT, SVG or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from graphrt._overwriting import check_overwritable
from graphrt.cli.command import Command
from graphrt.cli.opening import TARGET
from graphrt.cli.output import Answer, Output
from graphrt.cli.targets import graph_of
from graphrt.console import draw as drawing
from graphrt.console.screen import Line, PlainScreen, columns
from graphrt.errors._codes.stores import CANNOT_WRITE_FILE

_BEGINS: Final = (
    rb'\s*(\xe2\x97\x8b )?START|flowchart TD\s|digraph "|<svg xmlns="\S+" class="graphrt"'
    rb'|\{\s+"name": [^\n]+\s+"nodes": \['
)
"""The beginnings of drawings, in all formats: with characters, where a circle or an edge is at START, and as Mermaid,
DOT, SVG and JSON."""


@click.command("draw", cls=Command)
@TARGET
@click.option(
    "--format", "-f", "form", type=click.Choice(["terminal", "mermaid", "dot", "svg", "json"]), default="terminal",
    show_default=True, help="What to make.",
)  # fmt: skip
@click.option("--out", metavar="FILE", help="Write it to a file, over an earlier drawing.")
@click.pass_obj
def draw(output: Output, target: str, form: str, out: str | None) -> Answer:
    """Draw a graph: in the terminal, as Mermaid, DOT or SVG."""
    graph, _ = graph_of(target)
    if form == "terminal" and out is None and output.is_terminal and not output.as_json:
        return Answer(data=None, lines=lambda width: list(drawing(graph, width)))
    match form:
        case "mermaid":
            text = graph.to_mermaid()
        case "dot":
            text = graph.to_dot()
        case "json":
            text = graph.to_json()
        case "svg":
            text = graph.to_svg()
        case _:
            text = _plain(drawing(graph, max(columns(output.out) - 2, 20)))
    data = {"graph": graph.name, "format": form, "text": text, "topology": graph.topology()}
    if out is None:
        return Answer(data=data, text=text)
    try:
        check_overwritable(out, kind="a drawing of a graph", begins=_BEGINS)
        Path(out).write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise CANNOT_WRITE_FILE(file=out, reason=error.strerror or str(error)) from error
    output.note(f"wrote {out}")
    return Answer(data={**data, "out": out}, lines=lambda _width: [])


def _plain(lines: list[Line]) -> str:
    from io import StringIO

    out = StringIO()
    screen = PlainScreen(out, 0)
    screen._translate = {}  # the drawing is a Python string, whose encoding the caller chooses
    for line in lines:
        screen.line(*line)
    return out.getvalue()
