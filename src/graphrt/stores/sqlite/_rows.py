"""Checks of rows that are read from a SQLite file, and the values made of them.

SQLite accepts any type in any column, and a file may have been damaged or edited since it was written. A wrong type
must end in a `StoreError` that names the thread, and not in a TypeError far away. The checks compare types only; the
records of a thread, which may be many, are checked in one pass.

The statements that read the rows are in `_reading`. A *record* is the stored form of the entries of one commit, and a
*part* is any other value of a thread: a snapshot of its state, its meta, a staged body, a blob or a letter. The
functions take the thread's id for the text of an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast, get_args

from graphrt.errors import StoreError
from graphrt.errors._codes.databases import ROW_DAMAGED
from graphrt.stores._label_rows import load_tags
from graphrt.stores.ids import tenant_of
from graphrt.stores.protocol import Head, Record, Saved, Status
from graphrt.stores.sqlite._schema import SPAN

_STATUSES: Final = frozenset(get_args(Status))
_NUMBERS: Final = (int, float)
_RECORD: Final = {(True, bytes, bytes)}
"""Of a record that can be right: whether the count is a positive int, and the types of body and seal."""


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


def checked(row: Row) -> Row:
    """Return *row* if it can be what was written.

    Raises:
        StoreError: A column holds another type, or a number that no thread has (`store-damaged`).
    """
    given: Any = row
    wrong = [name for name, value in zip(Row._fields, given, strict=True) if not _fits(name, value)]
    if not wrong and not 1 <= row.first <= row.seq + 1:  # `seq + 1`: a thread without entries, or all were pruned
        wrong = ["first"]
    if not wrong:
        return row
    found = ", ".join(f"{name} {_short(getattr(given, name))}" for name in wrong)
    raise _damaged(
        row.id, "its row is not what was written", found, "Restore the database from a backup, or delete it."
    )


def _fits(name: str, value: Any) -> bool:
    """Return whether *value* can be in the column *name* of a thread's row."""
    # Classes are compared, because a bool is an instance of int, and no column has one.
    match name:
        case "id" | "graph":
            return value.__class__ is str
        case "status":
            return value.__class__ is str and value in _STATUSES
        case "created_at" | "updated_at":
            return value.__class__ in _NUMBERS
        case "lease":
            return value is None or value.__class__ in _NUMBERS
        case "owner" | "title":
            return value is None or value.__class__ is str
        case "tags":
            return value is None or (value.__class__ is str and _are_tags(value))
        case "rank":
            return value.__class__ is int
        case _:  # no, seq, first, epoch and turn; SPAN is the upper bound for the number of an entry
            return value.__class__ is int and 0 <= value < SPAN


def _are_tags(text: str) -> bool:
    """Return whether *text* is the JSON list that `dump_tags` writes."""
    try:
        load_tags(text)
    except ValueError:
        return False
    return True


def head(row: Row, owned: bool) -> Head:  # noqa: FBT001  # the second half of the pair that `Holding._there` returns
    """Return the head (summary) of the thread of *row*, which was checked. *owned*: a living owner holds it."""
    status = cast("Status", row.status)
    made = Head(row.id, row.seq, row.epoch, status, row.graph, row.created_at, row.updated_at, owned, row.first)
    tenant = tenant_of(row.id)
    if tenant is None and row.title is None and row.tags is None and not row.rank:  # most threads: no second tuple
        return made
    return made._replace(tenant=tenant, title=row.title, tags=load_tags(row.tags), priority=-row.rank)


def records(thread: str, found: Sequence[Record]) -> Sequence[Record]:
    """Return the records *found* if all of them can be what was written.

    Raises:
        StoreError: One of them has a wrong type or count.
    """
    # One set for all rows: a thread with thousands of records must not cost thousands of calls. `c` is the count.
    kinds = {(c.__class__ is int and c > 0, body.__class__, seal.__class__) for _, c, body, seal in found}
    if kinds <= _RECORD:
        return found
    for seq, count, body, seal in found:
        for name, value, kind in (("count", count, int), ("body", body, bytes), ("seal", seal, bytes)):
            if value.__class__ is not kind or (name == "count" and count < 1):
                shown = f"{name} {_short(value)}"
                raise _damaged(thread, f"the record of entry {seq} is not what was written", shown, _RESTORE, seq=seq)
    return found  # never reached: one of the rows has raised


def saved(thread: str, name: Any, body: Any) -> Saved:
    """Return a snapshot of the entry *name*: of the state after it. Snapshots are stored under the entry's number.

    Raises:
        StoreError: *name* or *body* has a wrong type.
    """
    if name.__class__ is not int or body.__class__ is not bytes:
        raise _damaged(thread, f"the snapshot of entry {_short(name)} is not what was written", _short(body), _RESTORE)
    return Saved(name, body)


def staged(thread: str, rows: Iterable[tuple[Any, Any, Any]]) -> list[tuple[str, bytes]]:
    """Return pairs (key, body) of staged bodies, which are kept until a later commit deletes them.

    Args:
        thread: Id of the thread.
        rows: Rows (key, body, place), in the order of their places, which the result has too.

    Raises:
        StoreError: One of the values has a wrong type.
    """
    found: list[tuple[str, bytes]] = []
    for key, body, place in rows:
        if key.__class__ is not str or body.__class__ is not bytes or place.__class__ is not int:
            shown = f"key {_short(key)}, place {_short(place)}, body {_short(body)}"
            raise _damaged(thread, "a body that was staged is not what was written", shown, _RESTORE)
        found.append((key, body))
    return found


def part(thread: str, what: str, body: Any) -> bytes:
    """Return the body of the meta, a blob or a letter after checking its type; *what* says which, for an error.

    Raises:
        StoreError: *body* is not `bytes`.
    """
    if body.__class__ is not bytes:
        raise _damaged(thread, f"{what} is not what was written", _short(body), _RESTORE)
    found: bytes = body
    return found


def place(thread: str, value: Any) -> int:
    """Return the place of a staged body or a letter, its number in their order, after checking its type.

    Raises:
        StoreError: *value* is not an int.
    """
    if value.__class__ is not int:
        raise _damaged(thread, "a staged body or a letter is not what was written", f"place {_short(value)}", _RESTORE)
    found: int = value
    return found


_RESTORE: Final = "Restore the database from a backup."


def _damaged(thread: Any, what: str, found: str, fix: str, **data: Any) -> StoreError:
    """Return the error for a damaged row.

    Args:
        thread: The id from the row, which may itself be damaged.
        what: What is wrong, as a clause.
        found: The values that are wrong, as `_short` shows them.
        fix: What to do, as a sentence.
        data: Attributes of the error, such as `seq`.
    """
    return ROW_DAMAGED(
        of=thread, problem=what, found=found, thread=thread if thread.__class__ is str else None, fix=fix, **data
    )


def _short(value: Any) -> str:
    """Return *value*, cut, and its type, for an error."""
    text = repr(value) if not isinstance(value, (str, bytes)) else repr(value[:40])
    return f"{text[:60]} ({type(value).__name__})"
