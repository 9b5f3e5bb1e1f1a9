"""Erasure of values in a PostgreSQL store: records are replaced, and what repeats them is removed, with a commit.

A record has the journal entries of one commit, as a body and a seal. The values may also be in snapshots (stored
states), in staged bodies (outcomes of tasks whose superstep is open) and in blobs (large values). PostgreSQL keeps what
was replaced as dead rows until a vacuum, and in its write-ahead log for longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from graphrt.errors._codes.threads import LOST_LEASE
from graphrt.stores import _checks
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._claims import PostgresClaim
from graphrt.stores.postgres._commit import Writing
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.postgres._texts import to_bytes
from graphrt.stores.values import Record

_REPLACE: Final = "UPDATE {s}.record SET body = %s, seal = %s WHERE no = %s AND seq = %s AND count = %s"
_REMOVE: Final = (
    "WITH a AS (DELETE FROM {s}.snapshot WHERE no = %(no)s AND seq > %(after)s),"
    # A commit that ends a superstep raises the thread's generation, which makes the staged rows of older ones invalid.
    # Such rows are removed too, if a concurrent commit has left some.
    " b AS (DELETE FROM {s}.staged s USING {s}.thread t WHERE s.no = %(no)s AND t.no = s.no"
    " AND s.generation < t.generation)"
    " DELETE FROM {s}.blob WHERE no = %(no)s AND NOT name = ANY (%(keep)s::bytea[])"
)
_TABLES: Final = ("record", "staged", "snapshot", "blob")
"""Tables that may have had erased values."""
LEFT: Final = (
    "PostgreSQL's vacuum frees the space of erased values and does not overwrite it. They also stay in its write-ahead "
    "log until that is recycled, in replicas and in backups. VACUUM FULL rewrites the tables."
)


@final
class Erasing:
    """One call of `erase`. It can be repeated after a lost connection, and then finds what it wrote before.

    Args:
        calls: Runs the statements.
        claim: The claim, or right to write, that it is made under.
        writing: Writes the commit.
        records: What replaces stored records with the same numbers.
        snapshots_after: Snapshots of entries after this one are deleted.
        keep_blobs: Names of the blobs to keep; all others of the thread are deleted.

    Raises:
        InputError: The commit or the records are inconsistent (`bad-commit`).
    """

    def __init__(
        self,
        calls: Calls,
        claim: PostgresClaim,
        writing: Writing,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        self._calls: Final = calls
        self._claim: Final = claim
        self._writing: Final = writing
        self._records: Final = _checks.replaced(records, claim.thread)
        keep: list[Any] = [to_bytes(name) for name in keep_blobs]
        self._values: Final = {"no": claim.no, "after": snapshots_after, "keep": keep}

    def run(self, connection: Connection, again: bool) -> None:  # noqa: FBT001 - Calls.call says so
        """Write all of it or nothing.

        Args:
            connection: A connection in autocommit mode.
            again: Whether an earlier call may have written it: whether a connection was lost.

        Raises:
            ConflictError: The claim is void, or the last entry is not the expected one.
            InputError: The thread has no such record.
        """
        claim = self._claim
        if (again or claim.unsure) and self._writing.landed(connection):
            return
        with connection.transaction():
            # The lock on the thread's row keeps other commits out, as for every statement that changes a thread.
            row = self._calls.run(connection, _statements.LOCK_CLAIM, [claim.no, claim.epoch]).fetchone()
            if row is None:
                raise LOST_LEASE(
                    thread=claim.thread,
                    epoch=claim.epoch,
                    known="it was released, its lease ran out, or it was taken over",
                )
            for record in self._records.values():
                values = [record.body, record.seal, claim.no, record.seq, record.count]
                if self._calls.run(connection, _REPLACE, values).rowcount != 1:
                    raise _checks.no_record(claim.thread, record)
            # Removed first, so that the commit may write a snapshot or a blob in place of a removed one.
            self._calls.run(connection, _REMOVE, self._values)
            self._writing.write(connection)


def vacuum(calls: Calls) -> list[str]:
    """Vacuum the tables after an erasure, and return sentences about the bytes that this leaves.

    Raises:
        StoreError: A table could not be vacuumed.
    """

    def work(connection: Connection, _: bool) -> None:  # noqa: FBT001 - Calls.call says so
        """Vacuum each table. VACUUM cannot run inside a transaction; the connection is in autocommit mode."""
        for table in _TABLES:
            calls.run(connection, "VACUUM {s}." + table)

    calls.call(work, "vacuum the tables")
    return [LEFT]
