"""Graphs, runs, threads and usage in a terminal: drawings, tables, a live view, and escaping of unsafe text.

`views` and `progress` make lines; a `Screen` shows them, with rich or without it. `import graphrt` does not import it.
"""

from __future__ import annotations

from graphrt.console import views
from graphrt.console.amounts import counted, duration, moment, size
from graphrt.console.drawing import draw
from graphrt.console.live import LiveView, renderable, watched
from graphrt.console.progress import MODES, RunProgress
from graphrt.console.screen import Line, PlainScreen, RichScreen, Screen, Segment, cells, fit, open_screen
from graphrt.console.tables import Column, table

__all__ = [
    "MODES",
    "Column",
    "Line",
    "LiveView",
    "PlainScreen",
    "RichScreen",
    "RunProgress",
    "Screen",
    "Segment",
    "cells",
    "counted",
    "draw",
    "duration",
    "fit",
    "moment",
    "open_screen",
    "renderable",
    "size",
    "table",
    "views",
    "watched",
]
