"""Output and input at a terminal, with rich or as plain lines: widths, colours, the spinner, questions. No content.

Every text passes through `safe` here, so that no text from a model, a user or a file can act as a control sequence or
as markup.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, Protocol, TextIO, TypeAlias

from graphrt._display import safe

Segment: TypeAlias = str | tuple[str, str]
"""A text, or a text and the name of its style."""
Line: TypeAlias = Sequence[Segment]

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
"""Names of styles, with rich's names for them."""
_ASCII: Final = str.maketrans("─│╭╮╰╯├┤┬┴┼●○◉◀✓✗·…→█░", "-|..''||+++*oO<+x.~>#.")
WIDEST: Final = 100
"""Maximum number of columns: longer lines are hard to read."""


class Screen(Protocol):
    """The terminal functions that the views need."""

    width: int
    """Columns of a line, without its indent."""

    def line(self, *segments: Segment) -> None:
        """Show one line, indented."""
        ...

    def busy(self, text: str | None) -> None:
        """Show what is in progress, until the next call; None clears it."""
        ...

    def ask(self, prompt: str) -> str | None:
        """Return one line from the person, or None at the end of input."""
        ...


class PlainScreen:
    """Lines without colour: for pipes, files, and terminals without rich."""

    def __init__(self, out: TextIO, width: int) -> None:
        self.width = width
        self._out = out
        self._translate = {} if has_unicode(out) else _ASCII

    def line(self, *segments: Segment) -> None:
        """Show one line, indented."""
        text = "".join(part if isinstance(part, str) else part[0] for part in segments)
        text = safe(text).translate(self._translate)
        if self._translate:  # all other scripts
            text = text.encode("ascii", "backslashreplace").decode()
        self._out.write(f"  {text}".rstrip() + "\n")

    def busy(self, text: str | None) -> None:
        """Show nothing, because a pipe has no use for it."""

    def ask(self, prompt: str) -> str | None:
        """Return one line from the person, or None at the end of input."""
        self._out.write(f"  {safe(prompt)} ")
        self._out.flush()
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            self._out.write("\n")
        return line.strip() if line else None


class RichScreen:
    """A terminal with colours and a spinner; needs rich."""

    def __init__(self, out: TextIO, width: int) -> None:
        from rich.console import Console

        self.width = width
        self.console: Any = Console(file=out, highlight=False, markup=False, emoji=False, force_terminal=True)
        self._status: Any = None
        self._lock = threading.Lock()

    def line(self, *segments: Segment) -> None:
        """Show one line, indented."""
        self.console.print(as_text(["  ", *segments]), soft_wrap=True)

    def busy(self, text: str | None) -> None:
        """Start the spinner, change its text, or stop it."""
        with self._lock:
            if text is None:
                if self._status is not None:
                    self._status.stop()
                self._status = None
            elif self._status is None:
                self._status = self.console.status(as_text([text]), spinner="dots", spinner_style=STYLES["accent"])
                self._status.start()
            else:
                self._status.update(as_text([text]))

    def ask(self, prompt: str) -> str | None:
        """Return one line from the person, or None at the end of input."""
        self.busy(None)
        try:
            return str(self.console.input(f"  {safe(prompt)} ", markup=False)).strip()
        except EOFError:
            self.console.print()
            return None


def as_text(segments: Line) -> Any:
    """Return segments as rich's `Text`, without markup; needs rich."""
    from rich.text import Text

    text = Text(no_wrap=True)
    for part in segments:
        words, style = (part, "") if isinstance(part, str) else part
        text.append(safe(words), STYLES.get(style, ""))
    text.rstrip()
    return text


def open_screen(out: TextIO, *, colour: bool = True, widest: int = WIDEST, elsewhere: int = 80) -> Screen:
    """Return the best screen for *out*, with *elsewhere* columns if it is not a terminal."""
    width = max(20, min(widest, columns(out, elsewhere)) - 2)
    if colour and has_colour(out) and importlib.util.find_spec("rich") is not None:
        return RichScreen(out, width)
    return PlainScreen(out, width)


def has_colour(out: TextIO) -> bool:
    """Return whether *out* gets colours: a terminal does, unless `NO_COLOR` or `FORCE_COLOR` says otherwise."""
    if os.environ.get("NO_COLOR"):  # https://no-color.org: any non-empty value
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return out.isatty() and os.environ.get("TERM") != "dumb"


def has_unicode(out: TextIO) -> bool:
    """Return whether *out* can encode every character."""
    encoding: str | None = getattr(out, "encoding", None)
    return encoding is None or encoding.lower().startswith("utf")  # an in-memory text stream has no encoding


def columns(out: TextIO, elsewhere: int = 80) -> int:
    """Return `COLUMNS` if it is set, else the columns of the terminal *out*, else *elsewhere*."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdigit() and int(setting):
        return int(setting)
    try:
        return os.get_terminal_size(out.fileno()).columns or elsewhere
    except (OSError, ValueError, AttributeError):
        return elsewhere


def cells(text: str) -> int:
    """Return the columns that *text* takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fold(text: str, width: int) -> list[str]:
    """Return *text* in lines of at most *width* columns, broken between words where that is possible; 1..n lines."""
    width = max(width, 2)  # a wide character takes two
    lines: list[str] = []
    for word in (part for part in text.split(" ") if part):
        rest = word
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += f" {word}"
            continue
        while cells(rest) > width:
            head = rest[:width]
            while cells(head) > width:
                head = head[:-1]
            lines.append(head)
            rest = rest[len(head) :]
        lines.append(rest)
    return lines or [""]


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return *text* in exactly *width* columns: cut with an ellipsis, or filled with blanks."""
    text = safe(text)  # made safe before it is measured
    if cells(text) > width:
        while text and cells(text) > width - 1:
            text = text[:-1]
        text = f"{text.rstrip()}…" if width > 0 else ""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks
