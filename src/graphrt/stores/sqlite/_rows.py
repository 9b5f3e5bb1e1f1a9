"""Rows of a SQLite file as values, once their types are those that were written.

SQLite accepts any type in any column of a table that is not STRICT, and a file may have been damaged or edited since it
was written. A wrong type must end in a `StoreError` that names the thread, and not in a TypeError far away. Each SELECT
therefore has its `Columns`, which compare the types of all its rows at once. What else does not fit a row is noticed
when it is decoded. Both raise ordinary exceptions, which `Database` turns into the error for the caller.

The statements that read the rows are in `_reading`. A *record* is the stored form of the entries of one commit, and a
*part* is any other value of a thread: a snapshot of its state, its meta, a staged body, a blob or a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeVar, cast, final, get_args

from graphrt.errors import StoreError
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.events.status import Status
from graphrt.stores._label_rows import load_tags
from graphrt.stores.ids import tenant_of
from graphrt.stores.sqlite._schema import SPAN, THREADS
from graphrt.stores.values import Head

R = TypeVar("R", bound=Sequence[Any])

_NULL: Final = type(None)
_STATUSES: Final = frozenset(get_args(Status))


@final
class Columns:
    """The columns of a SELECT.

    Args:
        what: What a row is, for an error; a name in braces stands for the value of that column.
        types: The type of each column, or a tuple of its types.
    """

    def __init__(self, what: str, /, **types: type | tuple[type, ...]) -> None:
        self._what: Final = what
        self._types: Final = {name: kinds if isinstance(kinds, tuple) else (kinds,) for name, kinds in types.items()}
        self._kinds: Final = frozenset(product(*self._types.values()))
        """The types that a row may have, all columns together."""

    def checked(self, rows: list[R]) -> list[R]:
        """Return *rows* if all of them have these types.

        Raises:
            TypeError: A value has another type.
        """
        # One set for all rows: a thread with thousands of records must not cost thousands of calls.
        if {tuple(map(type, row)) for row in rows} <= self._kinds:
            return rows
        row = next(row for row in rows if tuple(map(type, row)) not in self._kinds)
        columns = dict(zip(self._types, row, strict=True))
        wrong = [f"{name} {short(value)}" for name, value in columns.items() if type(value) not in self._types[name]]
        raise TypeError(f"{', '.join(wrong)} in {self._what.format_map(columns)}")


RECORD: Final = Columns("the record of entry {entry}", entry=int, count=int, body=bytes, seal=bytes)
SNAPSHOT_BODY: Final = Columns("a snapshot", entry=int, body=bytes)
STAGED_BODY: Final = Columns("a body that was staged", key=str, body=bytes, place=int)
MESSAGE: Final = Columns("a message", place=int, id=str, body=bytes)
"""Of a batch of live items too."""
QUESTION: Final = Columns(
    "a question that is listed",
    place=str,
    kind=str,
    node=str,
    graph=str,
    asked_at=float,
    expires_at=(float, _NULL),
    stale=int,
    body=bytes,
)
SCHEDULE: Final = Columns("a schedule", name=str, graph=str, version=str, due_at=float, body=bytes)
BODY: Final = Columns("the meta or a large value", body=bytes)
ENTRY: Final = Columns("a snapshot", entry=int)
PLACE: Final = Columns("a staged body or a message", place=(int, _NULL))


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
    """What `Holder.dump` returned; None if the thread is free."""
    title: str | None = None
    tags: str | None = None
    """What `dump_tags` returned; None without tags."""
    rank: int = 0
    """Minus the priority."""


_THREAD: Final = Columns(
    "its row",
    no=int,
    id=str,
    seq=int,
    first=int,
    epoch=int,
    turn=int,
    status=str,
    graph=str,
    created_at=float,
    updated_at=float,
    lease=(float, _NULL),
    owner=(str, _NULL),
    title=(str, _NULL),
    tags=(str, _NULL),
    rank=int,
)


def row_of(values: Sequence[Any]) -> Row:
    """Return a row of the table `thread` from the values of `reading.COLUMNS`.

    Raises:
        StoreError: It is not what was written (`store-damaged`). Statements that list threads learn so which it is.
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
    made = Head(row.id, row.seq, row.epoch, status, row.graph, row.created_at, row.updated_at, owned, row.first)
    tenant = tenant_of(row.id)
    if tenant is None and row.title is None and row.tags is None and not row.rank:  # most threads: no second tuple
        return made
    return made._replace(tenant=tenant, title=row.title, tags=load_tags(row.tags), priority=-row.rank)


def short(value: Any) -> str:
    """Return *value*, cut, and its type, for an error."""
    text = repr(value) if not isinstance(value, (str, bytes)) else repr(value[:40])
    return f"{text[:60]} ({type(value).__name__})"
