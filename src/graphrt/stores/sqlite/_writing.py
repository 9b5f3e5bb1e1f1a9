"""What the SQLite store writes for a claim: the thread's row, its records and parts, and whether they are there.

Statements on an open connection, inside a transaction of the caller; who may do what is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphrt.errors import StoreError
from graphrt.stores.protocol import Claim, Commit, Head
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._schema import BLOB, META, SNAPSHOT, SPAN, STAGED, THREADS

if TYPE_CHECKING:
    from sqlite3 import Connection

_MAKE: Final = (
    "INSERT INTO thread(id, seq, first, epoch, turn, status, graph, created_at, updated_at, lease, owner)"
    " VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)"
)
_TAKE: Final = "UPDATE thread SET epoch = epoch + 1, turn = 0, lease = ?, owner = ? WHERE no = ?"
_STEP: Final = (
    "UPDATE thread SET seq = ?, turn = turn + 1, updated_at = ?, lease = ?"
    " WHERE no = ? AND seq = ? AND epoch = ? AND lease > ?"
)
_TURN: Final = (
    "UPDATE thread SET seq = ?, turn = turn + 1, updated_at = ?, lease = ?, status = coalesce(?, status),"
    " graph = coalesce(?, graph) WHERE no = ? AND seq = ? AND epoch = ? AND lease > ?"
)
_RENEW: Final = "UPDATE thread SET lease = ? WHERE no = ? AND epoch = ? AND lease > ?"
_FREE: Final = "UPDATE thread SET lease = NULL, owner = NULL WHERE no = ? AND epoch = ?"
_APPEND: Final = "INSERT INTO record(key, count, body, seal) VALUES (?, ?, ?, ?)"
_UNSTAGE: Final = "DELETE FROM part WHERE no = ? AND kind = ?"
_PUT: Final = (
    "INSERT INTO part(no, kind, name, place, body) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT(no, kind, name) DO UPDATE SET body = excluded.body"
)
_KEEP: Final = (
    "INSERT INTO part(no, kind, name, place, body) VALUES (?, ?, ?, 0, ?) ON CONFLICT(no, kind, name) DO NOTHING"
)


class SqliteClaim(Claim):
    """A claim that knows where its thread lies, and what only its holder can change."""

    __slots__ = ("no", "staged", "token", "turn")

    def __init__(self, head: Head, lease_s: float, no: int, token: str, staged: int) -> None:
        super().__init__(head, lease_s)
        self.no = no
        self.token = token
        """Of the store object that gave it."""
        self.turn = 0
        """Commits made under it."""
        self.staged = staged
        """The place of the next body to stage; 0 if none is staged."""


def make(db: Connection, *values: object) -> int:
    """Make a thread of id, seq, first, epoch, status, graph, times, lease and owner; returns its number."""
    no = db.execute(_MAKE, values).lastrowid
    if no is None or no > THREADS:
        raise StoreError(
            f"The database has had {THREADS:,} threads, it cannot have more.",
            code="store-full",
            fix="Go on in a new file.",
        )
    return no


def take(db: Connection, no: int, until_s: float, owner: str) -> None:
    db.execute(_TAKE, (until_s, owner, no))


def advance(db: Connection, claim: SqliteClaim, commit: Commit, seq: int, now_s: float) -> bool:
    """Move the thread on to *seq*; False if the claim is void or the thread is not where *commit* expects it."""
    which = (claim.no, commit.expected, claim.epoch, now_s)
    if commit.status is None and commit.graph is None:
        done = db.execute(_STEP, (seq, commit.at, now_s + claim.lease_s, *which))
    else:
        done = db.execute(_TURN, (seq, commit.at, now_s + claim.lease_s, commit.status, commit.graph, *which))
    return done.rowcount == 1


def put(db: Connection, claim: SqliteClaim, commit: Commit) -> int:
    """Write the records and parts of *commit*; returns the place of the next body to stage."""
    no, place = claim.no, claim.staged
    for record in commit.records:
        db.execute(_APPEND, (no * SPAN + record.seq, record.count, record.body, record.seal))
    if commit.unstage and place:
        db.execute(_UNSTAGE, (no, STAGED))
        place = 0
    for key, body in commit.stage:
        db.execute(_PUT, (no, STAGED, key, place, body))
        place += 1
    if commit.snapshot is not None:
        db.execute(_PUT, (no, SNAPSHOT, commit.snapshot.seq, 0, commit.snapshot.body))
    if commit.blobs:
        for name, body in commit.blobs.items():
            db.execute(_KEEP, (no, BLOB, name, body))
    if commit.meta is not None:
        db.execute(_PUT, (no, META, 0, 0, commit.meta))
    if commit.release:
        free(db, claim)
    return place


def renew(db: Connection, claim: SqliteClaim, now_s: float) -> None:
    db.execute(_RENEW, (now_s + claim.lease_s, claim.no, claim.epoch, now_s))


def free(db: Connection, claim: SqliteClaim) -> None:
    """Give the thread back if *claim* is its newest; forget it if it has no entry."""
    if db.execute(_FREE, (claim.no, claim.epoch)).rowcount:
        row = reading.row_by_no(db, claim.no)
        if row is not None and not row.seq:
            reading.forget(db, claim.no)


def landed(db: Connection, claim: SqliteClaim, commit: Commit, seq: int) -> bool:
    """Whether *commit* is stored: the next of its claim's turns, or its last record if others came since."""
    row = reading.row_by_no(db, claim.no)
    if row is None:
        return commit.release and not seq
    if row.epoch == claim.epoch:
        return row.turn == claim.turn + 1
    if not commit.records:
        return False
    last = commit.records[-1]
    return reading.record_at(db, claim.no, seq) == (last.body, last.seal)
