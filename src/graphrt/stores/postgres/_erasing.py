"""Erasure in a PostgreSQL store: records are replaced, and what repeats them is removed, with a commit.

PostgreSQL keeps what was replaced as dead rows until a vacuum, and in its write-ahead log for longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from graphrt.stores import _refusals
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._claims import PostgresClaim
from graphrt.stores.postgres._commit import Writing
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.postgres._texts import to_bytes
from graphrt.stores.protocol import Record

_REPLACE: Final = "UPDATE {s}.record SET body = %s, seal = %s WHERE no = %s AND seq = %s AND count = %s"
_REMOVE: Final = (
    "WITH a AS (DELETE FROM {s}.snapshot WHERE no = %(no)s AND seq > %(after)s),"
    # Rows that a concurrent commit staged after the ones of its generation were removed are not read any more.
    " b AS (DELETE FROM {s}.staged s USING {s}.thread t WHERE s.no = %(no)s AND t.no = s.no"
    " AND s.generation < t.generation)"
    " DELETE FROM {s}.blob WHERE no = %(no)s AND NOT name = ANY (%(keep)s::bytea[])"
)
_TABLES: Final = ("record", "staged", "snapshot", "blob")
LEFT: Final = (
    "PostgreSQL's vacuum frees the space of erased values and does not overwrite it. They also stay in its write-ahead "
    "log until that is recycled, in replicas and in backups. VACUUM FULL rewrites the tables."
)


@final
class Erasing:
    """One call of `erase`. It can be repeated after a lost connection, and then finds what it wrote before.

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
        self._records: Final = _refusals.replaced(records, claim.thread, durable=True)
        keep: list[Any] = [to_bytes(name) for name in keep_blobs]
        self._values: Final = {"no": claim.no, "after": snapshots_after, "keep": keep}

    def run(self, connection: Connection, again: bool) -> None:  # noqa: FBT001 - Calls.call says so
        """Write all of it or nothing.

        Raises:
            ConflictError: The claim is void, or the last entry is not the expected one.
            InputError: The thread has no such record.
        """
        claim = self._claim
        if (again or claim.unsure) and self._writing.landed(connection):
            return
        with connection.transaction():
            row = self._calls.run(connection, _statements.LOCK_CLAIM, [claim.no, claim.epoch]).fetchone()
            if row is None:
                raise _refusals.lost(
                    claim.thread, claim.epoch, "it was released, its lease ran out, or it was taken over"
                )
            for record in self._records.values():
                values = [record.body, record.seal, claim.no, record.seq, record.count]
                if self._calls.run(connection, _REPLACE, values).rowcount != 1:
                    raise _refusals.no_record(claim.thread, record)
            self._calls.run(connection, _REMOVE, self._values)
            self._writing.write(connection)


def vacuum(calls: Calls) -> list[str]:
    """Vacuum the tables, and return what that leaves."""

    def work(connection: Connection, _: bool) -> None:  # noqa: FBT001
        for table in _TABLES:
            calls.run(connection, "VACUUM {s}." + table)

    calls.call(work, "vacuum the tables")
    return [LEFT]
