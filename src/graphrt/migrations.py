"""Declared migrations: how a thread of an older graph goes over to a changed one (rule R14). Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Migration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Lets threads of the graph with the fingerprint *source* go on with the present one.

    Added in 0.2. Source: decision 0022.
    """

    source: str
    """`fingerprint` of the older graph; the first 8 or more of its digits will do."""
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """All values of the state from those that the thread has; None leaves them. Pure: it may be called again."""
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Older name to present name of nodes that were renamed: what is pending goes to them."""
    name: str = "migration"
    """Shown in the journal."""

    def matches(self, fingerprint: str) -> bool:
        """Whether it is meant for threads of that graph."""
        return len(self.source) >= 8 and fingerprint.startswith(self.source)
