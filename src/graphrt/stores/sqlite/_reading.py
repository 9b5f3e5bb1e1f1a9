"""Rows of the SQLite store and what they come to: heads, records, parts; and whole threads copied or removed.

Statements on an open connection, inside a transaction of the caller; who may do what is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphrt.errors import StoreError
from graphrt.stores._refusals import encodes
from graphrt.stores.protocol import Loaded, Record
from graphrt.stores.sqlite._rows import Row, checked, head, part, place, records, saved, staged
from graphrt.stores.sqlite._schema import BLOB, META, SNAPSHOT, SPAN, STAGED

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database

_COLUMNS: Final = "no, id, seq, first, epoch, turn, status, graph, created_at, updated_at, lease, owner"
_BY_ID: Final = f"SELECT {_COLUMNS} FROM thread WHERE id = ?"  # noqa: S608  # names of our own
_BY_NO: Final = f"SELECT {_COLUMNS} FROM thread WHERE no = ?"  # noqa: S608
_ROWS: Final = (
    f"SELECT {_COLUMNS} FROM thread WHERE no > :after AND seq > 0 AND (:status IS NULL OR status = :status)"  # noqa: S608
    " AND (:graph IS NULL OR graph = :graph) AND (:prefix IS NULL OR substr(id, 1, length(:prefix)) = :prefix)"
    " AND (:before IS NULL OR updated_at < :before) ORDER BY no LIMIT :most"
)
_RECORDS: Final = "SELECT key - ?, count, body, seal FROM record WHERE key > ? AND key <= ? ORDER BY key"
_LAST: Final = "SELECT key, count FROM record WHERE key >= ? AND key < ? ORDER BY key LIMIT 1"
_SNAPSHOT: Final = "SELECT name, body FROM part WHERE no = ? AND kind = ? AND name <= ? ORDER BY name DESC LIMIT 1"
_PARTS: Final = "SELECT name, body, place FROM part WHERE no = ? AND kind = ? ORDER BY place"
_PART: Final = "SELECT body FROM part WHERE no = ? AND kind = ? AND name = ?"
_NAMES: Final = "SELECT name FROM part WHERE no = ? AND kind = ? ORDER BY name"

_TUPLE: Final[Any] = tuple
_new_record: Final[Callable[[Iterable[Any]], Record]] = partial(_TUPLE.__new__, Record)
"""Makes a record of a row: done for each row of a thread, so without the detour of `_make`."""
_PAGE_RECORDS: Final = 256
_PAGE_BYTES: Final = 4 * 2**20


def row_by_id(db: Connection, thread: str, *, damaged: bool = False) -> Row | None:
    """The thread's row; a *damaged* one only for who wants to remove it."""
    found = db.execute(_BY_ID, (thread,)).fetchall()
    if not found:
        return None
    return Row(*found[0]) if damaged else checked(Row(*found[0]))


def row_by_no(db: Connection, no: int) -> Row | None:
    found = db.execute(_BY_NO, (no,)).fetchall()
    return checked(Row(*found[0])) if found else None


def existing(row: Row | None) -> Row:
    if row is None:
        raise StoreError("A row that was just written is not there.", code="store-damaged")
    return row


def rows(
    db: Connection,
    after: int,
    status: str | None,
    graph: str | None,
    prefix: str | None,
    updated_before: float | None,
    most: int,
) -> list[Row]:
    """Rows numbered above *after* that match what is not None; *most* of -1 is all."""
    if not all(text is None or encodes(text) for text in (status, graph, prefix)):
        return []
    wanted = {"status": status, "graph": graph, "prefix": prefix, "before": updated_before}
    found = db.execute(_ROWS, {"after": after, "most": most, **wanted})
    return [checked(Row(*row)) for row in found.fetchall()]


def load(db: Connection, row: Row, owned: bool, upto: int | None) -> Loaded:  # noqa: FBT001
    at = row.seq if upto is None else max(0, min(upto, row.seq))
    found = db.execute(_SNAPSHOT, (row.no, SNAPSHOT, at)).fetchall()
    snapshot = saved(row.id, *found[0]) if found else None
    after = snapshot.seq if snapshot else 0
    base = row.no * SPAN
    found = db.execute(_RECORDS, (base, *_range(db, row.no, after, at))).fetchall()
    entries = records(row.id, list(map(_new_record, found)))
    meta = db.execute(_PART, (row.no, META, 0)).fetchall()
    bodies: list[tuple[str, bytes]] = []
    if upto is None or upto >= row.seq:
        bodies = staged(row.id, db.execute(_PARTS, (row.no, STAGED)).fetchall())
    return Loaded(head(row, owned), part(row.id, "its meta", meta[0][0]) if meta else None, snapshot, entries, bodies)


def pages(file: Database, row: Row, after: int, upto: int | None) -> Iterator[Record]:
    """Records of the thread of *row*, a page at a time: each page is of one moment."""
    while True:
        page = file.read(partial(_page, no=row.no, after=after, upto=upto))
        yield from records(row.id, page)
        if not page:
            return
        after = page[-1].seq


def _page(db: Connection, no: int, after: int, upto: int | None) -> list[Record]:
    found: list[Record] = []
    size = 0
    cursor = db.execute(_RECORDS, (no * SPAN, *_range(db, no, after, SPAN - 1 if upto is None else upto)))
    for each in cursor:
        found.append(_new_record(each))
        size += len(each[2]) if each[2].__class__ is bytes else 0
        if size >= _PAGE_BYTES or len(found) >= _PAGE_RECORDS:
            break
    cursor.close()
    return found


def _range(db: Connection, no: int, after: int, upto: int) -> tuple[int, int]:
    """The keys above the first and up to the second are those of the records that were asked for."""
    base = no * SPAN
    low = base + max(0, min(after, SPAN - 1))
    if upto <= 0:
        return low, low
    upto = min(upto, SPAN - 1)
    last = db.execute(_LAST, (base + upto, base + SPAN)).fetchall()
    # It begins before the entry that was asked for, or with it. One whose count is no number is read, and refused.
    if last and (last[0][1].__class__ is not int or last[0][0] - last[0][1] < base + upto):
        return low, last[0][0]
    return low, base + upto


def record_at(db: Connection, no: int, seq: int) -> tuple[bytes, bytes] | None:
    found = db.execute("SELECT body, seal FROM record WHERE key = ?", (no * SPAN + seq,)).fetchall()
    return tuple(found[0]) if found else None


def blobs(db: Connection, thread: str, names: Iterable[str]) -> dict[str, bytes]:
    row = row_by_id(db, thread)
    there: dict[str, bytes] = {}
    if row is not None:
        for name in filter(encodes, names):
            found = db.execute(_PART, (row.no, BLOB, name)).fetchall()
            if found:
                there[name] = part(thread, f"the large value {name!r}", found[0][0])
    return there


def snapshots(db: Connection, no: int) -> list[int]:
    """Numbers of the entries that have a snapshot, in order."""
    return [row[0] for row in db.execute(_NAMES, (no, SNAPSHOT)).fetchall()]


def next_place(db: Connection, row: Row) -> int:
    """The place of the next body to stage: 0 if none is staged."""
    found = db.execute("SELECT max(place) FROM part WHERE no = ? AND kind = ?", (row.no, STAGED)).fetchall()
    return 0 if found[0][0] is None else place(row.id, found[0][0]) + 1


def forget_row(db: Connection, no: int) -> None:
    """Remove the thread for everybody; what is left of it is not found any more."""
    db.execute("DELETE FROM thread WHERE no = ?", (no,))


def forget(db: Connection, no: int) -> None:
    """Remove the thread and everything of it."""
    db.execute("DELETE FROM record WHERE key > ? AND key < ?", (no * SPAN, (no + 1) * SPAN))
    db.execute("DELETE FROM part WHERE no = ?", (no,))
    forget_row(db, no)


def duplicate(db: Connection, no: int, to: int) -> None:
    """Give the thread numbered *to* all records and parts of *no*."""
    db.execute(
        "INSERT INTO record(key, count, body, seal) SELECT key + ?, count, body, seal FROM record"
        " WHERE key > ? AND key < ? ORDER BY key",
        ((to - no) * SPAN, no * SPAN, (no + 1) * SPAN),
    )
    db.execute(
        "INSERT INTO part(no, kind, name, place, body) SELECT ?, kind, name, place, body FROM part WHERE no = ?",
        (to, no),
    )


def prune(db: Connection, row: Row, upto: int, keep: set[str] | None, *, whole: bool = True) -> int:
    """Remove what lies before *upto*; returns the number of the oldest entry that is left.

    Args:
        whole: Remove the records, too; else they are given up, and not found any more.
    """
    base = row.no * SPAN
    last = db.execute("SELECT max(key) FROM record WHERE key > ? AND key <= ?", (base, base + upto)).fetchall()[0][0]
    first = row.first if last is None else int(last) - base + 1
    if whole:
        db.execute("DELETE FROM record WHERE key > ? AND key <= ?", (base, base + upto))
    db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name < ?", (row.no, SNAPSHOT, upto))
    db.execute("UPDATE thread SET first = ? WHERE no = ?", (first, row.no))
    if keep is not None:
        for (name,) in db.execute(_NAMES, (row.no, BLOB)).fetchall():
            if name not in keep:
                db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name = ?", (row.no, BLOB, name))
    return first
