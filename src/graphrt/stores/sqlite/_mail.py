"""Mail and due threads in a SQLite file: the methods of `SqliteStore`, and their SQL.

A letter is a part of its thread, of the kind MAIL, under its id. When a commit takes it (`_writing`), the row stays with
the kind TAKEN and without its body: its id is remembered. So mail needs no table of its own, and goes with its thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.mail import WAITING, Letter
from graphrt.stores.protocol import Head, Payload
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.sqlite._ownership import Holding
from graphrt.stores.sqlite._rows import Row, head, part, place
from graphrt.stores.sqlite._schema import MAIL

if TYPE_CHECKING:
    from sqlite3 import Connection

# The kind is written into these texts, and is no parameter: only so is the partial index used.
_MAIL: Final = f"SELECT place, name, body FROM part WHERE no = ? AND kind = {MAIL} ORDER BY place"  # noqa: S608
_MAILED: Final = (
    "SELECT id FROM thread WHERE id IN (MARKS)"  # noqa: S608 - own names
    f" AND EXISTS (SELECT 1 FROM part WHERE part.no = thread.no AND kind = {MAIL})"
)
_NEXT: Final = "(rank, thread.no) > (?1, ?2)"
_AT_ONCE: Final = 500
"""Threads that one statement asks for, and threads of one page of those that are due."""


def due_text(graphs: list[str] | None, prefix: str | None) -> tuple[str, list[Any]]:
    """Return the statement that lists due threads whoever owns them, and the parameters of its filters.

    It has the parameters `?1` to `?4` (a thread's rank and number, a time and a limit) before those of the filters. The
    running threads are limited, because there may be many; they are filtered as in the whole statement, so that a page
    is full unless it is the last one.
    """
    texts, values = ["seq > 0"], list[Any]()
    if graphs is not None:
        texts.append(f"thread.graph IN ({', '.join('?' * len(graphs))})")
        values += graphs
    if prefix is not None:
        texts.append("substr(id, 1, length(?)) = ?")
        values += [prefix, prefix]
    fits = " AND ".join(texts)
    numbered = iter(range(5, 5 + len(values)))
    fits = "".join(f"?{next(numbered)}" if char == "?" else char for char in fits)
    waiting = ", ".join(f"'{status}'" for status in WAITING)
    return (
        f"SELECT {reading.COLUMNS} FROM {reading.FROM} WHERE thread.no IN ("  # noqa: S608 - own names
        f"SELECT no FROM (SELECT no FROM thread WHERE status = 'running' AND {_NEXT} AND {fits}"
        " ORDER BY rank, no LIMIT ?4)"
        f" UNION SELECT part.no FROM part JOIN thread USING (no) WHERE kind = {MAIL} AND {_NEXT}"
        f" AND status IN ({waiting})"
        f" UNION SELECT question.no FROM question JOIN thread USING (no) WHERE expires_at <= ?3 AND {_NEXT}"
        f" AND status = 'interrupted') AND {fits} ORDER BY rank, thread.no LIMIT ?4"
    ), values


def due_by_mail(db: Connection, row: Row) -> bool:
    """Return whether letters wait for a thread, and make it due."""
    return row.status in WAITING and db.execute(_MAIL, (row.no,)).fetchone() is not None


class Posting(Holding):
    """The base class of `SqliteStore` with the methods of `Postable`."""

    def post(self, thread: str, id: str, body: Payload) -> bool:
        """Keep a letter to *thread* until a commit takes it. See `Postable.post`."""
        _refusals.check_letter(check_id(thread), id, body, durable=True)

        def work(db: Connection) -> tuple[bool, int]:
            found = writing.post_letter(db, thread, id, body)
            if not found[1]:
                raise _refusals.unknown_thread(thread)
            return found

        return self._file.write(
            work,
            landed=lambda db, found: writing.letter_is_there(db, found[1], id),
            kept=lambda: f"the letter to thread {thread!r} was not kept",
            thread=thread,
            size=len(body),
        )[0]

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet. See `Postable.mail`."""
        check_id(thread)

        def work(db: Connection) -> list[Letter]:
            rows = db.execute(_MAIL, (self._there(db, thread)[0].no,)).fetchall()
            return [Letter(place(thread, at), str(name), part(thread, "a letter", body)) for at, name, body in rows]

        return self._file.read(work)

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters. See `Postable.mailed`."""
        wanted = [*threads]

        def work(db: Connection) -> list[str]:
            found: list[str] = []
            for at in range(0, len(wanted), _AT_ONCE):
                some = wanted[at : at + _AT_ONCE]
                rows = db.execute(_MAILED.replace("MARKS", ", ".join("?" * len(some))), some).fetchall()
                found += [name for (name,) in rows]
            return found

        return self._file.read(work) if wanted else []

    def due(
        self,
        *,
        now: float,
        graphs: Iterable[str] | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Return the heads of the threads that are due and have no living owner. See `Postable.due`."""
        most = _refusals.page_size(limit)
        names = None if graphs is None else [name for name in graphs if _refusals.encodes(name)]
        if prefix is not None and not _refusals.encodes(prefix):
            return []
        text, values = due_text(names, prefix)

        def page(db: Connection, last: tuple[int, int]) -> tuple[list[Head], tuple[int, int] | None]:
            rows = [reading.row_of(row) for row in db.execute(text, (*last, now, _AT_ONCE, *values)).fetchall()]
            free = [head(row, owned=False) for row in rows if not self._lives(row)]
            return free, (rows[-1].rank, rows[-1].no) if len(rows) == _AT_ONCE else None

        def start(db: Connection) -> tuple[int, int]:
            if after is None:
                return -(2**40), 0  # before the highest priority
            row = self._there(db, check_id(after))[0]
            return row.rank, row.no

        last: tuple[int, int] | None = self._file.read(start)
        found: list[Head] = []
        # Whether an owner lives is not known to SQL, so pages are read until enough threads without one are found.
        while last is not None and (most < 0 or len(found) < most):
            at = last
            some, last = self._file.read(lambda db: page(db, at))  # noqa: B023 - called before it changes
            found += some
        return found if most < 0 else found[:most]
