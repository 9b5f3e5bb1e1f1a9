"""The methods of `PostgresStore` that search threads by their labels, and list open questions, with their SQL.

Labels are the title, tags and tenant by which a thread is found. The inbox is the list of the open questions of all
threads, the oldest first; a *token* is a position in it, as a text that a caller passes back for the next page. `no` is
the number of a thread, in order of creation. Statements have `{s}` in place of the schema's name. Texts of callers that
may have characters that PostgreSQL's text refuses are stored as bytes (`to_bytes`).
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from graphrt.stores import _refusals
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores.ids import check_id
from graphrt.stores.labels import Asked, QuestionFilter, ThreadFilter, folded
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._texts import to_bytes, to_text
from graphrt.stores.protocol import Head, Question

_QUESTION: Final = "asked_at, expires_at, stale, kind, place, graph, node, body"
_AFTER: Final = "(q.asked_at, q.no, q.place) > (%s, coalesce((SELECT no FROM {s}.thread WHERE id = %s), 0), %s)"
"""The condition of a page. A deleted thread counts as the first: its questions of the same moment come again."""
_QUESTIONS: Final = f"SELECT {_QUESTION} FROM {{s}}.question WHERE no = %s ORDER BY asked_at, place"


def find_text(wanted: ThreadFilter, *, newest_first: bool) -> tuple[str, list[Any]]:
    """Return the statement that lists threads, and the parameters of its conditions.

    At its end the statement takes two more parameters: the number of the thread after which the page begins, and the
    limit.
    """
    text, values = _statements.HEADS, list[Any]()
    # starts_with and not LIKE: wildcards in a prefix are ordinary characters.
    for condition, value in (
        (" AND label.tenant = %s", wanted.tenant),
        (" AND label.tags @> %s::text[]", sorted(wanted.tags) or None),
        (_statements.OF_STATUS, wanted.status),
        (" AND thread.graph = %s", None if wanted.graph is None else to_bytes(wanted.graph)),
        (" AND starts_with(id, %s)", wanted.prefix),
        (" AND strpos(folded, %s) > 0", None if wanted.title is None else folded(wanted.title)),
        (" AND updated_at >= %s", wanted.updated_after),
        (" AND updated_at < %s", wanted.updated_before),
    ):
        if value is not None:
            text += condition
            values.append(value)
    # Both columns have the thread's number. For a tenant, the order comes from the one that is indexed with the tenant.
    leading = "label.no" if wanted.tenant is not None else "thread.no"
    sign, order = ("<", " DESC") if newest_first else (">", "")
    return f"{text} AND {leading} {sign} %s ORDER BY {leading}{order} LIMIT %s", values


def inbox_text(wanted: QuestionFilter) -> tuple[str, list[Any]]:
    """Return the statement that lists open questions, and the parameters of its conditions.

    At its end the statement takes four more parameters: time, id of the thread and place of the question after
    which the page begins, and the limit. A kind that is asked for counts, even if it is one of `wanted.without`.
    """
    texts, values = list[str](), list[Any]()
    for condition, value in (
        ("q.tenant = %s", wanted.tenant),
        ("q.kind = %s", wanted.kind),
        ("q.kind <> ALL (%s::text[])", None if wanted.kind is not None else sorted(wanted.without) or None),
        ("q.graph = %s", None if wanted.graph is None else to_bytes(wanted.graph)),
        ("q.node = %s", None if wanted.node is None else to_bytes(wanted.node)),
        (
            "EXISTS (SELECT FROM {s}.label t WHERE t.no = q.no AND t.tags @> %s::text[])",
            sorted(wanted.tags) or None,
        ),
    ):
        if value is not None:
            texts.append(condition)
            values.append(value)
    columns = ", ".join(f"q.{name}" for name in _QUESTION.split(", "))
    # The limit is applied before the joins, so that only the threads of the page are read.
    page = (
        "SELECT q.* FROM {s}.question q"
        f" WHERE {' AND '.join([*texts, _AFTER])}"
        " ORDER BY q.asked_at, q.no, q.place LIMIT %s"
    )
    text = (
        f"SELECT {columns}, {_statements.HEAD_COLUMNS} FROM ({page}) q"
        " JOIN {s}.thread ON thread.no = q.no LEFT JOIN {s}.label ON label.no = q.no"
        " ORDER BY q.asked_at, q.no, q.place"
    )
    return text, values


class Searching(ABC):
    """The base class of `PostgresStore` with the methods of the protocol `Findable` in `stores.labels`."""

    _calls: Calls

    @abstractmethod
    def _head(self, thread: str) -> tuple[Head, int]:
        """Return the head, which is the summary, and the number of *thread*.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def find(
        self, wanted: ThreadFilter, *, after: str | None = None, newest_first: bool = False, limit: int | None = None
    ) -> list[Head]:
        """Return the heads of the threads that *wanted* lets pass, in order of creation.

        A page begins after the thread *after* and has at most *limit* heads; None is no limit.
        """
        most = _refusals.page_size(
            limit, updated_after=wanted.updated_after, updated_before=wanted.updated_before
        )  # -1 without a limit
        last = 2**62 if newest_first else 0  # numbers that come before all threads in the order
        if after is not None:
            last = self._head(check_id(after))[1]
        if not _fit(wanted.status, wanted.prefix, wanted.tenant, wanted.title, *wanted.tags):
            return []
        text, values = find_text(wanted, newest_first=newest_first)
        rows = self._calls.ask("find threads", text, [*values, last, None if most < 0 else most]).fetchall()  # id first
        return [_statements.to_head(row[0], row[1:]) for row in rows]

    def inbox(self, wanted: QuestionFilter, *, after: str | None = None, limit: int | None = None) -> list[Asked]:
        """Return the open questions that *wanted* lets pass, the oldest first.

        A page begins after the question with the token *after* and has at most *limit* questions; None is no limit.
        """
        most = _refusals.page_size(limit)  # -1 without a limit
        last = Position(float("-inf"), "", "") if after is None else from_token(after)  # the first is before all others
        if not _fit(wanted.kind, wanted.tenant, *wanted.tags):
            return []
        text, values = inbox_text(wanted)
        values += [last.asked_at, last.thread, to_bytes(last.place), None if most < 0 else most]
        found: list[Asked] = []
        for row in self._calls.ask("list open questions", text, values).fetchall():
            question = _question(row[:8])  # the columns of `_QUESTION`; those of the head follow, with the id first
            head = _statements.to_head(row[8], tuple(row[9:]))
            found.append(Asked(head, question, to_token(Position(question.asked_at, head.thread, question.place))))
        return found

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*, in the order of the inbox."""
        rows = self._calls.ask(f"list questions of thread {thread!r}", _QUESTIONS, [self._head(thread)[1]]).fetchall()
        return [_question(row) for row in rows]


def _question(row: Any) -> Question:
    """Return the question made of *row*, which has the columns of `_QUESTION`."""
    asked_at, expires_at, stale, kind, place, graph, node, body = row
    return Question(to_text(place), kind, to_text(node), to_text(graph), asked_at, expires_at, stale, body)


def _fit(*texts: str | None) -> bool:
    """Return whether the server accepts *texts* as parameters of the type text.

    No row can match one that it would refuse, so the result of the search is then empty.
    """
    return all(text is None or (_refusals.encodes(text) and "\0" not in text) for text in texts)
