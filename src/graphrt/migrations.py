"""Declared migrations: how a stored thread of an older graph continues on a changed one (rule R14).

Values only. Choosing and applying a migration belongs to the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Migration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Allows threads of the graph with the fingerprint *source* to continue on the present graph.

    Source: decision 0022.
    """

    source: str
    """`fingerprint` of the older graph, or a prefix of it with 8 or more digits."""
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Takes the thread's values by field name and returns all values for the present graph; None keeps them.

    Values of the classes in `Verdict.classes`, and of classes that the graph no longer knows, are given as plain data:
    a dict of the fields, a list for a named tuple, the name of an enum member.

    Must be pure: it may be called more than once for a thread.
    """
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Older name to present name of each renamed node; pending tasks of the older node move to the new one."""
    name: str = "migration"
    """Name of the migration in its journal entry, `ThreadMigrated`."""

    def matches(self, fingerprint: str) -> bool:
        """Return whether *fingerprint* begins with `source`. A `source` of fewer than 8 digits matches nothing."""
        return len(self.source) >= 8 and fingerprint.startswith(self.source)
