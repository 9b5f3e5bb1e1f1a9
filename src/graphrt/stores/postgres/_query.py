"""The PostgreSQL dialect for the queries in `stores._sql`.

A message that a commit has taken keeps its row, without a body, so that its id is remembered. Callers' texts that may
have characters not allowed in PostgreSQL's text type are stored as bytes (`to_bytes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from graphrt.stores._checks import encodes
from graphrt.stores._sql import Sql
from graphrt.stores.filters import Filter, QuestionFilter, ThreadFilter, folded
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._schema import to_bytes, to_text
from graphrt.stores.values import Question

_ARRAYS: Final = {"graphs": "bytea[]"}
"""Types of the arrays that are not of text, by field."""


class PostgresSql(Sql):
    """The SQL of PostgreSQL; `Link.named` replaces `{s}` later."""

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
        del rare  # PostgreSQL's statistics show which tags are rare
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


def question_of(row: Any) -> Question:
    """Build a question from *row*, which has the columns `PostgresSql.question_columns`."""
    asked_at, expires_at, stale, kind, place, graph, node, body = row
    return Question(to_text(place), kind, to_text(node), to_text(graph), asked_at, expires_at, stale, body)
