"""SQL of the SQLite store for reading threads, and for pruning and removing them as a whole.

All functions run on an open connection, inside a transaction of the caller. They do not check who owns a thread. The
tables are explained in `_schema`; the types of rows are checked by `_rows` before they are returned.

A thread has a number, `no`, and its entries are numbered by `seq` from 1. `thread` has a row for each thread. `record`
has one row for each commit with entries: `count` of them, up to the entry that the key names. The key is `no * SPAN` +
the number of the last entry. `part` has everything else of a thread, by kind and name: snapshots of its state (named by
their entry), its meta (one value, named 0), blobs (large values, by name) and messages. It also has *staged* bodies,
which are kept until a later commit deletes them, in the order of `place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.stores._refusals import encodes
from graphrt.stores.sqlite import _labels as labels
from graphrt.stores.sqlite._rows import BODY, ENTRY, PLACE, RECORD, SNAPSHOT_BODY, STAGED_BODY, Row, head, row_of
from graphrt.stores.sqlite._schema import BLOB, META, SNAPSHOT, SPAN, STAGED
from graphrt.stores.values import Loaded, Record, Saved

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database

COLUMNS: Final = (
    "thread.no, id, seq, first, epoch, turn, status, graph, created_at, updated_at, lease, owner, title, tags, rank"
)
THREADS_COLUMNS: Final = COLUMNS.replace("graph", "thread.graph")
"""The same in a statement with another table that has a column `graph`."""
FROM: Final = "thread LEFT JOIN label ON label.no = thread.no"
"""A thread without a title, tags and tenant has no row in `label`."""
_BY_ID: Final = f"SELECT {COLUMNS} FROM {FROM} WHERE id = ?"  # noqa: S608  # names of our own
_BY_NO: Final = f"SELECT {COLUMNS} FROM {FROM} WHERE thread.no = ?"  # noqa: S608
_RECORDS: Final = "SELECT key - ?, count, body, seal FROM record WHERE key > ? AND key <= ? ORDER BY key"
# The first record at or after an entry, which is the one that contains it.
_LAST: Final = "SELECT key, count FROM record WHERE key >= ? AND key < ? ORDER BY key LIMIT 1"
_SNAPSHOT: Final = "SELECT name, body FROM part WHERE no = ? AND kind = ? AND name <= ? ORDER BY name DESC LIMIT 1"
_PARTS: Final = "SELECT name, body, place FROM part WHERE no = ? AND kind = ? ORDER BY place"
_PART: Final = "SELECT body FROM part WHERE no = ? AND kind = ? AND name = ?"
_NAMES: Final = "SELECT name FROM part WHERE no = ? AND kind = ? ORDER BY name"

_TUPLE: Final[Any] = tuple
_new_record: Final[Callable[[Iterable[Any]], Record]] = partial(_TUPLE.__new__, Record)
"""Makes a record of a row (seq, count, body, seal). It is called for each row of a thread, and is faster than
`Record._make`."""
_PAGE_RECORDS: Final = 256
"""Records after which a page ends."""
_PAGE_BYTES: Final = 4 * 2**20
"""Bytes of bodies after which a page ends."""


def row_by_id(db: Connection, thread: str, *, damaged: bool = False) -> Row | None:
    """Return the thread's row, or None if there is none.

    Args:
        db: The connection.
        thread: The thread's id.
        damaged: Return the row unchecked, for a caller that only wants to remove the thread.

    Raises:
        StoreError: The row is damaged.
    """
    found = db.execute(_BY_ID, (thread,)).fetchall()
    if not found:
        return None
    return Row(*found[0]) if damaged else row_of(found[0])


def row_by_no(db: Connection, no: int) -> Row | None:
    """Return the row of the thread numbered *no*, or None if there is none.

    Raises:
        StoreError: The row is damaged.
    """
    found = db.execute(_BY_NO, (no,)).fetchall()
    return row_of(found[0]) if found else None


def existing(row: Row | None) -> Row:
    """Return *row*, which was written in this transaction and can be missing only in a damaged file.

    Raises:
        StoreError: It is None.
    """
    if row is None:
        raise STORE_DAMAGED(problem="A row that was just written is not there", thread=None, seq=None)
    return row


def load(db: Connection, row: Row, owned: bool, upto: int | None, after: int) -> Loaded:  # noqa: FBT001
    """Return the thread of *row* as it is now, or as it was after the entry *upto*.

    Only the newest snapshot that is not after that entry is read, and the records after it.

    Args:
        db: The connection.
        row: The thread's row.
        owned: Whether a living owner holds the thread, for its head.
        upto: Number of an entry; None for the last one.
        after: With a number other than 0, no snapshot is read, and only the records after this entry.

    Raises:
        StoreError: A row that was read is damaged.
    """
    at = row.seq if upto is None else max(0, min(upto, row.seq))
    snapshot = None
    if not after:
        found = SNAPSHOT_BODY.checked(db.execute(_SNAPSHOT, (row.no, SNAPSHOT, at)).fetchall())
        snapshot = Saved(*found[0]) if found else None
        after = snapshot.seq if snapshot else 0
    base = row.no * SPAN
    found = RECORD.checked(db.execute(_RECORDS, (base, *_range(db, row.no, after, at))).fetchall())
    entries = list(map(_new_record, found))
    meta = BODY.checked(db.execute(_PART, (row.no, META, 0)).fetchall())
    bodies: list[tuple[str, bytes]] = []  # staged bodies belong to the newest state only
    if upto is None or upto >= row.seq:
        found = STAGED_BODY.checked(db.execute(_PARTS, (row.no, STAGED)).fetchall())
        bodies = [(key, body) for key, body, _ in found]
    return Loaded(head(row, owned), meta[0][0] if meta else None, snapshot, entries, bodies)


def pages(file: Database, row: Row, after: int, upto: int | None) -> Iterator[Record]:
    """Yield the records with entries after *after* and up to *upto* (None: the last). Each page is one transaction."""
    # No transaction is open between two pages: a caller that stops reading must not hold up writers or the log.
    while True:
        page = file.read(partial(_page, no=row.no, after=after, upto=upto), row.id)
        yield from page
        if not page:
            return
        after = page[-1].seq


def _page(db: Connection, no: int, after: int, upto: int | None) -> list[Record]:
    """Return the records from entry *after* + 1 on, up to `_PAGE_RECORDS` or about `_PAGE_BYTES`."""
    found: list[Record] = []
    size = 0
    cursor = db.execute(_RECORDS, (no * SPAN, *_range(db, no, after, SPAN - 1 if upto is None else upto)))
    for each in cursor:
        found.append(_new_record(each))
        size += len(each[2])  # the body
        if size >= _PAGE_BYTES or len(found) >= _PAGE_RECORDS:
            break
    cursor.close()  # ends the statement if the loop was left early
    return RECORD.checked(found)


def _range(db: Connection, no: int, after: int, upto: int) -> tuple[int, int]:
    """Return the keys between which the records with entries after *after* and up to *upto* lie.

    The first key is exclusive, the second one inclusive. A key has the number of its record's *last* entry. The record
    that contains *upto* may have a larger key, so it is looked up.
    """
    base = no * SPAN
    low = base + max(0, min(after, SPAN - 1))  # any int may be given: the keys stay those of this thread
    if upto <= 0:
        return low, low
    upto = min(upto, SPAN - 1)
    last = db.execute(_LAST, (base + upto, base + SPAN)).fetchall()
    if last and last[0][0] - last[0][1] < base + upto:  # it begins at *upto* or before
        return low, last[0][0]
    return low, base + upto


def record_at(db: Connection, no: int, seq: int) -> tuple[bytes, bytes] | None:
    """Return body and seal of the record whose last entry is *seq*, or None if there is none.

    `_writing.landed` compares them with those of a commit, to find out whether it was stored.
    """
    found = db.execute("SELECT body, seal FROM record WHERE key = ?", (no * SPAN + seq,)).fetchall()
    return tuple(found[0]) if found else None


def blobs(db: Connection, thread: str, names: Iterable[str]) -> dict[str, bytes]:
    """Return those of the named blobs that exist, by name; none if there is no such thread.

    Raises:
        StoreError: One of them, or the row of the thread, is damaged.
    """
    row = row_by_id(db, thread)
    there: dict[str, bytes] = {}
    if row is not None:
        for name in filter(encodes, names):  # SQLite would raise for text that is not valid UTF-8, which names no blob
            found = BODY.checked(db.execute(_PART, (row.no, BLOB, name)).fetchall())
            if found:
                there[name] = found[0][0]
    return there


def snapshots(db: Connection, no: int) -> list[int]:
    """Return the numbers of the entries that have a snapshot, in order: a thread can be pruned up to one of these."""
    return [entry for (entry,) in ENTRY.checked(db.execute(_NAMES, (no, SNAPSHOT)).fetchall())]


def next_place(db: Connection, row: Row) -> int:
    """Return the place of the next body to stage: 0 if none is staged."""
    found = db.execute("SELECT max(place) FROM part WHERE no = ? AND kind = ?", (row.no, STAGED)).fetchall()
    place: int | None = PLACE.checked(found)[0][0]
    return 0 if place is None else place + 1


def forget(db: Connection, no: int) -> None:
    """Remove the thread with everything that is stored of it."""
    labels.forget(db, no)
    db.execute("DELETE FROM record WHERE key > ? AND key < ?", (no * SPAN, (no + 1) * SPAN))
    db.execute("DELETE FROM part WHERE no = ?", (no,))
    db.execute("DELETE FROM thread WHERE no = ?", (no,))


def prune(db: Connection, row: Row, upto: int, keep: set[str] | None) -> int:
    """Remove the snapshots before *upto* and the records up to *upto*.

    Args:
        db: The connection.
        row: The thread's row.
        upto: Number of an entry that has a snapshot.
        keep: Names of the blobs to keep; None: all.

    Returns:
        The number of the oldest entry that is left.
    """
    base = row.no * SPAN
    last = db.execute("SELECT max(key) FROM record WHERE key > ? AND key <= ?", (base, base + upto)).fetchall()[0][0]
    first = row.first if last is None else int(last) - base + 1  # no such record: the beginning stays
    db.execute("DELETE FROM record WHERE key > ? AND key <= ?", (base, base + upto))
    db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name < ?", (row.no, SNAPSHOT, upto))
    db.execute("UPDATE thread SET first = ? WHERE no = ?", (first, row.no))
    if keep is not None:
        _remove_blobs(db, row.no, keep)
    return first


def remove_repeated(db: Connection, no: int, snapshots_after: int, keep: set[str]) -> None:
    """Remove the snapshots of entries after *snapshots_after*, and the blobs that are not named in *keep*.

    When values of a thread are erased, these may repeat them; its records are replaced by the caller.
    """
    db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name > ?", (no, SNAPSHOT, snapshots_after))
    _remove_blobs(db, no, keep)


def _remove_blobs(db: Connection, no: int, keep: set[str]) -> None:
    """Remove the blobs of the thread numbered *no* that are not named in *keep*."""
    for (name,) in db.execute(_NAMES, (no, BLOB)).fetchall():
        if name not in keep:
            db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name = ?", (no, BLOB, name))
