"""Where the audit is shown: a terminal with rich, or plain lines. Widths, colours and the spinner; no content."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
import unicodedata
from typing import Any, Final, Protocol, TextIO, TypeAlias

Segment: TypeAlias = str | tuple[str, str]
"""A text, or a text and the name of its style."""

STYLES: Final = {
    "title": "bold",
    "name": "bold",
    "faint": "bright_black",
    "accent": "cyan",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "verdict-good": "bold green",
    "verdict-bad": "bold red",
}
_ASCII: Final = str.maketrans("─│╭╮╰╯├┤┬┴┼●○◉◀✓✗·…→", "-|..''||+++*oO<+x.~>")
_WIDEST: Final = 100


class Screen(Protocol):
    """What the views need."""

    width: int

    def line(self, *segments: Segment) -> None:
        """Show one line, indented."""
        ...

    def busy(self, text: str | None) -> None:
        """Say what goes on, until something else does; None: nothing does."""
        ...

    def ask(self, prompt: str) -> str | None:
        """One line from the person, or None at the end of input."""
        ...


class PlainScreen:
    """Lines without colour: for pipes, files, and terminals without rich."""

    def __init__(self, out: TextIO, width: int) -> None:
        self.width = width
        self._out = out
        encoding = (getattr(out, "encoding", None) or "ascii").lower()
        self._translate = {} if encoding.startswith("utf") else _ASCII

    def line(self, *segments: Segment) -> None:
        """Show one line, indented."""
        text = "".join(part if isinstance(part, str) else part[0] for part in segments).translate(self._translate)
        self._out.write(f"  {text}".rstrip() + "\n")

    def busy(self, text: str | None) -> None:
        """Show nothing: a pipe has no use for it."""

    def ask(self, prompt: str) -> str | None:
        """One line from the person, or None at the end of input."""
        self._out.write(f"  {prompt} ")
        self._out.flush()
        said = sys.stdin.readline()
        if not sys.stdin.isatty():
            self._out.write("\n")
        return said.strip() if said else None


class RichScreen:
    """A terminal with colours and a spinner; needs rich."""

    def __init__(self, out: TextIO, width: int) -> None:
        from rich.console import Console

        self.width = width
        self._console: Any = Console(file=out, highlight=False, markup=False, emoji=False)
        self._status: Any = None
        self._lock = threading.Lock()

    def line(self, *segments: Segment) -> None:
        """Show one line, indented."""
        from rich.text import Text

        text = Text("  ")
        for part in segments:
            words, style = (part, "") if isinstance(part, str) else part
            text.append(words, STYLES.get(style, ""))
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def busy(self, text: str | None) -> None:
        """Turn the spinner on, with another text, or off."""
        with self._lock:
            if text is None:
                if self._status is not None:
                    self._status.stop()
                self._status = None
            elif self._status is None:
                self._status = self._console.status(text, spinner="dots", spinner_style=STYLES["accent"])
                self._status.start()
            else:
                self._status.update(text)

    def ask(self, prompt: str) -> str | None:
        """One line from the person, or None at the end of input."""
        self.busy(None)
        try:
            return str(self._console.input(f"  {prompt} ", markup=False)).strip()
        except EOFError:
            self._console.print()
            return None


def open_screen(out: TextIO, *, colour: bool = True) -> Screen:
    """The best screen that *out* can be."""
    width = max(20, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns) - 2)
    if colour and not os.environ.get("NO_COLOR") and out.isatty() and importlib.util.find_spec("rich") is not None:
        return RichScreen(out, width)
    return PlainScreen(out, width)


def cells(text: str) -> int:
    """Columns that *text* takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """*text* in exactly *width* columns: cut with an ellipsis, or filled with blanks."""
    if cells(text) > width:
        while text and cells(text) > width - 1:
            text = text[:-1]
        text = f"{text.rstrip()}…" if width > 0 else ""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks
