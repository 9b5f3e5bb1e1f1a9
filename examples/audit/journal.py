"""The step log as a projection of the journal: entries arrive as they are committed, and each node gives one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from graphrt.console import size
from graphrt.events import (
    Entry,
    InterruptRaised,
    RunInterrupted,
    RunResumed,
    RunStarted,
    SuperstepCommitted,
    TaskFailed,
    TaskRetried,
    TaskSucceeded,
)

_SIZES: Final = frozenset({"size"})
"""Fields that count bytes."""


class Row(NamedTuple):
    """The work of one node in one superstep."""

    superstep: int
    node: str
    tasks: int
    changed: str
    """Fields and what was added to them or written."""
    duration_s: float
    """Seconds from commit to commit."""
    failed: int = 0
    """Tasks that failed after their retries."""


class Journal:
    """A sink for `Runtime(sinks=[...])`.

    Args:
        reducers: Field to the name of its reducer, as in `graph.topology()["state"]`.
        show: Called with each row, right after the commit.
        due: Called with the names of the tasks that are due next, one for each task.
    """

    def __init__(
        self,
        reducers: Mapping[str, str],
        *,
        show: Callable[[Row], None],
        due: Callable[[Sequence[str]], None],
    ) -> None:
        self.rows: list[Row] = []
        self._reducers = reducers
        self._show = show
        self._due = due
        self._since = 0.0
        self._superstep = 0
        self._updates: dict[str, list[Mapping[str, Any]]] = {}
        self._failures: dict[str, list[str]] = {}
        self._retries: dict[str, int] = {}
        self._questions: dict[str, int] = {}

    def __call__(self, entry: Entry) -> None:
        """Handle one entry."""
        match entry.event:
            case RunStarted() | RunResumed():
                self._since = entry.at
            case TaskSucceeded(node=node, update=update):
                self._updates.setdefault(node, []).append(update or {})
            case TaskFailed(node=node, error=error):
                self._failures.setdefault(node, []).append(error)
            case TaskRetried(node=node):
                self._retries[node] = self._retries.get(node, 0) + 1
            case InterruptRaised(node=node):
                self._questions[node] = self._questions.get(node, 0) + 1
            case RunInterrupted():
                for node, count in self._questions.items():
                    self._add(Row(self._superstep + 1, node, count, f"asks {count}, waits", entry.at - self._since))
                self._questions.clear()
            case SuperstepCommitted(superstep=superstep, next=due):
                self._commit(superstep, entry.at)
                self._due(due)
            case _:
                pass

    def _commit(self, superstep: int, at: float) -> None:
        self._superstep = superstep
        for node in dict.fromkeys((*self._updates, *self._failures)):
            updates, failures = self._updates.get(node, []), self._failures.get(node, [])
            changed = describe(updates, self._reducers)
            if failures:
                kinds = ", ".join(dict.fromkeys(failures))
                changed = "; ".join(part for part in (changed, f"{len(failures)} failed: {kinds}") if part)
            if self._retries.get(node):
                changed += f"; {self._retries[node]} retries"
            self._add(Row(superstep, node, len(updates) + len(failures), changed, at - self._since, len(failures)))
        self._since = at
        self._updates, self._failures, self._retries = {}, {}, {}

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._show(row)


def describe(updates: Sequence[Mapping[str, Any]], reducers: Mapping[str, str]) -> str:
    """The writes of *updates* in one superstep, with `+` for fields that a reducer folds."""
    written: dict[str, list[Any]] = {}
    for update in updates:
        for field, value in update.items():
            written.setdefault(field, []).append(value)
    parts: list[str] = []
    for field, values in written.items():
        amount = sum(_amount(value) for value in values)
        folded = reducers.get(field, "overwrite") != "overwrite"
        if field in _SIZES:
            parts.append(f"{field} +{size(amount)}")
        elif isinstance(values[0], (int, list, dict)):
            parts.append(f"{field} {'+' if folded else ''}{amount:,}")
        else:
            parts.append(field)
    return ", ".join(parts)


def _amount(value: object) -> int:
    match value:
        case int():
            return value
        case list() | dict():
            return len(value)  # pyright: ignore[reportUnknownArgumentType]  # of anything
        case BaseModel() | _:
            return 1
