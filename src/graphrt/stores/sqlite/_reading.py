"""Reads threads from a SQLite file: the statements, and the conversion of their rows to values.

All functions run on an open connection, inside a transaction of the caller. They do not check who owns a thread. The
tables are explained in `_schema`.

A thread has a number, `no`, and its entries are numbered by `seq` from 1. `thread` has a row for each thread. `record`
has one row for each commit with entries: `count` of them, up to the entry that the key names. The key is `no * SPAN` +
the number of the last entry. `part` has everything else of a thread, by kind and name: snapshots of its state (named by
their entry), its meta (one value, named 0), blobs (large values, by name) and messages. It also has *staged* bodies,
which are kept until a later commit deletes them, in the order of `place`.

SQLite accepts any type in any column of a table that is not STRICT, and a file may have been damaged or edited since it
was written. A wrong type must end in a `StoreError` that names the thread, and not in a TypeError far away. Each SELECT
therefore has its `Columns`, which compare the types of all its rows at once. Other damage of a row is noticed when it
is decoded. Both raise ordinary exceptions, which `Database` turns into the error for the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast, final, get_args, get_type_hints

from graphrt.errors import StoreError
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.events.status import Status
from graphrt.stores._checks import encodes
from graphrt.stores._label_rows import load_tags
from graphrt.stores.ids import tenant_of
from graphrt.stores.sqlite._schema import BLOB, META, SNAPSHOT, SPAN, STAGED, THREADS
from graphrt.stores.values import Head, MailMessage, Question, Record, StoredSchedule, StoredSnapshot, StoredThread

if TYPE_CHECKING:
    from sqlite3 import Connection

    from graphrt.stores.sqlite._database import Database

R = TypeVar("R", bound=Sequence[Any])

COLUMNS: Final = (
    "thread.no, id, seq, first, epoch, turn, status, graph, created_at, updated_at, lease, owner, title, tags, rank"
)
THREADS_COLUMNS: Final = COLUMNS.replace("graph", "thread.graph")
"""The same columns in a statement with another table that has a column `graph`."""
FROM: Final = "thread LEFT JOIN label ON label.no = thread.no"
"""A thread without a title, tags and tenant has no row in `label`."""
_BY_ID: Final = f"SELECT {COLUMNS} FROM {FROM} WHERE id = ?"  # noqa: S608  # names of our own
_BY_NO: Final = f"SELECT {COLUMNS} FROM {FROM} WHERE thread.no = ?"  # noqa: S608
_RECORDS: Final = "SELECT key - ?, count, body, seal FROM record WHERE key > ? AND key <= ? ORDER BY key"
# The first record at or after an entry, which is the one that contains it.
_LAST: Final = "SELECT key, count FROM record WHERE key >= ? AND key < ? ORDER BY key LIMIT 1"
_SNAPSHOT: Final = "SELECT name, body FROM part WHERE no = ? AND kind = ? AND name <= ? ORDER BY name DESC LIMIT 1"
_PARTS: Final = "SELECT place, name, body FROM part WHERE no = ? AND kind = ? ORDER BY place"
_PART: Final = "SELECT body FROM part WHERE no = ? AND kind = ? AND name = ?"
NAMES: Final = "SELECT name FROM part WHERE no = ? AND kind = ? ORDER BY name"

_TUPLE: Final[Any] = tuple
_new_record: Final[Callable[[Iterable[Any]], Record]] = partial(_TUPLE.__new__, Record)
"""Makes a record of a row (seq, count, body, seal). It is called for each row of a thread, and is faster than
`Record._make`."""
_PAGE_RECORDS: Final = 256
"""Maximum number of records of a page."""
_PAGE_BYTES: Final = 4 * 2**20
"""Total size of bodies after which a page ends."""


class Row(NamedTuple):
    """A row of the table `thread`, with the title and the tags from the table `label`."""

    no: int
    """Number of the thread, never used again."""
    id: str
    seq: int
    """Number of the last entry."""
    first: int
    """Number of the oldest entry that is left."""
    epoch: int
    """Number of claims so far; a claim is the right to write the thread."""
    turn: int
    """Number of commits under the newest claim."""
    status: str
    graph: str
    created_at: float
    updated_at: float
    lease: float | None
    """End of the lease, by the clock of `_owners`, in seconds; None if the thread is free."""
    owner: str | None
    """The result of `Holder.dump`; None if the thread is free."""
    title: str | None = None
    tags: str | None = None
    """The result of `dump_tags`; None without tags."""
    rank: int = 0
    """Minus the priority."""


_STATUSES: Final = frozenset(get_args(Status))


@final
class Columns:
    """The columns of a SELECT, in order.

    Args:
        what: Description of a row, for an error; a name in braces stands for the value of that column.
        types: The type of each column by its name; see `types_of`.
    """

    def __init__(self, what: str, types: Mapping[str, Any]) -> None:
        self._what: Final = what
        self._types: Final = {name: get_args(kind) or (kind,) for name, kind in types.items()}
        self._kinds: Final = frozenset(product(*self._types.values()))
        """The types that a row may have, all columns together."""

    def checked(self, rows: list[R]) -> list[R]:
        """Return *rows* after checking that all have these types.

        Raises:
            TypeError: A value has another type.
        """
        for row in rows:
            if tuple(map(type, row)) not in self._kinds:
                columns = dict(zip(self._types, row, strict=True))
                mismatches = [
                    f"{name} {short(value)}" for name, value in columns.items() if type(value) not in self._types[name]
                ]
                raise TypeError(f"{', '.join(mismatches)} in {self._what.format_map(columns)}")
        return rows


def types_of(row: Any) -> dict[str, Any]:
    """Return the types of the columns that the named tuple *row* is made of. SQLite has no bool."""
    return {name: int if kind is bool else kind for name, kind in get_type_hints(row).items()}


RECORD: Final = Columns("the record of entry {seq}", types_of(Record))
SNAPSHOT_BODY: Final = Columns("a snapshot", types_of(StoredSnapshot))
MESSAGE: Final = Columns("a message or a staged body", types_of(MailMessage))
"""Also of a batch of live items."""
QUESTION: Final = Columns("a question that is listed", types_of(Question))
SCHEDULE: Final = Columns("a schedule", types_of(StoredSchedule))
BODY: Final = Columns("the meta or a large value", {"body": bytes})
ENTRY: Final = Columns("a snapshot", {"entry": int})
PLACE: Final = Columns("a message or a staged body", {"place": int | None})
_THREAD: Final = Columns("its row", types_of(Row))


def row_of(values: Sequence[Any]) -> Row:
    """Return a row of the table `thread` from the values of `reading.COLUMNS`.

    Raises:
        StoreError: It was changed since it was written (`store-damaged`). So statements that list threads can name the
            damaged one.
    """
    row = Row(*values)
    try:
        _THREAD.checked([row])
        # Numbers that no thread has would make keys that do not fit into SQLite's 63 bits.
        if row.no > THREADS or not 1 <= row.first <= row.seq + 1 <= SPAN or row.status not in _STATUSES:
            raise ValueError(f"number {row.no}, first {row.first}, seq {row.seq}, status {short(row.status)}")
        if row.tags is not None:
            load_tags(row.tags)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged(row.id, error, "Restore the database from a backup, or delete it.") from error
    return row


def damaged(thread: Any, error: Exception, fix: str) -> StoreError:
    """Return the error for a damaged row, from a statement that reads rows of many threads.

    Args:
        thread: Id of its thread, which may itself be damaged.
        error: What decoding the row raised.
        fix: What to do, as a sentence.
    """
    name = thread if thread.__class__ is str else None
    problem = "a stored value is not what was written"
    return STORE_DAMAGED(
        problem=f"Thread {thread!r} is damaged: {problem}", known=f"found {error}", thread=name, seq=None, fix=fix
    )


def head(row: Row, owned: bool) -> Head:  # noqa: FBT001  # the second half of the pair that `Holding._there` returns
    """Return the head (summary) of the thread of *row*. *owned*: a living owner holds it."""
    status = cast("Status", row.status)
    summary = Head(row.id, row.seq, row.epoch, status, row.graph, row.created_at, row.updated_at, owned, row.first)
    tenant = tenant_of(row.id)
    if tenant is None and row.title is None and row.tags is None and not row.rank:  # most threads need no second tuple
        return summary
    return summary._replace(tenant=tenant, title=row.title, tags=load_tags(row.tags), priority=-row.rank)


def short(value: Any) -> str:
    """Return *value*, shortened, with its type, for an error."""
    text = repr(value) if not isinstance(value, (str, bytes)) else repr(value[:40])
    return f"{text[:60]} ({type(value).__name__})"


def question_of(thread: str, row: tuple[Any, ...]) -> Question:
    """Return the question of *thread* in the columns *row*, the columns of a `Question`.

    Raises:
        StoreError: One of them has a wrong type.
    """
    try:
        ((place, kind, node, graph, asked_at, expires_at, stale, body),) = QUESTION.checked([row])
    except TypeError as error:  # questions can be recomputed from the journal
        raise damaged(thread, error, "Call reindex() on the runtime of its graph.") from error
    return Question(place, kind, node, graph, asked_at, expires_at, bool(stale), body)  # `stale` is 0 or 1


def row_by_id(db: Connection, thread: str, *, damaged: bool = False) -> Row | None:
    """Return the thread's row, or None if there is none.

    Args:
        db: The connection.
        thread: The thread's id.
        damaged: Return the row unchecked, for a caller that only wants to remove the thread.

    Raises:
        StoreError: The row is damaged.
    """
    rows = db.execute(_BY_ID, (thread,)).fetchall()
    if not rows:
        return None
    return Row(*rows[0]) if damaged else row_of(rows[0])


def has_moved(db: Connection, thread: str, seq: int, _place: int) -> bool:
    """Return whether the last entry of *thread* is not *seq*, or it has none, or there is no such thread."""
    return not seq or db.execute("SELECT seq FROM thread WHERE id = ?", (thread,)).fetchall() != [(seq,)]


def row_by_no(db: Connection, no: int) -> Row | None:
    """Return the row of the thread numbered *no*, or None if there is none.

    Raises:
        StoreError: The row is damaged.
    """
    rows = db.execute(_BY_NO, (no,)).fetchall()
    return row_of(rows[0]) if rows else None


def load(db: Connection, row: Row, owned: bool, upto: int | None, after: int) -> StoredThread:  # noqa: FBT001
    """Return the thread of *row* in its present state, or as it was after the entry *upto*.

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
        rows = SNAPSHOT_BODY.checked(db.execute(_SNAPSHOT, (row.no, SNAPSHOT, at)).fetchall())
        snapshot = StoredSnapshot(*rows[0]) if rows else None
        after = snapshot.seq if snapshot else 0
    base = row.no * SPAN
    rows = RECORD.checked(db.execute(_RECORDS, (base, *_range(db, row.no, after, at))).fetchall())
    entries = list(map(_new_record, rows))
    meta = BODY.checked(db.execute(_PART, (row.no, META, 0)).fetchall())
    bodies: list[tuple[str, bytes]] = []  # staged bodies belong to the newest state only
    if upto is None or upto >= row.seq:
        rows = MESSAGE.checked(db.execute(_PARTS, (row.no, STAGED)).fetchall())
        bodies = [(key, body) for _, key, body in rows]
    return StoredThread(head(row, owned), meta[0][0] if meta else None, snapshot, entries, bodies)


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
    records: list[Record] = []
    size = 0
    cursor = db.execute(_RECORDS, (no * SPAN, *_range(db, no, after, SPAN - 1 if upto is None else upto)))
    for row in cursor:
        records.append(_new_record(row))
        size += len(row[2])  # the body
        if size >= _PAGE_BYTES or len(records) >= _PAGE_RECORDS:
            break
    cursor.close()  # ends the statement if the loop was left early
    return RECORD.checked(records)


def _range(db: Connection, no: int, after: int, upto: int) -> tuple[int, int]:
    """Return the keys between which the records with entries after *after* and up to *upto* lie.

    The first key is exclusive, the second one inclusive. A key has the number of its record's *last* entry. The record
    that contains *upto* may have a larger key, so it is looked up.
    """
    base = no * SPAN
    low = base + max(0, min(after, SPAN - 1))  # any int is allowed, but the keys must stay within this thread
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
    rows = db.execute("SELECT body, seal FROM record WHERE key = ?", (no * SPAN + seq,)).fetchall()
    return tuple(rows[0]) if rows else None


def blobs(db: Connection, thread: str, names: Iterable[str]) -> dict[str, bytes]:
    """Return those of the named blobs that exist, by name; none if there is no such thread.

    Raises:
        StoreError: One of them, or the row of the thread, is damaged.
    """
    row = row_by_id(db, thread)
    bodies: dict[str, bytes] = {}
    if row is not None:
        for name in filter(encodes, names):  # SQLite would raise for text that is not valid UTF-8, which names no blob
            rows = BODY.checked(db.execute(_PART, (row.no, BLOB, name)).fetchall())
            if rows:
                bodies[name] = rows[0][0]
    return bodies


def snapshots(db: Connection, no: int) -> list[int]:
    """Return the numbers of the entries that have a snapshot, in order: a thread can be pruned up to one of these."""
    return [entry for (entry,) in ENTRY.checked(db.execute(NAMES, (no, SNAPSHOT)).fetchall())]


def next_place(db: Connection, row: Row) -> int:
    """Return the place of the next body to stage: 0 if none is staged."""
    rows = db.execute("SELECT max(place) FROM part WHERE no = ? AND kind = ?", (row.no, STAGED)).fetchall()
    place: int | None = PLACE.checked(rows)[0][0]
    return 0 if place is None else place + 1


def blob_names(db: Connection, no: int) -> list[str]:
    """Return the names of the blobs of the thread numbered *no*: `verify` reports those that no entry refers to."""
    rows = db.execute(NAMES, (no, BLOB)).fetchall()
    return [name for (name,) in rows if name.__class__ is str]
