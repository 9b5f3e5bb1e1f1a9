"""Plain values that errors and `on_error` nodes hand out: findings of `compile()`, and failed tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding of `compile()`."""

    code: str
    """Stable slug, for instance `unknown-node`."""
    message: str
    """The problem, with the names involved."""
    node: str | None = None
    """The node that it is about; None if it is about the graph."""
    hint: str = ""
    """How to solve it."""
    where: str = ""
    """`file:line` of the call that declared it; empty if unknown."""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        hint = f"\n      Fix: {self.hint}" if self.hint else ""
        return f"[{self.code}] {self.message}{place}{hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """A failed task, for the `on_error` node that handles it: one of `ctx.failures`."""

    error: BaseException
    """The node's exception; after a restart, as much of it as the journal stored."""
    node: str
    """Name of the node."""
    task_id: str
    """Id of the task."""
    arg: Any = None
    """Argument of the Send that started the task; None if no Send did."""
