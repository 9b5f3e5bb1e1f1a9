"""The SQL of a PostgreSQL store: constant texts, in which `Link.named` replaces `{s}` by the quoted name of the schema.

This module has the texts with the order of their parameters, and converts rows to values. It runs nothing.

A *claim* is the right to write a thread; its number is its *epoch*. `token` is the random number of a row's last
change, and `fence` a number that a commit must find in the row. `rank` is minus the priority. Staged bodies (outcomes
of tasks whose superstep is open) belong to a `generation` of their thread: raising it makes older ones invalid at once.
A *record* has the journal entries of one commit: `seq` is the number of the last one, `count` their number.

A statement that changes a thread locks the thread's row first, so that the writers of a thread wait for each other.
Under READ COMMITTED, the conditions on the row are evaluated again once the lock is granted. No stronger isolation
level is therefore needed.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from graphrt.stores._label_rows import load_tags
from graphrt.stores.filters import WAITING
from graphrt.stores.ids import tenant_of
from graphrt.stores.postgres._parts import CHANGES, PARTS
from graphrt.stores.postgres._schema import to_text
from graphrt.stores.values import KEPT_S, Head, Record, StoredSnapshot, StoredThread

LIVES: Final = (
    "(lease_until > clock_timestamp() AND (backend_pid IS NULL OR EXISTS ("
    "SELECT FROM pg_stat_get_activity(backend_pid) a"
    " WHERE coalesce((extract(epoch FROM a.backend_start) * 1000000)::bigint = thread.backend_start, true))))"
)
"""Condition: the thread has a living owner. Its lease runs, and the backend of its owner exists, if one is stored.

The start time distinguishes the owner's backend from a later one with the same pid. For a role that may not see start
times, any backend with that pid counts as the owner's."""

HEAD_COLUMNS: Final = f"id, seq, epoch, status, thread.graph, created_at, updated_at, {LIVES}, first, title, tags, rank"
FROM: Final = "{s}.thread LEFT JOIN {s}.label ON label.no = thread.no"
HEAD: Final = f"SELECT {HEAD_COLUMNS}, thread.no FROM {FROM} WHERE id = %s"
IDENTITY: Final = (
    "SELECT pg_backend_pid(), (extract(epoch FROM backend_start) * 1000000)::bigint"
    " FROM pg_stat_get_activity(pg_backend_pid())"
)

# `clock_timestamp()` and not `now()`: the latter stands still from the start of a transaction. A claim that is released
# gets the lease end 'epoch' (1970), so that `lease_until` alone shows a released claim, too.
_GONE: Final = (
    "(backend_pid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_stat_get_activity(backend_pid) a"
    " WHERE coalesce((extract(epoch FROM a.backend_start) * 1000000)::bigint = thread.backend_start, true)))"
)
"""Condition: the last stored owner is known to be dead."""
_AFTER_EXPIRY: Final = " (an owner before it lost the lease)"
"""End of the name of a holder that took the thread over from an owner which may still be running."""
_IN_DOUBT: Final = (
    f"(lease_until > 'epoch' AND (right(holder, {len(_AFTER_EXPIRY)}) = '{_AFTER_EXPIRY}' OR NOT {_GONE}))"
)
"""Condition: the thread was not released, and an owner that lost it may still be running."""
_LABELS: Final = ", ".join(f"(SELECT {one} FROM {{s}}.label WHERE label.no = thread.no)" for one in ("title", "tags"))
_FORMER: Final = (
    f"CASE WHEN {_IN_DOUBT} THEN 'lease-expired' WHEN lease_until > 'epoch' THEN 'dead' ELSE 'released' END"
)
LOOK: Final = (
    f"SELECT no, seq, epoch, status, graph, created_at, updated_at, first, {_LABELS}, rank, {_FORMER}, token, {LIVES},"
    " holder, extract(epoch FROM held_since)::float8, extract(epoch FROM lease_until - clock_timestamp())::float8"
    " FROM {s}.thread WHERE id = %s"
)
"""The row of a thread for `claim`: its head, how its last owner lost it, and who holds it."""
LOCK: Final = "SELECT no FROM {s}.thread WHERE id = %s FOR UPDATE"
LOCK_MANY: Final = "SELECT id FROM {s}.thread WHERE id = ANY(%s) ORDER BY no FOR UPDATE"
_WAITING: Final = ", ".join(f"'{status}'" for status in WAITING)
DUE_BY_MAIL: Final = (
    f"(status IN ({_WAITING}) AND EXISTS (SELECT FROM {{s}}.mail m WHERE m.no = thread.no AND m.body IS NOT NULL))"
)
"""Condition: messages wait for a thread, and make it due: a worker may drive it. In other statuses a person must act."""
FREE_OF: Final = (
    f"SELECT no, id FROM {{s}}.thread WHERE id = ANY(%(ids)s) AND seq > 0 AND NOT {LIVES}"
    f" AND (%(before)s::float8 IS NULL OR (updated_at < %(before)s AND NOT {DUE_BY_MAIL})) ORDER BY no"
)
SEE: Final = (
    f"SELECT seq, epoch, token, {LIVES}, holder, extract(epoch FROM held_since)::float8,"
    " extract(epoch FROM lease_until - clock_timestamp())::float8 FROM {s}.thread WHERE no = %s"
)
STRAYS: Final = " UNION ALL ".join(
    f"(SELECT '{what}', string_agg(no::text, ', ') FROM (SELECT DISTINCT no FROM {{s}}.{table} t"
    " WHERE NOT EXISTS (SELECT FROM {s}.thread WHERE thread.no = t.no) ORDER BY no LIMIT 20) AS stray HAVING count(*) > 0)"
    for what, table in (
        ("records", "record"),
        ("staged bodies", "staged"),
        ("snapshots", "snapshot"),
        ("large values", "blob"),
        ("metas", "meta"),
        ("labels", "label"),
        ("questions", "question"),
        ("messages", "mail"),
    )
)
BLOB_NAMES: Final = "SELECT b.name FROM {s}.blob b JOIN {s}.thread USING (no) WHERE thread.id = %s"
# The list of backends is cached from the first access in a transaction, even while it waits for a lock.
LOOK_AGAIN: Final = "SELECT pg_stat_clear_snapshot()"
LOCK_CLAIM: Final = (
    "SELECT first FROM {s}.thread WHERE no = %s AND epoch = %s AND lease_until > clock_timestamp() FOR UPDATE"
)
RENEW: Final = (
    "UPDATE {s}.thread SET lease_until = clock_timestamp() + v.lease_s * interval '1 second'"
    " FROM unnest(%s::bigint[], %s::bigint[], %s::float8[]) AS v (no, epoch, lease_s)"
    " WHERE thread.no = v.no AND thread.epoch = v.epoch AND thread.lease_until > clock_timestamp()"
)
REHOUSE: Final = (
    "UPDATE {s}.thread SET backend_pid = %s, backend_start = %s FROM unnest(%s::bigint[], %s::bigint[]) AS v (no, epoch)"
    " WHERE thread.no = v.no AND thread.epoch = v.epoch AND thread.lease_until > clock_timestamp()"
)
RELEASE_DOUBTFUL: Final = "UPDATE {s}.thread SET lease_until = 'epoch' WHERE id = %s AND token = ANY(%s)"
RELEASE: Final = "UPDATE {s}.thread SET lease_until = 'epoch' WHERE no = %s AND epoch = %s AND seq > 0"
LOCK_EMPTY: Final = "SELECT no FROM {s}.thread WHERE no = %s AND epoch = %s AND seq = 0 FOR UPDATE"
# FORGET deletes a thread with all its rows; FENCE blocks a statement of a lost connection (see `_commit`).
FORGET: Final = (
    "WITH a AS (DELETE FROM {s}.record WHERE no = %(no)s), b AS (DELETE FROM {s}.staged WHERE no = %(no)s),"
    " c AS (DELETE FROM {s}.snapshot WHERE no = %(no)s), d AS (DELETE FROM {s}.blob WHERE no = %(no)s),"
    " e AS (DELETE FROM {s}.meta WHERE no = %(no)s), f AS (DELETE FROM {s}.label WHERE no = %(no)s),"
    " g AS (DELETE FROM {s}.question WHERE no = %(no)s), h AS (DELETE FROM {s}.mail WHERE no = %(no)s)"
    " DELETE FROM {s}.thread WHERE no = %(no)s"
)
STANDS: Final = "SELECT epoch, seq, token, fence, lease_until > clock_timestamp(), holder FROM {s}.thread WHERE no = %s"
FENCE: Final = (
    "UPDATE {s}.thread SET fence = fence + 1 WHERE no = %s AND epoch = %s RETURNING token, fence, seq,"
    " (SELECT body FROM {s}.record r WHERE r.no = thread.no AND r.seq = %s)"
)

# The lock keeps the thread from being deleted until the message is stored, without blocking its owner's commits.
POST: Final = (
    "INSERT INTO {s}.mail (no, id, body) SELECT no, %s, %s FROM {s}.thread WHERE thread.id = %s AND seq > 0"
    " FOR KEY SHARE ON CONFLICT (no, id) DO NOTHING"
)
FIND_MESSAGE: Final = "SELECT m.body FROM {s}.mail m JOIN {s}.thread USING (no) WHERE thread.id = %s AND m.id = %s"

_TAKE: Final = (
    "UPDATE {s}.thread SET seq = %s, updated_at = %s, token = %s, CHANGES"
    " WHERE no = %s AND epoch = %s AND seq = %s AND fence = %s AND lease_until > clock_timestamp()"
    " RETURNING no, generation"
)
# The first commit under a claim also stores the claim, on an existing or a new thread.
_TAKE_FREE: Final = (
    "UPDATE {s}.thread SET seq = %s, updated_at = %s, token = %s, CHANGES, epoch = epoch + 1, fence = 0,"
    f" holder = %s || CASE WHEN {_IN_DOUBT} THEN '{_AFTER_EXPIRY}' ELSE '' END,"
    " backend_pid = %s, backend_start = %s, held_since = clock_timestamp()"
    f" WHERE no = %s AND epoch = %s AND seq = %s AND (NOT {LIVES} OR token = ANY (%s::bigint[]))"
    " RETURNING no, generation"
)
_MAKE: Final = (
    "INSERT INTO {s}.thread (id, seq, updated_at, token, created_at, epoch, holder, backend_pid, backend_start,"
    " first, generation, fence, held_since, COLUMNS) VALUES"
    " (%s, %s, %s, %s, %s, %s, %s, %s, %s, 1, 0, 0, clock_timestamp(), VALUES_OF)"
    " ON CONFLICT (id) DO NOTHING RETURNING no, generation"
)
FIRST: Final = (
    "SELECT no, token, epoch, seq, holder, (SELECT body FROM {s}.record r WHERE r.no = thread.no AND r.seq = %s)"
    " FROM {s}.thread WHERE id = %s"
)
"""The state of the thread, for a first commit after a lost connection or in a race with another owner."""
_TAKEN: Final = "SELECT no, generation FROM {s}.thread WHERE no = %s"


def commit_text(parts: Iterable[str]) -> str:
    """Return the statement that updates the thread's row and writes *parts*: keys of `CHANGES` and `PARTS`, in order.

    It returns one row, or none if the thread's row does not meet the conditions. Nothing is written then.
    """
    parts = list(parts)
    changes = ", ".join(CHANGES[part] for part in parts if part in CHANGES)
    return _text(_TAKE.replace("CHANGES", changes), parts)


def first_text(parts: Iterable[str], *, new: bool) -> str:
    """Return the statement that stores a claim and writes *parts*, like `commit_text`; *new* creates the thread."""
    parts = list(parts)
    changes = [CHANGES[part] for part in parts if part in CHANGES]
    if not new:
        return _text(_TAKE_FREE.replace("CHANGES", ", ".join(changes)), parts)
    # A new thread has nothing staged. Each other change is "column = value".
    pairs = [change.split(" = ", 1) for change in changes if not change.startswith("generation")]
    pairs += [[column, value] for column, value in (("status", "'new'"), ("graph", "''")) if column not in dict(pairs)]
    insertion = _MAKE.replace("COLUMNS", ", ".join(column for column, _ in pairs))
    return _text(insertion.replace("VALUES_OF", ", ".join(value for _, value in pairs)), parts)


def next_text(part: str) -> str:
    """Return a further statement for *part*, in a transaction that already holds the lock on the thread's row."""
    return _text(_TAKEN, [part])


def _text(row_text: str, parts: Iterable[str]) -> str:
    """Return the statement that begins with *row_text*, which returns the thread's row, and writes *parts*."""
    # All parts read `it`, the thread's row. If it is empty, they write nothing: the commit is whole or nothing. A part
    # runs although no statement reads it. `unstage` is in `CHANGES` and in `PARTS`; other changes are not parts.
    steps = [f"it AS ({row_text})"]
    steps += [f"p{n} AS ({PARTS[part]})" for n, part in enumerate(parts) if part in PARTS]
    return f"WITH {', '.join(steps)} SELECT no FROM it"


_UPTO: Final = (
    " AND r.seq - r.count < %(upto)s AND r.seq <= coalesce((SELECT e.seq FROM {s}.record e"
    " WHERE e.no = t.no AND e.seq >= %(upto)s ORDER BY e.seq LIMIT 1), %(upto)s)"
)


def load_text(*, upto: bool, after: bool) -> str:
    """Return the statement that loads a thread. It is a single statement, so that all rows are from one snapshot.

    The first column is the kind of the row: h(ead), l(abels), m(eta), n(ewest snapshot), r(ecord) or s(taged body). All
    rows have the columns of the head. The last column is the position among the rows of the kind; of the head it is the
    rank. `to_loaded` sorts by it: the server would write large bodies to its disk for a sort.

    Args:
        upto: Whether the statement has a parameter `upto`, the last entry of the state to load.
        after: Whether it has a parameter `after`: no snapshot is read, and only the records after this entry.
    """
    before = " AND s.seq <= %(upto)s" if upto else ""
    if after:
        before += " AND false"
    return (
        "WITH t AS (SELECT * FROM {s}.thread WHERE id = %(id)s), n AS (SELECT s.seq, s.body FROM t JOIN {s}.snapshot s"
        f" ON s.no = t.no{before} ORDER BY s.seq DESC LIMIT 1)"
        " SELECT 'h' AS kind, seq, epoch, status, graph, created_at, updated_at,"
        f" {LIVES.replace('thread.', 't.')}, first, NULL::bytea AS seal, rank::bigint AS place FROM t"
        " UNION ALL SELECT 'm', 0, 0, '', m.body, 0, 0, false, 0, NULL, 0 FROM t JOIN {s}.meta m ON m.no = t.no"
        " UNION ALL SELECT 'n', seq, 0, '', body, 0, 0, false, 0, NULL, 0 FROM n"
        " UNION ALL SELECT 'r', r.seq, r.count, '', r.body, 0, 0, false, 0, r.seal, r.seq FROM t JOIN {s}.record r"
        f" ON r.no = t.no AND r.seq > {'%(after)s' if after else 'coalesce((SELECT seq FROM n), 0)'}{_UPTO if upto else ''}"
        " UNION ALL SELECT 'l', 0, 0, title, convert_to(array_to_json(tags)::text, 'UTF8'), 0, 0, false, 0, NULL, 0"
        " FROM t JOIN {s}.label ON label.no = t.no"
        " UNION ALL SELECT 's', 0, 0, encode(s.key, 'hex'), s.body, 0, 0, false, 0, NULL, s.place"
        " FROM t JOIN {s}.staged s ON s.no = t.no AND s.generation = t.generation"
        f"{' WHERE t.seq <= %(upto)s' if upto else ''}"
    )


# A page ends after 1,000 records or about 4 MiB of bodies; its first record is always included.
PAGE: Final = (
    "SELECT seq, count, body, seal FROM (SELECT r.*, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body)"
    " AS before FROM {s}.record r WHERE no = %s AND seq > %s ORDER BY seq LIMIT 1000) p WHERE before < 4194304"
    " ORDER BY seq"
)
BLOBS: Final = (
    "SELECT b.name, b.body FROM {s}.thread t JOIN {s}.blob b ON b.no = t.no"
    " WHERE t.id = %s AND b.name = ANY (%s::bytea[])"
)
PRUNE: Final = (
    "WITH a AS (DELETE FROM {s}.record WHERE no = %(no)s AND seq <= %(upto)s RETURNING seq),"
    " b AS (DELETE FROM {s}.snapshot WHERE no = %(no)s AND seq < %(upto)s),"
    " c AS (DELETE FROM {s}.blob WHERE no = %(no)s AND %(keep)s::bytea[] IS NOT NULL"
    " AND NOT name = ANY (%(keep)s::bytea[]))"
    " UPDATE {s}.thread SET first = coalesce((SELECT max(seq) + 1 FROM a), first) WHERE no = %(no)s RETURNING first"
)
SNAPSHOTS: Final = "SELECT seq FROM {s}.snapshot WHERE no = %s ORDER BY seq"
REPLACE_RECORD: Final = "UPDATE {s}.record SET body = %s, seal = %s WHERE no = %s AND seq = %s AND count = %s"
REMOVE_REPEATED: Final = (
    "WITH a AS (DELETE FROM {s}.snapshot WHERE no = %(no)s AND seq > %(after)s),"
    # A commit that ends a superstep raises the thread's generation, which makes the staged rows of older ones invalid.
    # Such rows, which a concurrent commit may have left, are removed as well.
    " b AS (DELETE FROM {s}.staged s USING {s}.thread t WHERE s.no = %(no)s AND t.no = s.no"
    " AND s.generation < t.generation)"
    " DELETE FROM {s}.blob WHERE no = %(no)s AND NOT name = ANY (%(keep)s::bytea[])"
)

# Schedules. If several workers move one, only the first finds the old time.
INSERT_SCHEDULE: Final = (
    "INSERT INTO {s}.schedule (name, graph, version, due_at, body) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (name) DO NOTHING"
)
REPLACE_SCHEDULE: Final = (
    "UPDATE {s}.schedule SET graph = %s, version = %s, due_at = %s, body = %s WHERE name = %s AND version = %s"
)
MOVE_SCHEDULE: Final = "UPDATE {s}.schedule SET due_at = %s WHERE name = %s AND version = %s AND due_at = %s"
DELETE_SCHEDULE: Final = "DELETE FROM {s}.schedule WHERE name = %s"


# Live items.
_OLD: Final = f"clock_timestamp() - {KEPT_S:.0f} * interval '1 second'"
# In the order of the threads, so that two processes with the same threads do not deadlock.
FOLLOW: Final = (
    f"WITH a AS (DELETE FROM {{s}}.live_batch AS l WHERE at < {_OLD}"
    " AND NOT EXISTS (SELECT FROM {s}.live_follower AS f WHERE f.thread = l.thread)),"
    f" b AS (DELETE FROM {{s}}.live_follower WHERE until < {_OLD} AND thread <> ALL (%(threads)s::text[])),"
    " c AS (INSERT INTO {s}.live_follower AS f (thread, until)"
    " SELECT thread, clock_timestamp() + %(for_s)s * interval '1 second' FROM unnest(%(threads)s::text[]) AS thread"
    ' ORDER BY thread COLLATE "C"'
    " ON CONFLICT (thread) DO UPDATE SET until = greatest(f.until, excluded.until))"
    " SELECT k.thread, (SELECT coalesce(max(place), 0) FROM {s}.live_batch AS l WHERE l.thread = k.thread)"
    " FROM unnest(%(threads)s::text[]) AS k (thread)"
)
RELAY: Final = (
    "WITH c AS (DELETE FROM {s}.live_batch AS l USING unnest(%(threads)s::text[], %(forgets)s::bigint[])"
    " AS k (thread, place) WHERE l.thread = k.thread AND l.place <= k.place)"
    " INSERT INTO {s}.live_batch (thread, id, body) SELECT k.thread, k.id, k.body"
    " FROM unnest(%(threads)s::text[], %(ids)s::bytea[], %(bodies)s::bytea[]) WITH ORDINALITY AS k (thread, id, body, n)"
    " ORDER BY k.n RETURNING place"
)
RELAYED: Final = "SELECT place, id, body FROM {s}.live_batch WHERE thread = %s AND place > %s ORDER BY place LIMIT %s"
FORGET_LIVE: Final = "DELETE FROM {s}.live_batch WHERE thread = ANY (%s::text[])"
NEWS: Final = (
    "SELECT k.thread FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k (thread, seq, place)"
    " LEFT JOIN {s}.thread AS t ON t.id = k.thread"
    " WHERE t.seq IS DISTINCT FROM k.seq OR k.seq = 0 OR EXISTS"
    " (SELECT FROM {s}.live_batch AS l WHERE l.thread = k.thread AND l.place > k.place)"
)
FOLLOWED: Final = (
    "SELECT thread FROM {s}.live_follower WHERE thread = ANY (%(threads)s::text[]) AND thread > %(after)s"
    " AND until > clock_timestamp() ORDER BY thread LIMIT %(most)s"
)


def to_head(thread: str, row: tuple[Any, ...]) -> Head:
    """Return the head, the summary of *thread*, made of *row*.

    Its columns are seq, epoch, status, graph, created_at, updated_at, owned, first, title, tags and rank.
    """
    seq, epoch, status, graph, created_at, updated_at, owned, first, title, tags, rank = row
    head = Head(thread, seq, epoch, status, to_text(graph), created_at, updated_at, owned, first)
    tenant = tenant_of(thread)
    if tenant is None and title is None and not tags and not rank:
        return head
    return head._replace(tenant=tenant, title=title, tags=frozenset(tags or ()), priority=-rank)


def to_loaded(thread: str, rows: list[tuple[Any, ...]]) -> StoredThread | None:
    """Return the thread made of *rows*, the result of `load_text`; None if there is no such thread. Sorts *rows*."""
    head: Head | None = None
    meta: bytes | None = None
    labels: tuple[str | None, frozenset[str]] | None = None
    snapshot: StoredSnapshot | None = None
    records: list[Record] = []
    staged: list[tuple[str, bytes]] = []
    rows.sort(key=lambda row: row[-1])
    # `middle` has the columns that only the head needs. `key` is the status of "h" and the title of "l", `body` the
    # graph of "h" and the tags of "l".
    for kind, seq, count, key, body, *middle, seal, place in rows:
        match kind:
            case "r":
                records.append(Record(seq, count, body, seal))
            case "s":
                staged.append((to_text(bytes.fromhex(key)), body))
            case "n":
                snapshot = StoredSnapshot(seq, body)
            case "m":
                meta = body
            case "l":
                labels = (key, load_tags(body.decode()))
            case _:  # "h"; its labels, two Nones here, come from the row "l"
                head = to_head(thread, (seq, count, key, body, *middle, None, None, place))
    if head is not None and labels is not None:
        head = head._replace(title=labels[0], tags=labels[1])
    return None if head is None else StoredThread(head, meta, snapshot, records, staged)
