"""Declared migrations: how a stored thread of an older graph continues on a changed one (rule R14).

This module defines only values. The journal chooses and applies migrations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrt.errors._codes.arguments import INVALID_ARGUMENT

__all__ = ["Migration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Allows threads of the graph with the fingerprint *source* to continue on the current graph.

    Source: decision 0022.
    """

    source: str
    """`fingerprint` of the older graph, or a prefix of it with 8 or more digits."""
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Takes the thread's values by field name and returns all values for the current graph; None keeps them.

    Values of the classes in `Verdict.classes`, and of classes that the graph no longer knows, are given as plain data.
    A dataclass becomes a dict of its fields, a named tuple a list, and an enum member its name.

    Must be pure: it may be called more than once for a thread.
    """
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the old name of each renamed node to the new one. Pending tasks of the old node move to the new one.

    They keep their ids, and so their recorded effects, answers and idempotency keys.
    """
    name: str = "migration"
    """Name of the migration in its journal entry, `ThreadMigrated`."""

    def __post_init__(self) -> None:
        """Check that `source` is a text.

        Raises:
            InputError: It is not (`input`).
        """
        source: Any = self.source
        if not isinstance(source, str):
            wanted = "the `fingerprint` of the older graph, or its first 8 digits or more"
            raise INVALID_ARGUMENT(argument="source= of a Migration", value=source, wanted=wanted)

    def matches(self, fingerprint: str) -> bool:
        """Return whether *fingerprint* begins with `source`. A `source` of fewer than 8 digits matches nothing."""
        return len(self.source) >= 8 and fingerprint.startswith(self.source)
