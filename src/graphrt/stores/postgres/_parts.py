"""The writes of a commit to a PostgreSQL store: changes of the thread's row, and *parts*, rows of other tables.

A commit is one statement. A first step updates the thread's row and names it `it`; then one step per part inserts rows
that depend on it. If the row does not meet the conditions, `it` is empty and nothing is written. The texts of the first
step, and the parameters in order, are in `_commit`.

A *message* is mail to a thread, posted by a process that does not own it. A commit *takes* messages of its own thread,
which deletes them, and posts messages to others. It posts to threads to which others may be committing, and which may
post to its own thread at the same time. Two such commits do not wait for each other. A commit updates no key column of
its thread's row, so it holds a lock of the strength NO KEY UPDATE, which does not conflict with the lock KEY SHARE of a
message's sender. Rows are locked, and messages inserted, in the order of the threads' numbers. A message does wait for
the deletion of its thread. If the deletion waits for the sender too, the server aborts one of them, and `_calls`
repeats it.

*Labels* are the title, tags and tenant by which a thread is found. A *record* has the journal entries of one commit.
Staged bodies (outcomes of tasks whose superstep is open) belong to a `generation` of their thread: raising it makes
older ones invalid at once.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from graphrt.stores._label_rows import label_row
from graphrt.stores._memory_items import checked_writes
from graphrt.stores.ids import tenant_of
from graphrt.stores.postgres import _memory
from graphrt.stores.postgres._schema import to_bytes
from graphrt.stores.values import REMEMBERED, Commit

CHANGES: Final = {
    "unstage": "generation = generation + 1",
    "status": "status = %s",
    "graph": "graph = %s",
    "rank": "rank = %s",
    "release": "lease_until = 'epoch'",
    "stay": "lease_until = clock_timestamp() + %s * interval '1 second'",
}
_QUESTION: Final = "asked_at, expires_at, stale, kind, place, graph, node, body"
PARTS: Final = {
    "record": "INSERT INTO {s}.record SELECT no, %s, %s, %s, %s FROM it",
    "records": (
        "INSERT INTO {s}.record SELECT no, r.* FROM it,"
        " unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[]) AS r (seq, count, body, seal)"
    ),
    # The statement cannot see rows that a concurrent commit staged after its start, so it cannot delete all of them.
    # Raising the thread's generation makes those invalid too.
    "unstage": "DELETE FROM {s}.staged s USING it WHERE s.no = it.no AND s.generation < it.generation",
    "stage": (
        "INSERT INTO {s}.staged (no, generation, key, body) SELECT no, generation, p.key, p.body FROM it,"
        " unnest(%s::bytea[], %s::bytea[]) WITH ORDINALITY AS p (key, body, place) ORDER BY p.place"
        " ON CONFLICT (no, generation, key) DO UPDATE SET body = excluded.body"
    ),
    "snapshot": (
        "INSERT INTO {s}.snapshot SELECT no, %s, %s FROM it ON CONFLICT (no, seq) DO UPDATE SET body = excluded.body"
    ),
    "blobs": (
        "INSERT INTO {s}.blob SELECT no, p.name, p.body FROM it, unnest(%s::bytea[], %s::bytea[]) AS p (name, body)"
        " ON CONFLICT (no, name) DO NOTHING"
    ),
    "meta": "INSERT INTO {s}.meta SELECT no, %s FROM it ON CONFLICT (no) DO UPDATE SET body = excluded.body",
    "tenant": "INSERT INTO {s}.label (no, tenant, tags) SELECT no, %s, '{}' FROM it",
    "labels": (
        "INSERT INTO {s}.label (no, tenant, title, folded, tags) SELECT no, %s, %s, %s, %s::text[] FROM it"
        " ON CONFLICT (no) DO UPDATE SET title = excluded.title, folded = excluded.folded, tags = excluded.tags"
    ),
    "unlist": "DELETE FROM {s}.question q USING it WHERE q.no = it.no AND NOT q.place = ANY (%s::bytea[])",
    # A question that is already listed keeps the time at which it was first listed.
    "list": (
        f"INSERT INTO {{s}}.question (no, tenant, {_QUESTION}) SELECT no, %s::text, q.* FROM it,"
        " unnest(%s::float8[], %s::float8[], %s::boolean[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])"
        f" AS q ({_QUESTION}) ON CONFLICT (no, place) DO UPDATE SET expires_at = excluded.expires_at,"
        " stale = excluded.stale, kind = excluded.kind, graph = excluded.graph, node = excluded.node,"
        " body = excluded.body"
    ),
    # A taken message stays without its body, so that its id is remembered.
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
    # As in a separate post, the lock keeps the other threads from being deleted until their messages are stored.
    "post": (
        "INSERT INTO {s}.mail (no, id, body) SELECT t.no, p.id, p.body FROM it"
        " CROSS JOIN unnest(%s::text[], %s::bytea[], %s::bytea[]) WITH ORDINALITY AS p (thread, id, body, place)"
        " JOIN {s}.thread t ON t.id = p.thread AND t.seq > 0 ORDER BY t.no, p.place FOR KEY SHARE OF t"
        " ON CONFLICT (no, id) DO NOTHING"
    ),
    "remember": _memory.REMEMBER,
    "forget_items": _memory.FORGET,
}
"""Statements that read the thread's row as `it`. `unlist` deletes the questions that are not open any more, and `list`
inserts or updates the others."""


class Part(NamedTuple):
    """A write of a commit besides the thread's row."""

    name: str
    """Key of `PARTS`."""
    values: list[Any]
    """Parameters, in the order of the text."""
    size: int
    """Bytes of the bodies among them."""


LARGE: Final = 32 * 2**20
"""Bytes of values in one statement. A larger commit uses several statements in one transaction: the server accepts at
most 1 GB, and holds several copies of a statement in memory."""


def commit_changes(commit: Commit, lease_s: float, *, release: bool) -> tuple[list[str], list[Any]]:
    """Return the keys of `CHANGES` that *commit* needs, and their parameters in the same order.

    *release* says whether it ends the claim; otherwise it renews the lease by *lease_s* seconds.
    """
    changes: list[str] = []
    values: list[Any] = []
    if commit.status is not None:
        changes.append("status")
        values.append(commit.status)
    if commit.graph is not None:
        changes.append("graph")
        values.append(to_bytes(commit.graph))
    if commit.labels is not None:
        changes.append("rank")
        values.append(-commit.labels.priority)
    if release:
        changes.append("release")
    else:
        changes.append("stay")
        values.append(lease_s)
    if commit.unstage:
        changes.append("unstage")
    return changes, values


def commit_parts(commit: Commit, thread: str) -> list[Part]:
    """Return the writes of *commit* to *thread* besides the thread's row.

    Each part is small enough for one statement, unless a single body is larger.
    """
    parts: list[Part] = []
    if len(commit.records) == 1:
        seq, count, body, seal = commit.records[0]
        parts.append(Part("record", [seq, count, body, seal], len(body)))
    else:
        parts += _bundles("records", commit.records, 2)
    # A dict, because ON CONFLICT cannot affect a row twice: a key that is staged twice keeps its first place.
    parts += _bundles("stage", ((to_bytes(key), body) for key, body in dict(commit.stage).items()), 1)
    if commit.snapshot is not None:
        parts.append(Part("snapshot", [*commit.snapshot], len(commit.snapshot.body)))
    parts += _bundles("blobs", ((to_bytes(name), body) for name, body in commit.blobs.items()), 1)
    if commit.meta is not None:
        parts.append(Part("meta", [commit.meta], len(commit.meta)))
    if commit.labels is not None or commit.questions is not None:
        parts += _label_parts(commit, thread)
    if commit.taken:  # `forget` removes old ids, and needs the places to exclude those of this commit
        parts += [Part("take", [[*commit.taken]], 0), Part("forget", [[*commit.taken]], 0)]
    parts += _bundles("post", ((to, to_bytes(id_), body) for to, id_, body in commit.posts), 2)
    if commit.memory:
        writes = checked_writes(commit.memory, commit.at)
        for name, values in (
            ("remember", _memory.columns(writes, commit.at)),
            ("forget_items", _memory.deleted(writes)),
        ):
            if values:
                parts.append(Part(name, values, sum(len(write.body or b"") for write in writes)))
    return parts


def _bundles(name: str, rows: Iterable[Sequence[Any]], body: int) -> Iterator[Part]:
    """Yield *rows* in order, in parts with the name *name* of at most `LARGE` bytes, or of one row.

    The parameters of a part are its columns, the arrays that `unnest` takes. *body* is the place of the body in a row.
    """
    bundle: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        if bundle and size + len(row[body]) > LARGE:
            yield Part(name, [list(column) for column in zip(*bundle, strict=True)], size)
            bundle, size = [], 0
        bundle.append(row)
        size += len(row[body])
    if bundle:
        yield Part(name, [list(column) for column in zip(*bundle, strict=True)], size)


def _label_parts(commit: Commit, thread: str) -> Iterator[Part]:
    """Yield the label and question rows that *commit* writes to *thread*."""
    if commit.labels is not None:
        row = label_row(thread, commit.labels)
        # Also written if there are no labels (`row` is None), because it may replace earlier ones.
        columns = [None] * 3 if row is None else [row.tenant, row.title, row.folded]
        yield Part("labels", [*columns, sorted(commit.labels.tags)], 0)
    if commit.questions is not None:
        yield Part("unlist", [[to_bytes(question.place) for question in commit.questions]], 0)
        rows = [
            (
                question.asked_at,
                question.expires_at,
                question.stale,
                question.kind,
                *map(to_bytes, (question.place, question.graph, question.node)),
                question.body,
            )
            for question in commit.questions
        ]
        for listed in _bundles("list", rows, 7):
            yield listed._replace(values=[tenant_of(thread), *listed.values])
