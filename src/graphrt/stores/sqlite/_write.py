"""`Write`: one write to a SQLite file, with the function that does it, its state and its outcome.

It is the job of `_group_commit`: callers that write at the same time share a transaction, in which one of them does the
writes of all. So a write may be done in another thread than its caller's, and carries its outcome back. Transactions
are in `_database`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from graphrt.stores.sqlite._group_commit import DONE, WAITING

if TYPE_CHECKING:
    from sqlite3 import Connection


@final
class Write:
    """A write of one caller; its transaction may contain others' writes.

    Args:
        work: Writes on the connection, in a transaction, and returns a result. It may be called again.
        landed: Returns whether the write is stored, or None if nothing can tell. Called with the result of *work* if
            the COMMIT failed and its outcome is unknown.
        kept: Returns, for the text of an error, what is stored if nothing was written.
        thread: Id of the stored thread that is written, for an error.
        then: Called with the result of *work* when it is durable; None if there is nothing to do.
        size: Approximate bytes that *work* writes.
        last: The write belongs to the closing of the store, which accepts no other writes any more.
    """

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
        """`WAITING`, `TAKEN` by the caller that does the writes of all, or `DONE`."""
        self.wake: Any = None
        """The lock by which the group wakes the caller; None until the caller has to wait."""

    def end(self) -> None:
        """End the write: it is stored. `Database` calls this and `fail` with its lock held, in the leader's thread."""
        # `then` first: the caller may go on as soon as the state is DONE.
        if self.then is not None:
            self.then(self.found)
        self.state = DONE

    def fail(self, error: Exception, cause: Exception) -> None:
        """End the write with *error*: it is not stored, or that is not known. *cause* is the original error."""
        if error is not cause:  # as `raise error from cause` would do; here the caller raises it later
            error.__cause__ = cause
        self.error = error
        self.state = DONE
