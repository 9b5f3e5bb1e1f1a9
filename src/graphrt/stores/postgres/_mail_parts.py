"""The SQL of a PostgreSQL store for the part of a commit that takes letters, which is joined to that of `_statements`."""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from typing import Final

from graphrt.stores.mail import REMEMBERED

MAIL_PARTS: Final = {
    # A letter that was taken stays without its body: its id is remembered.
    "take": (
        "UPDATE {s}.mail m SET body = NULL FROM it"
        " WHERE m.no = it.no AND m.body IS NOT NULL AND m.place = ANY (%s::bigint[])"
    ),
    # The statement does not see what the part before writes, so the rows of this commit are left out by their place.
    "forget": (
        "DELETE FROM {s}.mail m USING it WHERE m.no = it.no AND m.body IS NULL AND NOT m.place = ANY (%s::bigint[])"
        " AND m.place <= (SELECT o.place FROM {s}.mail o WHERE o.no = it.no AND o.body IS NULL"
        f" ORDER BY o.place DESC LIMIT 1 OFFSET {REMEMBERED})"
    ),
}
"""Statements that read the thread's row as `it`, like those of `_statements`."""
