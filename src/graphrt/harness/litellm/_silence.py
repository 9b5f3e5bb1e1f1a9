"""Silences a noisy library: its warnings, and its changes to warning filters and log handlers.

The module only touches the warning filters and log handlers of the process. It does not know which library it is for.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final


class QuietWarnings:
    """Warning filters that are active while at least one `with` block is entered. Enter it on one event loop only.

    Warning filters are global to the process, so these are as narrow and as short-lived as possible.

    Args:
        module: Regular expression of the modules whose warnings are ignored.
        messages: Regular expressions of warnings that are ignored from any module.
    """

    def __init__(self, *, module: str, messages: tuple[str, ...] = ()) -> None:
        self._module: Final = f"{_MARK}{module}"
        self._messages: Final = tuple(f"{_MARK}{message}" for message in messages)
        self._inside = 0
        """Number of blocks entered."""

    def __enter__(self) -> None:
        self._inside += 1
        # Each time: the end of a `catch_warnings` block may have removed them since. Equal filters do not add up.
        warnings.filterwarnings("ignore", module=self._module)
        for message in self._messages:
            warnings.filterwarnings("ignore", message=message)

    def __exit__(self, *exc: object) -> None:
        self._inside -= 1
        if not self._inside:
            ours = {self._module, *self._messages}
            filters: Any = warnings.filters
            filters[:] = [entry for entry in filters if ours.isdisjoint(_patterns(entry))]


_MARK: Final = "(?#graphrt)"
"""A comment inside our regular expressions, so that a filter of the user is never removed as ours."""


def _patterns(entry: tuple[Any, ...]) -> set[str]:
    return {str(getattr(part, "pattern", "")) for part in entry}


@contextmanager
def quiet_import(logger_prefix: str) -> Generator[None]:
    """Import a library inside this block; afterwards, warning filters and log handlers are as before.

    Args:
        logger_prefix: Prefix of the names of the library's loggers. They keep handlers that others attached, still
            propagate, and get a NullHandler, so that a process without logging configuration stays silent.
    """
    earlier_handlers = {name: list(logger.handlers) for name, logger in _loggers(logger_prefix)}
    root_logger = logging.getLogger(logger_prefix)
    level = root_logger.level
    root_logger.setLevel(logging.CRITICAL)  # the library attaches its own handler during the import
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root_logger.setLevel(level)
    for name, logger in _loggers(logger_prefix):
        logger.handlers[:] = [*earlier_handlers.get(name, ()), logging.NullHandler()]


def _loggers(prefix: str) -> list[tuple[str, logging.Logger]]:
    known = list(logging.Logger.manager.loggerDict.items())
    return [(name, logger) for name, logger in known if name.startswith(prefix) and isinstance(logger, logging.Logger)]
