"""Queries of a SQLite file: the dialect of SQLite, and the choice of indexes.

The statements are those of `_sql`. SQLite keeps no statistics of its tables here, so this module chooses the index that
the inbox is read by. SQL cannot tell whether an owner is alive, so that is looked up for each row.

A message is a row of the table `part`, of the kind MAIL, under its id; `place` gives the order of the messages of a
thread. When a commit takes a message (`_writing`), its row stays with the kind TAKEN and without its body, so that the
same message is not accepted again. Mail thus needs no separate table, and is deleted with its thread.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores._checks import encodes
from graphrt.stores._sql import Sql, Statement
from graphrt.stores.filters import WAITING, Filter, QuestionFilter, ThreadFilter, folded
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._reading import Row
from graphrt.stores.sqlite._schema import MAIL
from graphrt.stores.sqlite._writing import QUESTION_COLUMNS

if TYPE_CHECKING:
    from sqlite3 import Connection

_RARE: Final = 2_000
"""Maximum number of threads with a tag, or questions of a kind, for which the inbox reads all of these rows and sorts
them. If there
are more, it reads questions in order of time and leaves out what does not fit, until the page is full."""
# They count up to the given limit, so that a frequent tag or kind costs no more than a rare one.
_COUNT_TAG: Final = "SELECT count(*) FROM (SELECT 1 FROM tag WHERE name = ? LIMIT ?)"
_COUNT_KIND: Final = "SELECT count(*) FROM (SELECT 1 FROM question INDEXED BY question_kind WHERE kind = ? LIMIT ?)"
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


class SqliteSql(Sql):
    """The SQL of SQLite."""

    head_columns = reading.THREADS_COLUMNS
    question_columns = QUESTION_COLUMNS
    mail = "part AS m"
    # The kind is written into the text: with a parameter, SQLite would not use the partial index of mail.
    untaken = f"m.kind = {MAIL}"
    message = "m.name"
    free = "1"

    def finished(self, text: str) -> str:
        return _PARAMETER.sub(r":\1", text.replace("{s}.", ""))

    def among(self, name: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        parameters = {f"{name}{number}": value for number, value in enumerate(values)}
        return f"IN ({', '.join(f':{parameter}' for parameter in parameters)})", parameters

    def begins(self, column: str, name: str) -> str:
        return f"substr({column}, 1, length(:{name})) = :{name}"

    def contains(self, column: str, name: str) -> str:
        return f"instr({column}, :{name}) > 0"

    def tags(self, wanted: Filter[Any], tags: Sequence[str], rare: str | None) -> tuple[str, dict[str, Any]]:
        parameters = {f"tag{number}": tag for number, tag in enumerate(tags)}
        texts: list[str] = []
        for number, (name, tag) in enumerate(parameters.items()):
            if isinstance(wanted, ThreadFilter):
                # The first tag leads the statement; see `threads`.
                condition = f"EXISTS (SELECT 1 FROM tag AS t WHERE t.name = :{name} AND t.no = thread.no)"
                texts.append(condition if number else f"tag.name = :{name}")
            elif tag == rare:
                texts.append(f"q.no IN (SELECT no FROM tag WHERE name = :{name})")
            else:
                # The plus sign keeps SQLite from looking up questions by their thread, not in the order of the inbox.
                texts.append(f"EXISTS (SELECT 1 FROM tag WHERE name = :{name} AND no = +q.no)")
        return " AND ".join(texts), parameters

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
        if wanted.ids is not None:  # the plus sign makes SQLite look them up by id and then sort
            return reading.FROM, "+thread.no"
        joined = reading.FROM if wanted.tenant is None and wanted.title is None else reading.FROM.replace("LEFT ", "")
        return joined, "thread.no" if wanted.tenant is None else "label.no"

    def accepts(self, text: str) -> bool:
        return encodes(text)


SQL: Final = SqliteSql()


def inbox(db: Connection, wanted: QuestionFilter) -> Statement | None:
    """Return the statement for the inbox, with the index that reads the fewest rows."""
    if wanted.thread is not None:
        return SQL.inbox(wanted)  # read by the questions of the thread
    counts = {tag: db.execute(_COUNT_TAG, (tag, _RARE + 1)).fetchall()[0][0] for tag in wanted.tags if encodes(tag)}
    rare = min(counts, key=counts.__getitem__, default=None)  # the tag with the fewest threads
    if rare is not None and counts[rare] <= _RARE:
        return SQL.inbox(wanted, rare=rare)
    # Each index has the questions in the order of the inbox: all, those of a tenant, or those of a kind and graph.
    first = "kind" if _leads(db, wanted) else "asked" if wanted.tenant is None else "tenant"
    return SQL.inbox(wanted, index=f"INDEXED BY question_{first}")


def _leads(db: Connection, wanted: QuestionFilter) -> bool:
    """Return whether the inbox is read by the index of kinds, and not in the order of all questions.

    That index begins with kind and graph, so the questions of both are in order there. Rows of one kind have to be
    sorted, so they must be few. With a tenant, the index of tenants is used.
    """
    if wanted.kind is None or wanted.tenant is not None or not encodes(wanted.kind):
        return False
    return wanted.graph is not None or db.execute(_COUNT_KIND, (wanted.kind, _RARE + 1)).fetchall()[0][0] <= _RARE


def due_by_mail(db: Connection, row: Row) -> bool:
    """Return whether messages make the thread of *row* due, so that a deletion of old threads skips it.

    In `WAITING` are the statuses in which mail does so: a failed or cancelled thread first needs a person.
    """
    text = f"SELECT 1 FROM {SQL.mail} WHERE no = ? AND {SQL.untaken}"
    return row.status in WAITING and db.execute(text, (row.no,)).fetchone() is not None


def fetched(db: Connection, statement: Statement | None, **page: Any) -> list[tuple[Any, ...]]:
    """Return the rows of *statement* with the parameters of its page; none if it is None: no row can match."""
    return [] if statement is None else db.execute(statement.text, statement.values | page).fetchall()
