"""Readable records: a line about a diff, and a table of a run, under the name of Lár's module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphrt.compat.lar._state import compute_state_diff

__all__ = ["build_log_table", "summarize_diff"]

_COLUMNS = ("Step", "Node", "Outcome", "Tokens", "Changes")


def summarize_diff(diff: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line about a `state_diff`: the keys that were added, updated and removed.

    Args:
        diff: As in a record.
    """
    updated = diff.get("updated", diff.get("modified", {}))
    parts = {"Added": diff.get("added", {}), "Updated": updated, "Removed": diff.get("removed", {})}
    return "; ".join(f"{label}: {', '.join(keys)}" for label, keys in parts.items() if keys) or "No state change"


def build_log_table(history: Iterable[Mapping[str, Any]]) -> Any:
    """Return a rich table with a row for each record, and the sum of their tokens.

    Args:
        history: Records, as `run_step_by_step` yields them: 0..n.

    Raises:
        ImportError: rich is missing: `pip install graphrt[report]`.
    """
    from rich.table import Table  # an extra, which only this module needs
    from rich.text import Text

    table: Any = Table(*_COLUMNS, title="Run")
    total = 0
    for record in history:
        metadata: Mapping[str, Any] = record.get("run_metadata") or {}
        tokens: int = metadata.get("total_tokens", 0)
        total += tokens
        diff: Any = record.get("state_diff")
        if diff is None:
            diff = compute_state_diff(record["state_before"], record.get("state_after", {}))
        cells: tuple[object, ...] = (record["step"], record["node"], record["outcome"], tokens, summarize_diff(diff))
        table.add_row(*(Text(str(cell)) for cell in cells))
    table.add_row("", "Total", "", str(total), "")
    return table
