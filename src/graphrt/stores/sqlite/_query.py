"""`SqliteStore.query`: the dialect of SQLite, the choice of indexes, and rows as values.

The statements are those of `_sql`. SQLite keeps no statistics of its tables here, so this module chooses the index that
the inbox is read by. Whether an owner lives is not known to SQL: it is looked up for each row.

A message is a row of the table `part`, of the kind MAIL, under its id; `place` gives the order of the messages of a
thread. When a commit takes one (`_writing`), its row stays with the kind TAKEN and without its body: its id is
remembered, so that the same message is not accepted again. So mail needs no table of its own, and is deleted with its
thread. The functions `work` are called by `Database` in a transaction, and may be called several times.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores._refusals import encodes
from graphrt.stores._sql import Sql, Statement
from graphrt.stores.filters import (
    WAITING,
    DueFilter,
    Filter,
    FollowerFilter,
    MailFilter,
    QuestionFilter,
    ScheduleFilter,
    ThreadFilter,
    folded,
    place_of,
)
from graphrt.stores.ids import check_id
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._labels import QUESTION
from graphrt.stores.sqlite._live_file import LiveFile
from graphrt.stores.sqlite._ownership import Holding
from graphrt.stores.sqlite._rows import MESSAGE, SCHEDULE, Row, damaged, head, row_of
from graphrt.stores.sqlite._rows import QUESTION as QUESTION_TYPES
from graphrt.stores.sqlite._schema import MAIL
from graphrt.stores.values import Head, MailMessage, OpenQuestion, Question, StoredSchedule

if TYPE_CHECKING:
    from sqlite3 import Connection

_RARE: Final = 2_000
"""Most threads with a tag, or questions of a kind, for which the inbox reads all of these rows and sorts them. If there
are more, it reads questions in order of time and leaves out what does not fit, until the page is full."""
# They count up to the limit that is given, so that a frequent tag or kind costs no more than a rare one.
_COUNT_TAG: Final = "SELECT count(*) FROM (SELECT 1 FROM tag WHERE name = ? LIMIT ?)"
_COUNT_KIND: Final = "SELECT count(*) FROM (SELECT 1 FROM question INDEXED BY question_kind WHERE kind = ? LIMIT ?)"
_AT_ONCE: Final = 500
"""Due threads that one statement lists, with an owner or without."""
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


class SqliteSql(Sql):
    """SQL as SQLite takes it."""

    head_columns = reading.THREADS_COLUMNS
    question_columns = QUESTION
    mail = "part AS m"
    # The kind is written into the text: with a parameter, SQLite would not use the partial index of mail.
    untaken = f"m.kind = {MAIL}"
    message = "m.name"
    free = "1"

    def finished(self, text: str) -> str:
        return _PARAMETER.sub(r":\1", text.replace("{s}.", ""))

    def among(self, name: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        given = {f"{name}{number}": value for number, value in enumerate(values)}
        return f"IN ({', '.join(f':{one}' for one in given)})", given

    def begins(self, column: str, name: str) -> str:
        return f"substr({column}, 1, length(:{name})) = :{name}"

    def contains(self, column: str, name: str) -> str:
        return f"instr({column}, :{name}) > 0"

    def tags(self, wanted: Filter[Any], tags: Sequence[str], rare: str | None) -> tuple[str, dict[str, Any]]:
        given = {f"tag{number}": tag for number, tag in enumerate(tags)}
        texts: list[str] = []
        for number, (name, tag) in enumerate(given.items()):
            if isinstance(wanted, ThreadFilter):
                # The first tag leads the statement; see `threads`.
                other = f"EXISTS (SELECT 1 FROM tag AS t WHERE t.name = :{name} AND t.no = thread.no)"
                texts.append(other if number else f"tag.name = :{name}")
            elif tag == rare:
                texts.append(f"q.no IN (SELECT no FROM tag WHERE name = :{name})")
            else:
                # The plus sign keeps SQLite from looking up questions by their thread, not in the order of the inbox.
                texts.append(f"EXISTS (SELECT 1 FROM tag WHERE name = :{name} AND no = +q.no)")
        return " AND ".join(texts), given

    def value(self, field: str, value: Any) -> Any:
        return folded(value) if field == "title" else value

    def id_begins(self, beginning: str) -> str:
        return f"substr(m.name, 1, {len(beginning)}) = '{beginning}'"

    def threads(self, wanted: ThreadFilter) -> tuple[str, str]:
        # SQLite begins with the table whose index has the page in order. With tags, CROSS JOIN makes it begin with the
        # rows of the first tag. With a tenant, an INNER JOIN lets it begin with `label`. A title has no index, so a
        # search by title alone goes through the threads.
        if wanted.tags:
            return "tag CROSS JOIN thread ON thread.no = tag.no LEFT JOIN label ON label.no = tag.no", "tag.no"
        if wanted.ids is not None:  # the plus sign: by their ids, and then sorted
            return reading.FROM, "+thread.no"
        joined = reading.FROM if wanted.tenant is None and wanted.title is None else reading.FROM.replace("LEFT ", "")
        return joined, "thread.no" if wanted.tenant is None else "label.no"

    def accepts(self, text: str) -> bool:
        return encodes(text)


SQL: Final = SqliteSql()


def question_of(thread: str, row: tuple[Any, ...]) -> Question:
    """Return the question of *thread* in the columns *row*, which are those of `QUESTION`.

    Raises:
        StoreError: One of them has a wrong type.
    """
    try:
        ((place, kind, node, graph, asked_at, expires_at, stale, body),) = QUESTION_TYPES.checked([row])
    except TypeError as error:  # questions can be computed again from the journal
        raise damaged(thread, error, "Call reindex() on the runtime of its graph.") from error
    return Question(place, kind, node, graph, asked_at, expires_at, bool(stale), body)  # `stale` is 0 or 1


def _inbox(db: Connection, wanted: QuestionFilter) -> Statement | None:
    """Return the statement for the inbox, which begins where the fewest rows are to be read."""
    if wanted.thread is not None:
        return SQL.inbox(wanted)  # by the questions of the thread
    counts = {tag: db.execute(_COUNT_TAG, (tag, _RARE + 1)).fetchall()[0][0] for tag in wanted.tags if encodes(tag)}
    rare = min(counts, key=counts.__getitem__, default=None)  # the tag of the fewest threads
    if rare is not None and counts[rare] <= _RARE:
        return SQL.inbox(wanted, rare=rare)
    # Each index has the questions in the order of the inbox: all, those of a tenant, or those of a kind and graph.
    first = "kind" if _leads(db, wanted) else "asked" if wanted.tenant is None else "tenant"
    return SQL.inbox(wanted, index=f"INDEXED BY question_{first}")


def _leads(db: Connection, wanted: QuestionFilter) -> bool:
    """Return whether the inbox is read by the index of kinds, and not in the order of all questions.

    That index begins with kind and graph, so the questions of both are in order there. Those of a kind alone have to be
    sorted, so they must be few. With a tenant, the index of tenants is used.
    """
    if wanted.kind is None or wanted.tenant is not None or not encodes(wanted.kind):
        return False
    return wanted.graph is not None or db.execute(_COUNT_KIND, (wanted.kind, _RARE + 1)).fetchall()[0][0] <= _RARE


def due_by_mail(db: Connection, row: Row) -> bool:
    """Return whether messages wait for the thread of *row*, and make it due. A deletion of old threads leaves it then.

    In `WAITING` are the statuses in which mail does so: a failed or cancelled thread first needs a person.
    """
    text = f"SELECT 1 FROM {SQL.mail} WHERE no = ? AND {SQL.untaken}"
    return row.status in WAITING and db.execute(text, (row.no,)).fetchone() is not None


class Querying(Holding):
    """The base class of `SqliteStore` with its queries.

    Inherited from `Holding`: `_there` returns the row of a thread id and whether the thread is held, or raises
    `InputError`; `_lives` says whether a living owner holds the thread of a row.
    """

    _live: LiveFile

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Return a page of rows. See `Store.query`."""
        most = -1 if limit is None else limit
        found: list[Any]
        match wanted:
            case ThreadFilter():
                found = self._file.read(lambda db: self._threads(db, wanted, after, most))
            case DueFilter():
                found = self._due(wanted, after, most)
            case QuestionFilter():
                found = self._file.read(lambda db: self._questions(db, wanted, after, most))
            case MailFilter():
                found = self._file.read(lambda db: self._mail(db, wanted, after, most), check_id(wanted.thread))
            case FollowerFilter():
                found = self._live.followed(wanted.threads, after or "", most)
            case _:
                assert isinstance(wanted, ScheduleFilter)  # noqa: S101 - the last kind of filter
                found = self._file.read(lambda db: self._schedules(db, wanted, after, most))
        return found

    def _threads(self, db: Connection, wanted: ThreadFilter, after: str | None, most: int) -> list[Head]:
        last = 2**62 if wanted.newest_first else 0  # beyond every number of a thread
        if after is not None:
            last = self._there(db, check_id(after))[0].no
        rows = [row_of(row) for row in _fetched(db, SQL.find(wanted), after=last, most=most)]
        return [head(row, owned=self._lives(row)) for row in rows]

    def _due(self, wanted: DueFilter, after: str | None, most: int) -> list[Head]:
        """Return due threads without an owner. Pages are read until there are enough of them."""
        statement = SQL.due(wanted)

        def page(db: Connection, last: tuple[int, int]) -> tuple[list[Head], tuple[int, int] | None]:
            """Return the heads of the free threads of the page after *last* (rank, number), and the next *last*.

            The latter is None after the last page.
            """
            found = _fetched(db, statement, rank=last[0], after=last[1], now=wanted.now, most=_AT_ONCE)
            rows = [row_of(row) for row in found]
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
        while last is not None and (most < 0 or len(found) < most):
            at = last
            some, last = self._file.read(lambda db: page(db, at))  # noqa: B023 - called before it changes
            found += some
        return found if most < 0 else found[:most]

    def _questions(self, db: Connection, wanted: QuestionFilter, after: str | None, most: int) -> list[OpenQuestion]:
        if wanted.thread is not None:
            self._there(db, check_id(wanted.thread))  # raises if there is no such thread
        # Without a token, the position before all questions.
        last = Position(float("-inf"), "", "") if after is None else from_token(after)
        page = {"asked_at": last.asked_at, "id": last.thread, "place": last.place, "most": most}
        found: list[OpenQuestion] = []
        for columns in _fetched(db, _inbox(db, wanted), **page):
            row = row_of(columns[8:])  # after the eight columns of the question, those of the thread
            question = question_of(row.id, columns[:8])
            token = to_token(Position(question.asked_at, row.id, question.place))
            found.append(OpenQuestion(head(row, owned=self._lives(row)), question, token))
        return found

    def _mail(self, db: Connection, wanted: MailFilter, after: str | None, most: int) -> list[MailMessage]:
        self._there(db, wanted.thread)
        rows = _fetched(db, SQL.messages(wanted), after=place_of(after), most=most)
        return [MailMessage(*row) for row in MESSAGE.checked(rows)]

    def _schedules(self, db: Connection, wanted: ScheduleFilter, after: str | None, most: int) -> list[StoredSchedule]:
        rows = _fetched(db, SQL.schedules(wanted), after=after or "", most=most)
        return [StoredSchedule(*row) for row in SCHEDULE.checked(rows)]


def _fetched(db: Connection, statement: Statement | None, **page: Any) -> list[tuple[Any, ...]]:
    """Return the rows of *statement* with the parameters of its page; none if it is None, as no row can fit."""
    return [] if statement is None else db.execute(statement.text, statement.values | page).fetchall()
