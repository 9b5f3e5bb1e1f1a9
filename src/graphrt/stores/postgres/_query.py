"""`PostgresStore.query`: the dialect of PostgreSQL, and rows as values. The statements are those of `stores._sql`.

A message that a commit has taken keeps its row, without a body, so that its id is remembered. Texts of callers that may
have characters that PostgreSQL's text refuses are stored as bytes (`to_bytes`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from graphrt.stores._checks import encodes
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores._sql import Sql, Statement
from graphrt.stores.filters import (
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
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._texts import to_bytes, to_text
from graphrt.stores.values import Head, MailMessage, OpenQuestion, Question, StoredSchedule
from graphrt.stores.verbs import StoreVerbs

_FOLLOWED: Final = (
    "SELECT thread FROM {s}.live_follower WHERE thread = ANY (%(threads)s::text[]) AND thread > %(after)s"
    " AND until > clock_timestamp() ORDER BY thread LIMIT %(most)s"
)
_ARRAYS: Final = {"graphs": "bytea[]"}
"""Types of the arrays that are not of text, by field."""


class PostgresSql(Sql):
    """SQL as PostgreSQL takes it; `Link.named` replaces `{s}` later."""

    head_columns = _statements.HEAD_COLUMNS
    question_columns = "asked_at, expires_at, stale, kind, place, graph, node, body"
    mail = "{s}.mail m"
    untaken = "m.body IS NOT NULL"
    message = "m.id"
    free = f"NOT {_statements.LIVES}"

    def finished(self, text: str) -> str:
        return text

    def among(self, name: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        return f"= ANY (%({name})s::{_ARRAYS.get(name, 'text[]')})", {name: list(values)}

    def begins(self, column: str, name: str) -> str:
        return f"starts_with({column}, %({name})s)"

    def contains(self, column: str, name: str) -> str:
        return f"strpos({column}, %({name})s) > 0"

    def tags(self, wanted: Filter[Any], tags: Sequence[str], rare: str | None) -> tuple[str, dict[str, Any]]:
        del rare  # PostgreSQL knows by its statistics which tags are rare
        text = "label.tags @> %(tags)s::text[]"
        if isinstance(wanted, QuestionFilter):
            text = f"EXISTS (SELECT FROM {{s}}.label WHERE label.no = q.no AND {text})"
        return text, {"tags": list(tags)}

    def value(self, field: str, value: Any) -> Any:
        if field in {"graph", "graphs", "node"}:
            return to_bytes(value)
        return folded(value) if field == "title" else value

    def id_begins(self, beginning: str) -> str:
        return f"substring(m.id FROM 1 FOR {len(beginning)}) = '{beginning}'::bytea"

    def threads(self, wanted: ThreadFilter) -> tuple[str, str]:
        # Both columns have the thread's number. For a tenant, the order comes from the one that is indexed with it.
        return _statements.FROM, "thread.no" if wanted.tenant is None else "label.no"

    def accepts(self, text: str) -> bool:
        return encodes(text) and "\0" not in text


SQL: Final = PostgresSql()


class Querying(StoreVerbs):
    """The base class of `PostgresStore` with its queries."""

    _calls: Calls

    @abstractmethod
    def _head(self, thread: str) -> tuple[Head, int]:
        """Return the head, which is the summary, and the number of *thread*.

        Raises:
            InputError: There is no such thread.
        """

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Return a page of rows. See `Store.query`."""
        found: list[Any]
        match wanted:
            case ThreadFilter():
                last = 2**62 if wanted.newest_first else 0  # numbers that come before all threads in the order
                if after is not None:
                    last = self._head(after)[1]
                rows = self._fetched("find threads", SQL.find(wanted), after=last, most=limit)
                found = [_statements.to_head(row[0], row[1:]) for row in rows]
            case DueFilter():
                rank, last = -(2**31), 0  # before all threads: the smallest number of the column's type
                if after is not None:
                    head, last = self._head(after)
                    rank = -head.priority
                page = {"rank": rank, "after": last, "now": wanted.now, "most": limit}
                rows = self._fetched("list the threads that are due", SQL.due(wanted), **page)
                found = [_statements.to_head(row[0], row[1:]) for row in rows]
            case QuestionFilter():
                found = self._questions(wanted, after, limit)
            case MailFilter():
                self._head(wanted.thread)  # raises if there is no such thread
                page = {"after": place_of(after), "most": limit}
                rows = self._fetched(f"read mail of thread {wanted.thread!r}", SQL.messages(wanted), **page)
                found = [MailMessage(place, to_text(name), body) for place, name, body in rows]
            case FollowerFilter():
                values = {"threads": [*wanted.threads], "after": after or "", "most": limit}
                found = [row[0] for row in self._calls.ask("look for followers", _FOLLOWED, values)]
            case _:
                assert isinstance(wanted, ScheduleFilter)  # noqa: S101 - the last kind of filter
                rows = self._fetched("list schedules", SQL.schedules(wanted), after=after or "", most=limit)
                found = [StoredSchedule(name, to_text(graph), *rest) for name, graph, *rest in rows]
        return found

    def _questions(self, wanted: QuestionFilter, after: str | None, limit: int | None) -> list[OpenQuestion]:
        if wanted.thread is not None:
            self._head(check_id(wanted.thread))  # raises if there is no such thread
        last = Position(float("-inf"), "", "") if after is None else from_token(after)  # the first is before all others
        page = {"asked_at": last.asked_at, "id": last.thread, "place": to_bytes(last.place), "most": limit}
        found: list[OpenQuestion] = []
        for row in self._fetched("list open questions", SQL.inbox(wanted), **page):
            question = _question(row[:8])  # the columns of the question; those of the head follow, with the id first
            head = _statements.to_head(row[8], tuple(row[9:]))
            token = to_token(Position(question.asked_at, head.thread, question.place))
            found.append(OpenQuestion(head, question, token))
        return found

    def _fetched(self, doing: str, statement: Statement | None, **page: Any) -> list[tuple[Any, ...]]:
        """Return the rows of *statement* with the parameters of its page; none if it is None, as no row can fit."""
        return [] if statement is None else self._calls.ask(doing, statement.text, statement.values | page).fetchall()


def _question(row: Any) -> Question:
    """Return the question made of *row*, which has the columns `PostgresSql.question_columns`."""
    asked_at, expires_at, stale, kind, place, graph, node, body = row
    return Question(to_text(place), kind, to_text(node), to_text(graph), asked_at, expires_at, stale, body)
