"""Threads that are due, as every host looks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from graphrt.runtime import Runtime, ThreadInfo

PAGE: Final = 500
"""Threads that are listed at once."""


def due_threads(runtime: Runtime[Any, Any], graph: str | None, fits: Callable[[ThreadInfo], bool]) -> list[ThreadInfo]:
    """Return a page of the due threads that *fits* lets pass, of one graph or of all; the highest priority first."""
    found: list[ThreadInfo] = []
    after: str | None = None
    while True:
        page = runtime.due(graph=graph, after=after, limit=PAGE)
        found += filter(fits, page)
        if len(page) < PAGE or len(found) >= PAGE:
            return found
        after = page[-1].thread
