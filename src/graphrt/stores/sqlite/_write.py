"""One write to a SQLite file: its statements, and its outcome.

A plain value. Transactions are made in `_database`, and shared through `_group_commit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from graphrt.stores.sqlite._group_commit import DONE, WAITING

if TYPE_CHECKING:
    from sqlite3 import Connection


@final
class Write:
    """A write of one caller; its transaction may contain the writes of others."""

    __slots__ = ("error", "found", "kept", "landed", "last", "size", "state", "then", "thread", "wake", "work")

    def __init__(
        self,
        work: Callable[[Connection], Any],
        landed: Callable[[Connection, Any], bool],
        kept: Callable[[], str],
        thread: str,
        then: Callable[[Any], None] | None,
        size: int,
        *,
        last: bool,
    ) -> None:
        self.work = work
        self.landed = landed
        self.kept = kept
        self.thread = thread
        self.then = then
        self.size = size
        self.last = last
        self.found: Any = None
        self.error: Exception | None = None
        self.state = WAITING
        self.wake: Any = None

    def end(self) -> None:
        """It is stored."""
        if self.then is not None:
            self.then(self.found)
        self.state = DONE

    def fail(self, error: Exception, cause: Exception) -> None:
        """It is not stored, or nobody knows."""
        if error is not cause:
            error.__cause__ = cause
        self.error = error
        self.state = DONE
