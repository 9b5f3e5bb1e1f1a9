"""`Holding`: lookup of a thread's row and of its owner, inside a transaction of the caller.

The base class of the SQLite store. It answers whether a thread exists, whether a living owner holds it, and whether a
claim is still valid. Nothing is written here.

A *claim* is the right to write a thread. Its `epoch` is its number, counted for each thread, and its lease is the time
for which it is valid without renewal. The row of a thread, found by its id or its number `no`, has the epoch of the
newest claim, the end of its lease, and its owner as JSON. An *owner* is one store object in one process, known by its
random `token`. `Holder` reads that JSON, and finds out whether the process still runs. A thread without entries
(`seq` 0) exists only for an owner that is about to write the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from graphrt.stores import _refusals
from graphrt.stores._owners import Holder, now_s
from graphrt.stores.protocol import Claim, Former
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._rows import Row
from graphrt.stores.sqlite._writing import SqliteClaim

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database


class Holding:
    """A file, and the claims of this store object on its threads."""

    _file: Database
    _held: dict[int, SqliteClaim]
    """Claims that callers got and have not released, by the number of their thread. Guarded by the file's lock."""

    def _forget(self, claim: SqliteClaim) -> None:
        """Remove a claim that was released from `_held`, unless a newer claim took its place. The file's lock is held.

        `SqliteStore.claim` puts claims there.
        """
        if self._held.get(claim.no) is claim:
            del self._held[claim.no]

    def _gave(self, claim: Claim) -> TypeGuard[SqliteClaim]:
        """Return whether *claim* comes from this store object."""
        return isinstance(claim, SqliteClaim) and claim.token == self._file.token

    def _owned(self, db: Connection, claim: Claim) -> Row:
        """Return the row of the thread that *claim* holds.

        Raises:
            ConflictError: *claim* is void; the error says why.
        """
        if not self._gave(claim):
            raise _refusals.lost(claim.thread, claim.epoch, "it was given by another store object")
        row = reading.row_by_no(db, claim.no)
        if row is None:
            raise _refusals.lost(claim.thread, claim.epoch, "the thread was deleted")
        if row.epoch != claim.epoch or row.lease is None or row.lease <= now_s():
            raise _refusals.lost(claim.thread, claim.epoch, self._holder(row))
        return row

    def _there(self, db: Connection, thread: str, *, damaged: bool = False) -> tuple[Row, bool]:
        """Return the thread's row, and whether a living owner holds the thread.

        With *damaged*, the row is returned unchecked, for a caller that only wants to delete the thread.

        Raises:
            InputError: There is no such thread, or it has neither entries nor a living owner.
        """
        row = reading.row_by_id(db, thread, damaged=damaged)
        owned = row is not None and self._lives(row)
        if row is None or not (row.seq or owned):
            raise _refusals.unknown_thread(thread)
        return row, owned

    def _lives(self, row: Row) -> bool:
        """Return whether a living owner holds the thread of *row*, which may be damaged. The file's lock is held."""
        if not isinstance(row.owner, str) or not isinstance(row.lease, (int, float)):
            return False
        holder = Holder.load(row.owner)
        if holder is None:
            return False
        # The owner is this store object: a claim counts only if a caller has it (`_held`), or will get it when the
        # current transaction is committed (`giving`).
        if holder.owner.token == self._file.owner.token:
            held = self._held.get(row.no)
            epoch = self._file.giving.get(row.no) if held is None else held.epoch
            if epoch != row.epoch:
                return False  # the call that took this claim failed, so no caller ever got it
        return holder.lives(row.lease, me=self._file.owner)

    def _former(self, row: Row | None) -> Former:
        """Return how the last owner of the thread of *row*, which no living owner holds, lost it."""
        if row is None or row.owner is None or row.lease is None:
            return "released"
        holder = Holder.load(row.owner)
        return "lease-expired" if holder is None else holder.lost(row.lease, me=self._file.owner)

    def _holder(self, row: Row) -> str:
        """Return for an error message who holds the thread, as a clause."""
        holder = Holder.load(row.owner) if row.owner else None
        if holder is None or row.lease is None:
            return f"its newest claim is number {row.epoch}, which is not held now"
        return f"its newest claim is number {row.epoch}, {holder.describe(row.lease, me=self._file.owner)}"

    def _unheld(self, row: Row | None, thread: str) -> None:
        """Check that no living owner holds the thread of *row*. There may be no row: the thread does not exist.

        Raises:
            ConflictError: One does.
        """
        if row is not None and self._lives(row):
            raise _refusals.held(thread, self._holder(row))
