"""The live view of a run in a terminal: `RunProgress`, redrawn eight times a second. Needs rich."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

import typing_extensions as te

from graphrt.console.progress import RunProgress
from graphrt.console.screen import Line, as_text
from graphrt.errors._codes.arguments import MISSING_PACKAGE
from graphrt.runtime import RunResult, Stream

S = TypeVar("S")
_PER_SECOND: Final = 8


class Lines:
    """Lines as a rich renderable.

    Args:
        make: Returns the lines for a number of columns.
    """

    def __init__(self, make: Callable[[int], list[Line]]) -> None:
        self._make = make

    def __rich_console__(self, console: Any, options: Any) -> Any:
        for line in self._make(max(options.max_width - 2, 20)):
            yield as_text(["  ", *line])


def renderable(make: Callable[[int], list[Line]]) -> Lines:
    """Return a rich renderable: `console.print(renderable(lambda width: views.run(result, width)))`."""
    return Lines(make)


class LiveView:
    """A context manager that shows a run while its stream is read.

    Args:
        progress: The progress to show; it takes the items of the stream.
        console: A `rich.console.Console`; None makes one for standard error.
        clock: Returns seconds.

    Raises:
        MissingExtraError: rich is not installed.
    """

    def __init__(
        self, progress: RunProgress, console: Any = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError as error:
            raise MISSING_PACKAGE(user="A live view", package="rich", extra="cli", value="rich") from error
        self.progress = progress
        self._clock = clock
        self._began = clock()
        self._live: Any = Live(
            Lines(lambda width: progress.lines(width, self.elapsed_s)),
            console=console or Console(stderr=True, markup=False, emoji=False, highlight=False),
            refresh_per_second=_PER_SECOND,
            vertical_overflow="crop",
        )

    @property
    def elapsed_s(self) -> float:
        """Seconds since the view was created."""
        return self._clock() - self._began

    def __enter__(self) -> te.Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def watch(self, stream: Stream[Any, S]) -> RunResult[S]:
        """Read *stream*, made with `modes=MODES`, to its end, and return the result of the run."""
        return watched(stream, self.progress)


def watched(stream: Stream[Any, S], progress: RunProgress) -> RunResult[S]:
    """Read *stream*, made with `modes=MODES`, to its end, and return the result of the run; leaving it cancels the run."""
    with stream:
        for mode, item in stream:
            progress.take(mode, item)
    result = stream.result
    if result is None:  # a stream that was read to its end has a result, or has raised
        raise RuntimeError("the stream was read before")
    return result
