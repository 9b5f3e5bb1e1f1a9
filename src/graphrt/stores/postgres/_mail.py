"""The SQL of a PostgreSQL store for mail: posting messages, and the parts of a commit that take and post them.

A *message* is mail to a thread, posted by a process that does not own it. A commit *takes* messages of its own thread,
which deletes them, and posts messages to others. It is one statement, whose parts read the thread's row as `it`.

A commit posts messages to threads that others may be committing to, and that may post to its own thread meanwhile. Two
such commits do not wait for each other: a commit updates no key column of its thread's row, so it holds a lock of the
strength NO KEY UPDATE, which the lock KEY SHARE of a message's sender does not conflict with. Rows are locked, and
messages inserted, in the order of the threads' numbers. What a message does wait for is the deletion of its thread; if
that waits for the sender too, the server aborts one of them, and `_calls` repeats it.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from graphrt.stores.filters import WAITING
from graphrt.stores.postgres._texts import to_bytes
from graphrt.stores.values import REMEMBERED, Commit

# The lock keeps the thread from being deleted until the message is stored, and lets its owner go on with commits.
POST: Final = (
    "INSERT INTO {s}.mail (no, id, body) SELECT no, %s, %s FROM {s}.thread WHERE thread.id = %s AND seq > 0"
    " FOR KEY SHARE ON CONFLICT (no, id) DO NOTHING"
)
FIND: Final = "SELECT m.body FROM {s}.mail m JOIN {s}.thread USING (no) WHERE thread.id = %s AND m.id = %s"

_WAITING: Final = ", ".join(f"'{status}'" for status in WAITING)
DUE_BY_MAIL: Final = (
    f"(status IN ({_WAITING}) AND EXISTS (SELECT FROM {{s}}.mail m WHERE m.no = thread.no AND m.body IS NOT NULL))"
)
"""Condition: messages wait for a thread, and make it due: a worker may drive it. In other statuses a person must act."""
MAIL_PARTS: Final = {
    # A message that was taken stays without its body: its id is remembered.
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
    # As for `post`: the lock keeps the other threads from being deleted until their messages are stored.
    "post": (
        "INSERT INTO {s}.mail (no, id, body) SELECT t.no, p.id, p.body FROM it"
        " CROSS JOIN unnest(%s::text[], %s::bytea[], %s::bytea[]) WITH ORDINALITY AS p (thread, id, body, place)"
        " JOIN {s}.thread t ON t.id = p.thread AND t.seq > 0 ORDER BY t.no, p.place FOR KEY SHARE OF t"
        " ON CONFLICT (no, id) DO NOTHING"
    ),
}
"""Statements that read the thread's row as `it`, like those of `_statements`."""


def mail_parts(commit: Commit, large: int) -> Iterator[tuple[str, list[Any], int]]:
    """Yield what *commit* does with messages, as (key of `MAIL_PARTS`, parameters, bytes of the bodies).

    Posts are split into parts of at most *large* bytes, or of one message, because the server limits a statement.
    """
    if commit.taken:  # `forget` removes old ids, and needs the places to spare those of this commit
        yield "take", [[*commit.taken]], 0
        yield "forget", [[*commit.taken]], 0
    columns = _columns()
    size = 0
    for thread, id_, body in commit.posts:
        if columns[0] and size + len(body) > large:
            yield "post", columns, size
            columns, size = _columns(), 0
        for column, value in zip(columns, (thread, to_bytes(id_), body), strict=True):
            column.append(value)
        size += len(body)
    if columns[0]:
        yield "post", columns, size


def _columns() -> list[list[Any]]:
    """Return three empty columns, for the threads, ids and bodies of messages: the arrays that `unnest` takes."""
    return [[], [], []]
