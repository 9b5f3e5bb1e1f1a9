"""Mail and due threads in a PostgreSQL schema: the methods of `PostgresStore`, and their SQL.

A *letter* is mail of a process that does not own the thread. It waits until a commit of the owner *takes* it; its row
then stays without a body, so that its id is remembered. A thread is *due* if a worker may drive it now: its run was
left unfinished, letters wait for it, or one of its questions expires. `no` is the number of a thread in order of
creation, and `rank` is minus its priority. The statements that take letters are in `_mail_parts`.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.mail import WAITING, WAITS, Letter
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.postgres._texts import to_bytes, to_text
from graphrt.stores.protocol import Head

# The lock keeps the thread from being deleted until the letter is stored, and lets its owner go on with commits.
_POST: Final = (
    "INSERT INTO {s}.mail (no, id, body) SELECT no, %s, %s FROM {s}.thread WHERE thread.id = %s AND seq > 0"
    " FOR KEY SHARE ON CONFLICT (no, id) DO NOTHING"
)
_FIND: Final = "SELECT m.body FROM {s}.mail m JOIN {s}.thread USING (no) WHERE thread.id = %s AND m.id = %s"
_MAIL: Final = "SELECT place, id, body FROM {s}.mail WHERE no = %s AND body IS NOT NULL ORDER BY place"
_MAILED: Final = (
    "SELECT id FROM {s}.thread WHERE id = ANY (%s::text[])"
    " AND EXISTS (SELECT FROM {s}.mail m WHERE m.no = thread.no AND m.body IS NOT NULL)"
)


def due_text(graphs: Iterable[str] | None, prefix: str | None) -> tuple[str, dict[str, Any]]:
    """Return the statement that lists due threads, and the parameters of its filters.

    It needs the parameters `now`, `rank` and `after` (rank and number of the last thread of the page before) and `most`
    besides. It collects the numbers of three kinds of due threads, and then reads their heads: running ones, those with
    letters whose status is in WAITING (a failed or cancelled thread needs a person first), and those with an expired
    question. None with a living owner is due. The limit applies to the running threads already: there may be many.
    """
    fits, values = (
        f"thread.seq > 0 AND (rank, thread.no) > (%(rank)s, %(after)s) AND NOT {_statements.LIVES}",
        dict[str, Any](),
    )
    if graphs is not None:
        fits += " AND thread.graph = ANY (%(graphs)s::bytea[])"
        values["graphs"] = [to_bytes(graph) for graph in graphs]
    if prefix is not None:
        fits += " AND starts_with(thread.id, %(prefix)s)"
        values["prefix"] = prefix
    waiting = ", ".join(f"'{status}'" for status in WAITING)
    return (
        "WITH d AS ("
        f"(SELECT thread.no FROM {{s}}.thread WHERE status = 'running' AND {fits}"
        " ORDER BY rank, thread.no LIMIT %(most)s)"
        f" UNION SELECT thread.no FROM {{s}}.mail m JOIN {{s}}.thread USING (no) WHERE m.body IS NOT NULL"
        f" AND status IN ({waiting}) AND (status <> 'interrupted' OR substring(m.id FROM 1 FOR {len(WAITS)}) <> '{WAITS}'::bytea)"
        f" AND {fits}"
        f" UNION SELECT thread.no FROM {{s}}.question q JOIN {{s}}.thread USING (no) WHERE q.expires_at <= %(now)s"
        f" AND status = 'interrupted' AND {fits})"
        # `FROM` is "thread LEFT JOIN label ...": its first table is joined with `d` by `USING (no)`.
        f" SELECT {_statements.HEAD_COLUMNS} FROM d JOIN {_statements.FROM.replace(' LEFT', ' USING (no) LEFT', 1)}"
        " ORDER BY rank, thread.no LIMIT %(most)s"
    ), values


class Posting(ABC):
    """The base class of `PostgresStore` with the methods of the protocol `Postable` in `stores.mail`."""

    _calls: Calls

    @abstractmethod
    def _head(self, thread: str) -> tuple[Head, int]:
        """Return the head, which is the summary, and the number of *thread*.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a letter to *thread* until a commit takes it; return False if its *id* came before.

        Also returns False if the letter was kept, the connection was then lost, and a commit took the letter before the
        repetition: a letter that was taken has no body any more, by which it could be recognised.
        """
        _refusals.check_letter(check_id(thread), id, body)
        name = to_bytes(id)

        def work(connection: Connection, again: bool) -> bool | None:  # noqa: FBT001 - Calls.call says so
            """Insert the letter. Returns None if there is no such thread; *again* after a lost connection."""
            if self._calls.run(connection, _POST, [name, body, thread]).rowcount:
                return True
            row = self._calls.run(connection, _FIND, [thread, name]).fetchone()
            if row is None:  # no letter with this id: there is no such thread, or it has no entries
                return None
            return again and row[0] == body  # it may be the one that was sent before the connection was lost

        kept = self._calls.call(
            work,
            f"post a letter to thread {thread!r}",
            kept="It was not kept.",
            unknown="Whether it was kept is not known: post it again under the same id.",
        )
        if kept is None:
            raise _refusals.unknown_thread(thread)
        return kept

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet, in order."""
        rows = self._calls.ask(f"read mail of thread {thread!r}", _MAIL, [self._head(thread)[1]]).fetchall()
        return [Letter(place, to_text(name), body) for place, name, body in rows]

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters, in any order."""
        wanted = [*threads]
        return [found for (found,) in self._calls.ask("look for mail", _MAILED, [wanted])] if wanted else []

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

        Threads of equal priority are in order of creation. Arguments and errors are those of `Postable.due`.
        """
        most = _refusals.page_size(limit, now=now)  # -1 without a limit
        rank, last = -(2**31), 0  # before all threads: the smallest number of the column's type
        if after is not None:
            head, last = self._head(check_id(after))
            rank = -head.priority
        if prefix and (not prefix.isascii() or "\0" in prefix):
            return []  # no id has such a character, and the server would refuse the parameter
        text, values = due_text(graphs, prefix)
        values |= {"now": now, "rank": rank, "after": last, "most": None if most < 0 else most}
        rows = self._calls.ask("list the threads that are due", text, values).fetchall()
        return [_statements.to_head(row[0], row[1:]) for row in rows]
