"""The SQL of a PostgreSQL store that writes labels and open questions, and the parts of a commit that do so.

The texts are joined to those of `_statements`; what searches by these rows is in `_finding`.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from typing import Any, Final

from graphrt.stores._label_rows import label_row
from graphrt.stores.ids import tenant_of
from graphrt.stores.postgres._texts import to_bytes
from graphrt.stores.protocol import Commit

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
"""Statements that read the thread's row as `it`, like those of `_statements`."""

COPY_LABELS: Final = (
    "l AS (INSERT INTO {s}.label (no, tenant, title, folded, tags)"
    " SELECT it.no, %(tenant)s::text, o.title, o.folded, coalesce(o.tags, '{{}}') FROM it, f"
    " LEFT JOIN {s}.label o ON o.no = f.no WHERE o.no IS NOT NULL OR %(tenant)s::text IS NOT NULL),"
    f" q AS (INSERT INTO {{s}}.question (no, tenant, {_COLUMNS}) SELECT it.no, %(tenant)s::text,"
    f" {', '.join(f'o.{name}' for name in _COLUMNS.split(', '))} FROM it, f JOIN {{s}}.question o ON o.no = f.no)"
).replace("'{{}}'", "'{}'")
"""Parts of the statement that copies the thread `f` to `it`."""


def label_parts(commit: Commit, thread: str) -> list[tuple[str, list[Any], int]]:
    """Return what *commit* writes of labels and questions: keys of `LABEL_PARTS`, parameters, and bytes of bodies."""
    parts: list[tuple[str, list[Any], int]] = []
    if commit.labels is not None:
        row = label_row(thread, commit.labels)
        told = [None] * 3 if row is None else [row.tenant, row.title, row.folded]
        parts.append(("labels", [*told, sorted(commit.labels.tags)], 0))
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
        columns = [list(column) for column in zip(*rows, strict=True)]
        parts.append(("list", [tenant_of(thread), *columns], sum(len(one.body) for one in commit.questions)))
    return parts
