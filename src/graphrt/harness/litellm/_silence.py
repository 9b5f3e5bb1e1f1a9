"""Take back what a noisy library does to warnings and logging.

Only the process's warning filters and log handlers are touched here, and nothing here knows which library it is for.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final


class QuietWarnings:
    """Warning filters that exist only while at least one block is inside; may only be entered on one loop.

    Warning filters belong to the whole process, so they are as narrow as can be, and as short-lived.

    Args:
        module: Regular expression of the modules that may not warn.
        messages: Regular expressions of texts that nobody may warn with.
    """

    def __init__(self, *, module: str, messages: tuple[str, ...] = ()) -> None:
        self._module: Final = f"{_MARK}{module}"
        self._messages: Final = tuple(f"{_MARK}{message}" for message in messages)
        self._inside = 0

    def __enter__(self) -> None:
        self._inside += 1
        # Each time: somebody's catch_warnings may have taken them away since. Equal filters do not pile up.
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
"""A comment in our regular expressions, so that a user's own filter is never taken for ours."""


def _patterns(entry: tuple[Any, ...]) -> set[str]:
    return {str(getattr(part, "pattern", "")) for part in entry}


@contextmanager
def quiet_import(logger_prefix: str) -> Generator[None]:
    """Import something inside this block: afterwards warning filters and log handlers are what they were.

    Args:
        logger_prefix: How the names of the library's loggers begin. They keep what others attached, propagate as
            ever, and get a NullHandler, so that a process without any logging stays silent.
    """
    before = {name: list(logger.handlers) for name, logger in _loggers(logger_prefix)}
    loudest = logging.getLogger(logger_prefix)
    level = loudest.level
    loudest.setLevel(logging.CRITICAL)  # its own handler stands there while it is imported
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        loudest.setLevel(level)
    for name, logger in _loggers(logger_prefix):
        logger.handlers[:] = [*before.get(name, ()), logging.NullHandler()]


def _loggers(prefix: str) -> list[tuple[str, logging.Logger]]:
    known = list(logging.Logger.manager.loggerDict.items())
    return [(name, logger) for name, logger in known if name.startswith(prefix) and isinstance(logger, logging.Logger)]
