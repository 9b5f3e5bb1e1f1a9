"""SQL of the SQLite store that writes labels and open questions of threads.

    label      one row for each thread with a tenant, title or tags
    tag        one row for each tag of a thread
    question   one row for each open question

A *label* is what a thread is found by besides its id: its title, its tags, and its tenant (the customer whose thread it
is), which is part of the id. `no` is the number of a thread. Its `rank` is minus its priority. The `place` of a
question is its id within the thread. `folded` is the title without upper and lower case, which is searched.

A thread without labels and questions has no row here, and a commit that changes neither writes none. The functions run
on an open connection, inside a transaction of the caller. What searches by these rows is in `_finding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from graphrt.stores._label_rows import LabelRow, label_row, load_tags
from graphrt.stores.ids import tenant_of
from graphrt.stores.values import Labels, Question

if TYPE_CHECKING:
    from sqlite3 import Connection

_PUT_LABEL: Final = (
    "INSERT INTO label(no, tenant, title, folded, tags) VALUES (?, ?, ?, ?, ?) ON CONFLICT(no) DO UPDATE SET"
    " tenant = excluded.tenant, title = excluded.title, folded = excluded.folded, tags = excluded.tags"
)
_RANK: Final = "UPDATE thread SET rank = ? WHERE no = ? AND rank <> ?"
_FORGET_LABEL: Final = "DELETE FROM label WHERE no = ?"
_TAGS: Final = "SELECT tags FROM label WHERE no = ?"
_PUT_TAG: Final = "INSERT INTO tag(name, no) VALUES (?, ?) ON CONFLICT DO NOTHING"
_FORGET_TAG: Final = "DELETE FROM tag WHERE name = ? AND no = ?"
_FORGET_TAGS: Final = "DELETE FROM tag WHERE no = ?"
QUESTION: Final = "place, kind, node, graph, asked_at, expires_at, stale, body"
"""Columns of a question, in the order of the fields of `Question`."""
_PUT_QUESTION: Final = (
    f"INSERT INTO question(no, tenant, {QUESTION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - own names
    " ON CONFLICT(no, place) DO UPDATE SET kind = excluded.kind, node = excluded.node, graph = excluded.graph,"
    " expires_at = excluded.expires_at, stale = excluded.stale, body = excluded.body"
)
_PLACES: Final = "SELECT place FROM question WHERE no = ?"
_FORGET_QUESTION: Final = "DELETE FROM question WHERE no = ? AND place = ?"
_FORGET_QUESTIONS: Final = "DELETE FROM question WHERE no = ?"


def put_labels(db: Connection, no: int, thread: str, labels: Labels) -> None:
    """Write the labels of the thread numbered *no* with the id *thread*, in place of those that it has.

    Raises:
        ValueError, TypeError: The row of its present labels is damaged.
    """
    # `rank` is a column of `thread`, because threads that are due are listed by it.
    db.execute(_RANK, (-labels.priority, no, -labels.priority))
    old = _tags(db, no)
    row = label_row(thread, labels)  # the columns of `_PUT_LABEL` after `no`
    if row is None:  # it has no tenant, title or tags
        db.execute(_FORGET_LABEL, (no,))
    else:
        db.execute(_PUT_LABEL, (no, *row))
    for tag in old - labels.tags:  # rows of tags that stay are not written again
        db.execute(_FORGET_TAG, (tag, no))
    for tag in sorted(labels.tags - old):
        db.execute(_PUT_TAG, (tag, no))


def put_tenant(db: Connection, no: int, tenant: str) -> None:
    """Write the tenant of a thread that is created, which has no title and no tags yet. `_writing.make` calls it."""
    db.execute(_PUT_LABEL, (no, *LabelRow(tenant, None, None, None)))  # without title, folded title and tags


def _tags(db: Connection, no: int) -> frozenset[str]:
    """Return the tags of a thread from its row in `label`, which has them as JSON. The rows in `tag` serve searches.

    Raises:
        ValueError, TypeError: The row is damaged.
    """
    found = db.execute(_TAGS, (no,)).fetchall()
    return load_tags(found[0][0]) if found else frozenset()


def put_questions(db: Connection, no: int, thread: str, questions: Sequence[Question]) -> None:
    """Write all open questions of the thread numbered *no* with the id *thread*, in place of those that are listed.

    A question that is listed already keeps its `asked_at`, so that its position in the list of all questions stays.
    """
    there = {question.place for question in questions}
    for (place,) in db.execute(_PLACES, (no,)).fetchall():
        if place not in there:
            db.execute(_FORGET_QUESTION, (no, place))
    tenant = tenant_of(thread)
    for question in questions:
        db.execute(_PUT_QUESTION, (no, tenant, *question))


def forget(db: Connection, no: int) -> None:
    """Remove labels and questions of the thread numbered *no*, which is deleted."""
    try:
        for tag in _tags(db, no):
            db.execute(_FORGET_TAG, (tag, no))
    except (ValueError, TypeError):  # the row was damaged; without names, all tags of the file are searched
        db.execute(_FORGET_TAGS, (no,))
    db.execute(_FORGET_LABEL, (no,))
    db.execute(_FORGET_QUESTIONS, (no,))
