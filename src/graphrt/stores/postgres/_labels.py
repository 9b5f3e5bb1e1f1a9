"""The SQL of a PostgreSQL store that writes labels and open questions, and the parts of a commit that do so.

Labels are the title, tags and tenant by which a thread is found. A commit is one statement: a first part updates the
thread's row and gives it the name `it`, and further parts, such as these, insert rows that depend on it. The texts are
joined to those of `_statements`; what searches by these rows is in `_finding`.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from typing import Any, Final

from graphrt.stores._label_rows import label_row
from graphrt.stores.ids import tenant_of
from graphrt.stores.postgres._texts import to_bytes
from graphrt.stores.values import Commit

_COLUMNS: Final = "asked_at, expires_at, stale, kind, place, graph, node, body"

LABEL_PARTS: Final = {
    "labels": (
        "INSERT INTO {s}.label (no, tenant, title, folded, tags) SELECT no, %s, %s, %s, %s::text[] FROM it"
        " ON CONFLICT (no) DO UPDATE SET title = excluded.title, folded = excluded.folded, tags = excluded.tags"
    ),
    "unlist": "DELETE FROM {s}.question q USING it WHERE q.no = it.no AND NOT q.place = ANY (%s::bytea[])",
    # A question that is listed already keeps the time at which it was listed first.
    "list": (
        f"INSERT INTO {{s}}.question (no, tenant, {_COLUMNS}) SELECT no, %s::text, q.* FROM it,"
        " unnest(%s::float8[], %s::float8[], %s::boolean[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])"
        f" AS q ({_COLUMNS}) ON CONFLICT (no, place) DO UPDATE SET expires_at = excluded.expires_at,"
        " stale = excluded.stale, kind = excluded.kind, graph = excluded.graph, node = excluded.node,"
        " body = excluded.body"
    ),
}
"""Statements that read the thread's row as `it`, like those of `_statements`. `unlist` deletes the questions that are
not open any more, and `list` inserts or updates the others."""


def label_parts(commit: Commit, thread: str) -> list[tuple[str, list[Any], int]]:
    """Return what *commit* to *thread* writes of labels and questions.

    Returns:
        0..3 tuples: key of `LABEL_PARTS`, parameters in the order of its text, bytes of the bodies among them.
    """
    parts: list[tuple[str, list[Any], int]] = []
    if commit.labels is not None:
        row = label_row(thread, commit.labels)
        # Also written if there is nothing to keep (`row` is None): it may replace labels of before.
        columns = [None] * 3 if row is None else [row.tenant, row.title, row.folded]
        parts.append(("labels", [*columns, sorted(commit.labels.tags)], 0))
    if commit.questions is not None:
        parts.append(("unlist", [[to_bytes(one.place) for one in commit.questions]], 0))
    if commit.questions:
        rows = [
            (
                one.asked_at,
                one.expires_at,
                one.stale,
                one.kind,
                to_bytes(one.place),
                to_bytes(one.graph),
                to_bytes(one.node),
                one.body,
            )
            for one in commit.questions
        ]
        listed = [list(column) for column in zip(*rows, strict=True)]  # `unnest` takes one array for each column
        parts.append(("list", [tenant_of(thread), *listed], sum(len(one.body) for one in commit.questions)))
    return parts
