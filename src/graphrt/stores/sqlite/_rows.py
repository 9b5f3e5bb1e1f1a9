"""Rows of the SQLite store, checked as they are read: SQLite holds any type in any column, and files outlive programs.

Values only; the statements that read them stand in `_reading`. Each check costs a look at the types, once for all
rows of a thread where they can be many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast, get_args

from graphrt.errors import StoreError
from graphrt.stores.protocol import Head, Record, Saved, Status
from graphrt.stores.sqlite._schema import SPAN

_STATUSES: Final = frozenset(get_args(Status))
_NUMBERS: Final = (int, float)
_RECORD: Final = {(True, bytes, bytes)}


class Row(NamedTuple):
    """A row of `thread`; `lease` and `owner` are None if nobody holds it."""

    no: int
    id: str
    seq: int
    first: int
    epoch: int
    turn: int
    status: str
    graph: str
    created_at: float
    updated_at: float
    lease: float | None
    owner: str | None


def checked(row: Row) -> Row:
    """*row*, if it can be what was written.

    Raises:
        StoreError: A column holds another type, or a number that no thread has (`store-damaged`).
    """
    given: Any = row
    wrong = [name for name, value in zip(Row._fields, given, strict=True) if not _fits(name, value)]
    if not wrong and not 1 <= row.first <= row.seq + 1:
        wrong = ["first"]
    if not wrong:
        return row
    found = ", ".join(f"{name} {_short(getattr(given, name))}" for name in wrong)
    raise _damaged(
        row.id, "its row is not what was written", found, "Restore the database from a backup, or delete it."
    )


def _fits(name: str, value: Any) -> bool:
    match name:
        case "id" | "graph":
            return value.__class__ is str
        case "status":
            return value.__class__ is str and value in _STATUSES
        case "created_at" | "updated_at":
            return value.__class__ in _NUMBERS
        case "lease":
            return value is None or value.__class__ in _NUMBERS
        case "owner":
            return value is None or value.__class__ is str
        case _:
            return value.__class__ is int and 0 <= value < SPAN


def head(row: Row, owned: bool) -> Head:  # noqa: FBT001  # the second half of a pair
    """The head that a checked *row* tells of."""
    status = cast("Status", row.status)
    return Head(row.id, row.seq, row.epoch, status, row.graph, row.created_at, row.updated_at, owned, row.first)


def records(thread: str, found: Sequence[Record]) -> Sequence[Record]:
    """*found*, if all of them can be what was written.

    Raises:
        StoreError: One of them is not.
    """
    kinds = {(c.__class__ is int and c > 0, body.__class__, seal.__class__) for _, c, body, seal in found}
    if kinds <= _RECORD:
        return found
    for seq, count, body, seal in found:
        for name, value, kind in (("count", count, int), ("body", body, bytes), ("seal", seal, bytes)):
            if value.__class__ is not kind or (name == "count" and count < 1):
                told = f"{name} {_short(value)}"
                raise _damaged(thread, f"the record of entry {seq} is not what was written", told, _RESTORE, seq=seq)
    return found


def saved(thread: str, name: Any, body: Any) -> Saved:
    """A snapshot.

    Raises:
        StoreError: It is none.
    """
    if name.__class__ is not int or body.__class__ is not bytes:
        raise _damaged(thread, f"the snapshot of entry {_short(name)} is not what was written", _short(body), _RESTORE)
    return Saved(name, body)


def staged(thread: str, rows: Iterable[tuple[Any, Any, Any]]) -> list[tuple[str, bytes]]:
    """Staged bodies by key, from keys, bodies and places in order.

    Raises:
        StoreError: One of them is none.
    """
    found: list[tuple[str, bytes]] = []
    for key, body, place in rows:
        if key.__class__ is not str or body.__class__ is not bytes or place.__class__ is not int:
            told = f"key {_short(key)}, place {_short(place)}, body {_short(body)}"
            raise _damaged(thread, "a body that was staged is not what was written", told, _RESTORE)
        found.append((key, body))
    return found


def part(thread: str, what: str, body: Any) -> bytes:
    """The body of the meta or of a large value; *what* says which.

    Raises:
        StoreError: It is none.
    """
    if body.__class__ is not bytes:
        raise _damaged(thread, f"{what} is not what was written", _short(body), _RESTORE)
    found: bytes = body
    return found


def place(thread: str, value: Any) -> int:
    """The place of a staged body.

    Raises:
        StoreError: It is none.
    """
    if value.__class__ is not int:
        raise _damaged(thread, "a body that was staged is not what was written", f"place {_short(value)}", _RESTORE)
    found: int = value
    return found


_RESTORE: Final = "Restore the database from a backup."


def _damaged(thread: Any, what: str, found: str, fix: str, **data: Any) -> StoreError:
    return StoreError(
        f"Thread {thread!r} is damaged: {what}.",
        code="store-damaged",
        where=f"thread {thread!r}",
        known=f"found {found}",
        fix=fix,
        thread=thread if thread.__class__ is str else None,
        **data,
    )


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, (str, bytes)) else repr(value[:40])
    return f"{text[:60]} ({type(value).__name__})"
