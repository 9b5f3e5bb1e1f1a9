"""Listing of due threads, shared by all hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from graphrt.runtime import Runtime, ThreadInfo

PAGE: Final = 500
"""Maximum number of threads listed at once."""


def due_threads(runtime: Runtime[Any, Any], graph: str | None, fits: Callable[[ThreadInfo], bool]) -> list[ThreadInfo]:
    """Return a page of the due threads accepted by *fits*, of one graph or of all, highest priority first."""
    infos: list[ThreadInfo] = []
    after: str | None = None
    while True:
        page = runtime.due(graph=graph, after=after, limit=PAGE)
        infos += filter(fits, page)
        if len(page) < PAGE or len(infos) >= PAGE:
            return infos
        after = page[-1].thread
