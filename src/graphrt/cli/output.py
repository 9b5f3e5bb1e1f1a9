"""Output of a command: its answer goes to standard output, everything else to standard error.

An answer is text, for people and for pipes, or one JSON document if `-o json` asks for it. While a command runs, only
the command writes to standard output. Output of the user's modules and nodes goes to standard error, so it never gets
into a document.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import UnsupportedOperation
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

import typing_extensions as te

import graphrt
from graphrt.cli import exits
from graphrt.console.screen import Line, Screen, open_screen
from graphrt.errors import GraphrtError, NodeError
from graphrt.wires import plain_data

WIDEST: Final = 160
"""Maximum number of columns of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a command."""

    data: Any
    """JSON-ready data, `result` of the document; or a function that makes it, where that takes long."""
    lines: Callable[[int], list[Line]] | None = None
    """Makes the text for a number of columns; None if there is no text."""
    text: str | None = None
    """Text for programs, such as Mermaid, which is written unchanged, also to pipes."""
    code: int = exits.OK
    error: BaseException | None = None


class Output:
    """The two streams of a command, and the options for them. A context manager, which guards standard output."""

    def __init__(self, command: str, *, as_json: bool, asked: bool, quiet: bool, debug: bool) -> None:
        self.command = command
        # None if the caller has closed the stream. Then nobody reads it, which is not an error.
        self.out: TextIO = sys.stdout or _nowhere()
        self.err: TextIO = sys.stderr or _nowhere()
        self.is_terminal: bool = self.out.isatty()
        self.as_json: bool = as_json
        self.asked: bool = asked  # by an option of the command, not by the environment
        self.quiet = quiet
        self.debug = debug
        self._saved: int | None = None
        self._notes: Screen | None = None

    def __enter__(self) -> te.Self:
        self.out.flush()
        with suppress(OSError, ValueError, AttributeError, UnsupportedOperation):
            number = self.out.fileno()
            if number == 1:  # not under a test that captures the stream
                self._saved = os.dup(1)
                os.dup2(2, 1)  # programs that the user's code starts inherit it
                encoding, errors = self.out.encoding, self.out.errors
                self.out = os.fdopen(os.dup(self._saved), "w", encoding=encoding, errors=errors or "strict")
        self._before = sys.stdout
        sys.stdout = self.err
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._notes is not None:
            self._notes.busy(None)
        sys.stdout = self._before
        if self._saved is not None:
            with suppress(OSError):  # `write` has reported it
                self.out.close()
            os.dup2(self._saved, 1)
            os.close(self._saved)

    @property
    def notes(self) -> Screen:
        """The screen on standard error, for progress and questions."""
        if self._notes is None:
            self._notes = open_screen(self.err, widest=WIDEST)
        return self._notes

    @property
    def shows_progress(self) -> bool:
        """Whether there is someone to show progress to."""
        return not self.quiet and self.err.isatty()

    def busy(self, text: str | None) -> None:
        """Show what is in progress, if someone is watching; None clears it."""
        if self.shows_progress:
            self.notes.busy(text)

    def note(self, *segments: Any) -> None:
        """Write a line for people, unless they asked for quiet."""
        if not self.quiet:
            self.notes.line(*segments)

    def write(self, answer: Answer) -> int:
        """Write *answer*: its error for people, and its data or its text. Return the exit code."""
        try:
            self._write(answer)
        except BrokenPipeError:  # the reader of our pipe has exited, as `head` does
            pass
        except OSError as error:  # a full disk
            self.err.write(f"graphrt {self.command}: standard output cannot be written: {error.strerror}\n")
            return answer.code or exits.FAILED
        return answer.code

    def _write(self, answer: Answer) -> None:
        if self._notes is not None:
            self._notes.busy(None)
        if answer.error is not None:
            self.fail(answer.error)
        if answer.text is not None and not (self.asked and self.as_json):
            self.out.write(answer.text if answer.text.endswith("\n") else f"{answer.text}\n")
        elif self.as_json:
            self.out.write(f"{plain_data.dumps(document(self.command, answer))}\n")
        elif answer.lines is not None:
            screen = open_screen(self.out, widest=WIDEST, elsewhere=WIDEST)
            for line in answer.lines(screen.width):
                screen.line(*line)
        self.out.flush()

    def fail(self, error: BaseException) -> None:
        """Write *error* for people, with the line of a node's exception; with --debug its traceback too."""
        import traceback

        from graphrt._display import safe, shown_error

        if self.debug:
            self.err.write(safe("".join(traceback.format_exception(error)), lines=True))
        name = "" if isinstance(error, GraphrtError) else f"{type(error).__name__}: "
        message = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{name}{shown_error(error)}"
        self.err.write(f"graphrt {self.command}: {message}\n")
        cause = error.__cause__
        if isinstance(error, NodeError) and cause is not None and cause.__traceback__ is not None and not self.debug:
            frame = traceback.extract_tb(cause.__traceback__)[-1]
            self.err.write(f"  Raised at {frame.filename}:{frame.lineno}; --debug prints the traceback.\n")
        self.err.flush()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def document(command: str, answer: Answer) -> dict[str, Any]:
    """Return the document of an answer, which has the same keys for every command."""
    return {
        "graphrt": graphrt.__version__,
        "command": command,
        "exit_code": answer.code,
        "error": None if answer.error is None else plain_data.error(answer.error, answer.code),
        "result": answer.data() if callable(answer.data) else answer.data,
    }
