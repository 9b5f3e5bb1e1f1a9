"""Mail and due threads in a SQLite file: the methods of `SqliteStore`, and their SQL.

A *letter* is a message to a thread from a process that does not own it, with an id and a body. It waits until a commit
of the thread's owner takes it, that is, processes it. It is a row of the table `part`, of the kind MAIL, under its id;
`place` gives the order of the letters of a thread. When a commit takes it (`_writing`), the row stays with the kind
TAKEN and without its body: its id is remembered, so that the same letter is not accepted again. So mail needs no table
of its own, and is deleted with its thread.

A thread is *due* if a worker should drive it: it is running without a living owner, a question of it has expired, or a
letter waits for it. `no` is a thread's number in the order of creation, `rank` is minus its priority, and a *head* is
its summary. Threads that are due are listed by rank and number, page by page. The functions `work` are called by
`Database` in a transaction, and may be called several times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.mail import WAITING, WAITS, Letter
from graphrt.stores.protocol import Head
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.sqlite._ownership import Holding
from graphrt.stores.sqlite._rows import LETTER, Row, head, row_of
from graphrt.stores.sqlite._schema import MAIL

if TYPE_CHECKING:
    from sqlite3 import Connection

# The kind is written into these texts: with a parameter, SQLite would not use the partial index of mail.
_MAIL: Final = f"SELECT place, name, body FROM part WHERE no = ? AND kind = {MAIL} ORDER BY place"  # noqa: S608
_MAILED: Final = (
    "SELECT id FROM thread WHERE id IN (MARKS)"  # noqa: S608 - own names
    f" AND EXISTS (SELECT 1 FROM part WHERE part.no = thread.no AND kind = {MAIL})"
)
"""MARKS is replaced by one question mark for each id."""
_MOVES: Final = f"(status <> 'interrupted' OR substr(name, 1, {len(WAITS)}) <> '{WAITS}')"
"""Condition: a letter makes its thread due. An input that waits for the end of a paused run does not."""
_NEXT: Final = "(rank, thread.no) > (:rank, :no)"
"""Condition for threads after the last one of the previous page."""
_AT_ONCE: Final = 500
"""Threads that one statement asks for, because SQLite limits the number of parameters, and threads of one page of those
that are due."""


def due_text(graphs: list[str] | None, prefix: str | None) -> tuple[str, dict[str, Any]]:
    """Return the statement that lists due threads, with or without an owner, and the parameters of its filters.

    Its other parameters are `rank` and `no` of the thread that a page begins after, `now` and `most`. The running
    threads are limited, because there may be many; they are filtered as in the whole statement, so that a page is full
    unless it is the last one.

    Args:
        graphs: Only threads of the graphs with these names; None for any graph.
        prefix: Only threads whose id begins with this text; None for any id.
    """
    texts, values = ["seq > 0"], dict[str, Any]()
    if graphs is not None:
        named = {f"graph{number}": graph for number, graph in enumerate(graphs)}
        texts.append(f"thread.graph IN ({', '.join(f':{name}' for name in named)})")
        values |= named
    if prefix is not None:
        texts.append("substr(id, 1, length(:prefix)) = :prefix")
        values["prefix"] = prefix
    fits = " AND ".join(texts)
    waiting = ", ".join(f"'{status}'" for status in WAITING)
    return (
        f"SELECT {reading.COLUMNS} FROM {reading.FROM} WHERE thread.no IN ("  # noqa: S608 - own names
        f"SELECT no FROM (SELECT no FROM thread WHERE status = 'running' AND {_NEXT} AND {fits}"
        " ORDER BY rank, no LIMIT :most)"
        f" UNION SELECT part.no FROM part JOIN thread USING (no) WHERE kind = {MAIL} AND {_NEXT}"
        f" AND status IN ({waiting}) AND {_MOVES}"
        f" UNION SELECT question.no FROM question JOIN thread USING (no) WHERE expires_at <= :now AND {_NEXT}"
        f" AND status = 'interrupted') AND {fits} ORDER BY rank, thread.no LIMIT :most"
    ), values


def due_by_mail(db: Connection, row: Row) -> bool:
    """Return whether letters wait for the thread of *row*, and make it due. A deletion of old threads leaves it then.

    In `WAITING` are the statuses in which mail does so: a failed or cancelled thread first needs a person.
    """
    return row.status in WAITING and db.execute(_MAIL, (row.no,)).fetchone() is not None


class Posting(Holding):
    """The base class of `SqliteStore` with the methods of the protocol `Postable`.

    Inherited from `Holding`: `_there` returns the row of a thread id and whether the thread is held, or raises
    `InputError`; `_lives` says whether a living owner holds the thread of a row.
    """

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a letter to *thread* until a commit takes it. Returns False if there was one with this *id* before.

        Raises:
            InputError: There is no such thread, or it has no entries, or the letter cannot be kept.
        """
        _refusals.check_letter(check_id(thread), id, body)

        def work(db: Connection) -> tuple[bool, int]:
            """Return whether the letter is new, and the number of the thread, which is 0 if there is none."""
            found = writing.post_letter(db, thread, id, body)
            if not found[1]:
                raise _refusals.unknown_thread(thread)
            return found

        # `landed` is asked if the outcome of the COMMIT is unknown, `kept` for the text of an error. If another caller
        # posted the same letter meanwhile, that is as good.
        return self._file.write(
            work,
            landed=lambda db, found: writing.letter_is_there(db, found[1], id),
            kept=lambda: f"the letter to thread {thread!r} was not kept",
            thread=thread,
            size=len(body),
        )[0]

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet, in the order in which they were posted.

        Raises:
            InputError: There is no such thread.
        """
        check_id(thread)

        def work(db: Connection) -> list[Letter]:
            rows = db.execute(_MAIL, (self._there(db, thread)[0].no,)).fetchall()
            return [Letter(*row) for row in LETTER.checked(rows)]

        return self._file.read(work, thread)

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters, in any order. A thread that does not exist has none."""
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
        """Return the heads of the threads that are due and have no living owner, those of the highest priority first.

        Args:
            now: Seconds since the epoch, by which questions expire.
            graphs: Only threads of the graphs with these names; None for any graph.
            prefix: Only threads whose id begins with this text; None for any id.
            after: Id of the thread after which the list begins; it need not be due.
            limit: Most heads; None for all.

        Raises:
            InputError: There is no thread *after*, or *limit* is not a number of threads.
        """
        most = _refusals.page_size(limit, now=now)  # -1 for all
        # No thread has a graph or id that is not valid UTF-8, and SQLite would raise for such a text.
        names = None if graphs is None else [name for name in graphs if _refusals.encodes(name)]
        if prefix is not None and not _refusals.encodes(prefix):
            return []
        text, values = due_text(names, prefix)

        def page(db: Connection, last: tuple[int, int]) -> tuple[list[Head], tuple[int, int] | None]:
            """Return the heads of the free threads of the page after *last* (rank, number), and the next *last*.

            The latter is None after the last page.
            """
            told = {**values, "rank": last[0], "no": last[1], "now": now, "most": _AT_ONCE}
            rows = [row_of(row) for row in db.execute(text, told).fetchall()]
            free = [head(row, owned=False) for row in rows if not self._lives(row)]
            return free, (rows[-1].rank, rows[-1].no) if len(rows) == _AT_ONCE else None

        def start(db: Connection) -> tuple[int, int]:
            """Return rank and number of the thread after which the list begins."""
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
