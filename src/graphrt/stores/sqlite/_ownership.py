"""`Holding`: lookup of a thread's row and of its owner, inside a transaction of the caller.

The base class of the SQLite store. It answers whether a thread exists, whether a living owner holds it, and whether a
claim is still valid. The only writes are those that store a claim (`_take`).

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
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.sqlite._rows import Row
from graphrt.stores.sqlite._writing import SqliteClaim
from graphrt.stores.values import Claim, Commit, Former

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database


class Holding:
    """A file, and the claims of this store object on its threads."""

    _file: Database
    _held: dict[int, SqliteClaim]
    """Stored claims that callers have not released, by the number of their thread. Guarded by the file's lock."""
    _reserved: dict[str, SqliteClaim]
    """Claims that are not stored yet, by thread id. Guarded by the file's lock."""

    def _forget(self, claim: SqliteClaim) -> None:
        """Remove a claim that was released, unless a newer claim took its place. The file's lock is held."""
        if self._held.get(claim.no) is claim:
            del self._held[claim.no]
        if self._reserved.get(claim.thread) is claim:
            del self._reserved[claim.thread]

    def _take(self, db: Connection, claim: SqliteClaim, commit: Commit, seq: int) -> None:
        """Store *claim*, which was only reserved, in the transaction of its first commit: the thread is at *seq* then.

        The epoch decides: another claim on the thread would have raised it. What `claim` found of the former owner, a
        release, a dead process or a lease that has run out, stays true until then.

        Raises:
            ConflictError: Another owner was faster, the thread was deleted, or it is at another entry.
        """
        thread, until_s = claim.thread, now_s() + claim.lease_s
        owner = Holder(self._file.owner, claim.lease_s, commit.at, claim.former).dump()
        if claim.head.seq:
            if not writing.take(db, claim, commit, seq, until_s, owner):
                row = reading.row_by_no(db, claim.no)
                if row is not None and row.epoch < claim.epoch:
                    raise _refusals.moved(thread, commit.expected, row.seq)
                raise _refusals.held(thread, "it was deleted meanwhile" if row is None else self._holder(row))
        else:
            row = reading.row_by_id(db, thread)
            if row is not None:
                if row.seq or self._lives_in_file(row):
                    raise _refusals.held(thread, self._holder(row))
                reading.forget(db, row.no)
            if commit.expected:
                raise _refusals.moved(thread, commit.expected, 0)
            claim.no = writing.make(db, claim, commit, seq, until_s, owner)
        self._file.giving[claim.no] = claim.epoch  # another write of this transaction must see the thread as held

    def _wrote(self, claim: SqliteClaim, commit: Commit, place: int) -> None:
        """Note that *commit* is durable; the next body is staged at *place*. The file's lock is held."""
        claim.staged = place
        claim.turn += 1  # the row counts commits too; `writing.landed` compares the two numbers
        if not claim.is_stored:
            self._stored(claim)
        if commit.release:
            self._forget(claim)

    def _stored(self, claim: SqliteClaim) -> None:
        """Note that *claim* is stored, which may come twice. The file's lock is held."""
        claim.is_stored = True
        self._held[claim.no] = claim
        self._reserved.pop(claim.thread, None)

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
        """Return whether a living owner holds the thread of *row*, which may be damaged. The file's lock is held.

        A claim of this store object counts before it is stored, too.
        """
        reserved = self._reserved.get(row.id)
        return (reserved is not None and reserved.until_s > now_s()) or self._lives_in_file(row)

    def _lives_in_file(self, row: Row) -> bool:
        """Return whether *row* says that a living owner holds its thread."""
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
