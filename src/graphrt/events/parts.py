"""Parts of events: the open generation of a join, and a failed task that another task handles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphrt.events._word import Word

__all__ = ["HandledTask", "JoinStanding"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JoinStanding(Word):
    """The open generation of a join."""

    node: str
    """The node that waits."""
    sources: tuple[str, ...]
    """Names of the nodes that it waits for, sorted."""
    arrived: tuple[str, ...]
    """Names of the *sources* that have arrived, sorted."""
    fired: bool
    """Whether it has fired. It stays open until all sources have arrived, or one that was counted arrives again."""
    emptied: bool = False
    """Whether a router returned an empty list instead of leading to a source, and none has arrived since."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HandledTask(Word):
    """A failed task that a due task handles, as the `on_error` node of its node."""

    task: str
    """Id of the failed task."""
    node: str
    """Name of its node."""
    arg: Any = None
    """Argument of the Send that started it; None if no Send did."""
