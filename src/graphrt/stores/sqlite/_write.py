"""`Write`: one write to a SQLite file, with the function that does it, its state and its outcome.

It is the job of `_group_commit`. Transactions are in `_database`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from graphrt.stores.sqlite._group_commit import DONE, WAITING

if TYPE_CHECKING:
    from sqlite3 import Connection


@final
class Write:
    """A write of one caller; its transaction may contain others' writes. For the arguments see `Database.write`."""

    __slots__ = ("error", "found", "kept", "landed", "last", "size", "state", "then", "thread", "wake", "work")

    def __init__(
        self,
        work: Callable[[Connection], Any],
        landed: Callable[[Connection, Any], bool | None],
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
        """The result of `work`."""
        self.error: Exception | None = None
        """The error that the caller raises, or None."""
        self.state = WAITING
        self.wake: Any = None

    def end(self) -> None:
        """End the write: it is stored."""
        if self.then is not None:
            self.then(self.found)
        self.state = DONE

    def fail(self, error: Exception, cause: Exception) -> None:
        """End the write with *error*: it is not stored, or that is not known. *cause* is the original error."""
        if error is not cause:
            error.__cause__ = cause
        self.error = error
        self.state = DONE
