"""Writes threads to a SQLite file: the statements of claims, commits, prunes, erasures and deletions.

All functions run on an open connection, inside a transaction of the caller. `advance` checks the claim; the others rely
on their callers for that.

A thread has a number, `no`, and its entries are numbered by `seq` from 1. A *record* is the stored form of the entries
of one commit; its key is `no * SPAN` + the number of its last entry. A *part* is any other value of a thread, by kind
and name: a snapshot, the meta, a blob (a large value), a message, or a *staged* body, which is kept until a later commit
deletes it. `place` orders staged bodies and messages. A *message* is mail of a thread, which waits until a commit of
the thread's owner takes it; then only its id is kept, so that the same message is not accepted again.

A *claim* is the right to write a thread, until its *lease* ends without renewal. `epoch` is its number, and `turn`
counts the commits under it: a row with another epoch, or a lease that has ended, belongs to another claim or to none.

    label      one row for each thread with a tenant, title or tags
    tag        one row for each tag of a thread
    question   one row for each open question

A *label* is what a thread is found by besides its id: its title, its tags, and its tenant (the customer whose thread it
is), which is part of the id. Its `rank` is minus its priority. The `place` of a question is its id within the thread.
`folded` is the title without upper and lower case, which is searched. A thread without labels and questions has no row
in these tables, and a commit that changes neither writes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from graphrt.errors._codes.databases import TOO_MANY_THREADS
from graphrt.stores._label_rows import LabelRow, label_row, load_tags
from graphrt.stores.ids import tenant_of
from graphrt.stores.sqlite import _memory as memory
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._reading import NAMES, PLACE, Row
from graphrt.stores.sqlite._schema import BLOB, MAIL, META, SNAPSHOT, SPAN, STAGED, TAKEN, THREADS
from graphrt.stores.values import REMEMBERED, Claim, Commit, Former, Head, Labels, Question, Record

if TYPE_CHECKING:
    from sqlite3 import Connection

# The first commit under a claim also stores the claim. A new thread's first claim has epoch 1.
_MAKE: Final = (
    "INSERT INTO thread(id, seq, first, epoch, turn, status, graph, created_at, updated_at, lease, owner)"
    " VALUES (?, ?, 1, 1, 1, ?, ?, ?, ?, ?, ?)"
)
_TAKE: Final = (
    "UPDATE thread SET seq = ?, epoch = epoch + 1, turn = 1, updated_at = ?, lease = ?, owner = ?,"
    " status = coalesce(?, status), graph = coalesce(?, graph) WHERE no = ? AND seq = ? AND epoch = ?"
)
# A commit's conditions are in the WHERE clause: a void claim or another position changes no row. Most commits change
# neither status nor graph, and use the shorter statement.
_STEP: Final = (
    "UPDATE thread SET seq = ?, turn = turn + 1, updated_at = ?, lease = ?"
    " WHERE no = ? AND seq = ? AND epoch = ? AND lease > ?"
)
_TURN: Final = (
    "UPDATE thread SET seq = ?, turn = turn + 1, updated_at = ?, lease = ?, status = coalesce(?, status),"
    " graph = coalesce(?, graph) WHERE no = ? AND seq = ? AND epoch = ? AND lease > ?"
)
_RENEW: Final = "UPDATE thread SET lease = ? WHERE no = ? AND epoch = ? AND lease > ?"
_FREE: Final = "UPDATE thread SET lease = NULL, owner = NULL WHERE no = ? AND epoch = ?"
_APPEND: Final = "INSERT INTO record(key, count, body, seal) VALUES (?, ?, ?, ?)"
_REPLACE: Final = "UPDATE record SET body = ?, seal = ? WHERE key = ? AND count = ?"
_UNSTAGE: Final = "DELETE FROM part WHERE no = ? AND kind = ?"
_PUT: Final = (
    "INSERT INTO part(no, kind, name, place, body) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT(no, kind, name) DO UPDATE SET body = excluded.body"
)
# An existing blob stays, because its name is derived from its content.
_KEEP: Final = (
    "INSERT INTO part(no, kind, name, place, body) VALUES (?, ?, ?, 0, ?) ON CONFLICT(no, kind, name) DO NOTHING"
)

_NUMBER: Final = "SELECT no FROM thread WHERE id = ? AND seq > 0"
_MESSAGE: Final = f"SELECT 1 FROM part WHERE no = ? AND kind IN ({MAIL}, {TAKEN}) AND name = ?"  # noqa: S608 - own names
_LAST_MESSAGE: Final = f"SELECT coalesce(max(place), 0) FROM part WHERE no = ? AND kind IN ({MAIL}, {TAKEN})"  # noqa: S608
_POST: Final = "INSERT INTO part(no, kind, name, place, body) VALUES (?, ?, ?, ?, ?)"
_TAKE_MESSAGE: Final = f"UPDATE part SET kind = {TAKEN}, body = x'' WHERE no = ? AND kind = {MAIL} AND place = ?"  # noqa: S608
# The ids of the last taken messages (`REMEMBERED`) stay.
_TAKEN: Final = f"FROM part WHERE no = :no AND kind = {TAKEN}"
_FORGET_TAKEN: Final = (
    f"DELETE {_TAKEN} AND place <= (SELECT place {_TAKEN} ORDER BY place DESC LIMIT 1 OFFSET {REMEMBERED})"
)

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
QUESTION_COLUMNS: Final = "place, kind, node, graph, asked_at, expires_at, stale, body"
"""Columns of a question, in the order of the fields of `Question`."""
_PUT_QUESTION: Final = (
    f"INSERT INTO question(no, tenant, {QUESTION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - own names
    " ON CONFLICT(no, place) DO UPDATE SET kind = excluded.kind, node = excluded.node, graph = excluded.graph,"
    " expires_at = excluded.expires_at, stale = excluded.stale, body = excluded.body"
)
_PLACES: Final = "SELECT place FROM question WHERE no = ?"
_FORGET_QUESTION: Final = "DELETE FROM question WHERE no = ? AND place = ?"
_FORGET_QUESTIONS: Final = "DELETE FROM question WHERE no = ?"


class SqliteClaim(Claim):
    """A claim on a thread of a SQLite file, with a cache of data that only its holder can change.

    Args:
        head: The thread's summary at the time of the claim.
        lease_s: Seconds that the lease lasts after the claim, and after each commit or renewal.
        no: The thread's number; 0 for a new thread, until its row is made.
        token: Token of the owner.
        staged: The place of the next body to stage.
        former: How the previous owner lost the thread.
    """

    __slots__ = ("is_stored", "no", "staged", "token", "turn", "until_s", "was_tried")

    def __init__(self, head: Head, lease_s: float, no: int, token: str, staged: int, former: Former) -> None:
        super().__init__(head, lease_s, former)
        self.no = no
        """The thread's number."""
        self.token = token
        """Token of the owner: the store object that the claim comes from."""
        self.turn = 0
        """Number of commits under this claim, compared with the row's to find out whether a commit was stored."""
        self.staged = staged
        """The place of the next body to stage; 0 if none is staged."""
        self.is_stored = False
        """Whether a commit has stored the claim. Until then it is reserved, up to `until_s`."""
        self.was_tried = False
        """Whether a commit was attempted, so that the claim may be stored."""
        self.until_s = 0.0
        """End of the reservation, by the clock of leases."""


def make(db: Connection, claim: SqliteClaim, commit: Commit, seq: int, until_s: float, owner: str) -> int:
    """Create the thread of *claim*, claimed for the first time and at the entry *seq*, and return its number.

    Like `take`, this begins the first commit under a claim; `put` then writes what it contains.

    Args:
        db: The connection.
        claim: The claim, whose head has id and creation time.
        commit: The commit.
        seq: Its last entry; 0 for none.
        until_s: The end of the lease, by the clock of leases.
        owner: The owner (as JSON).

    Raises:
        StoreError: The file has had as many threads as it can number.
    """
    thread, at = claim.thread, claim.head.created_at
    values = (thread, seq, commit.status or "new", commit.graph or "", at, commit.at, until_s, owner)
    no = db.execute(_MAKE, values).lastrowid
    if no is None or no > THREADS:  # the error rolls the transaction back
        raise TOO_MANY_THREADS(most=THREADS)
    tenant = tenant_of(thread)  # the tenant is part of the id; its row lets searches find the thread
    if tenant is not None:
        put_tenant(db, no, tenant)
    return no


def take(db: Connection, claim: SqliteClaim, commit: Commit, seq: int, until_s: float, owner: str) -> bool:
    """Give the thread of *claim* to *owner* (as JSON), with a lease up to *until_s*, and set its last entry to *seq*.

    Returns:
        False if the thread is gone, another claim came in between, or the last entry is not the one that *commit*
        expects. Nothing was changed then.
    """
    values = (seq, commit.at, until_s, owner, commit.status, commit.graph, claim.no, commit.expected, claim.epoch - 1)
    return db.execute(_TAKE, values).rowcount == 1


def advance(db: Connection, claim: SqliteClaim, commit: Commit, seq: int, now_s: float) -> bool:
    """Set the thread's last entry to *seq*, and renew the lease. *now_s* is the time by the clock of leases.

    A commit begins with this. `put` then writes what it contains.

    Returns:
        False if the claim is void, or the last entry is not the one that *commit* expects. Nothing was changed then.
    """
    condition = (claim.no, commit.expected, claim.epoch, now_s)
    if commit.status is None and commit.graph is None:
        cursor = db.execute(_STEP, (seq, commit.at, now_s + claim.lease_s, *condition))
    else:
        cursor = db.execute(_TURN, (seq, commit.at, now_s + claim.lease_s, commit.status, commit.graph, *condition))
    return cursor.rowcount == 1


def put(db: Connection, claim: SqliteClaim, commit: Commit) -> int:  # noqa: C901 - one step for each part of a commit
    """Write the records and parts of *commit*. Returns the place of the next body to stage."""
    no, place = claim.no, claim.staged
    for record in commit.records:
        db.execute(_APPEND, (no * SPAN + record.seq, record.count, record.body, record.seal))
    if commit.unstage and place:  # with place 0 nothing is staged, and the statement is saved
        db.execute(_UNSTAGE, (no, STAGED))
        place = 0
    for key, body in commit.stage:
        db.execute(_PUT, (no, STAGED, key, place, body))
        place += 1  # a key that is staged already keeps its place, and leaves a gap here
    if commit.snapshot is not None:
        db.execute(_PUT, (no, SNAPSHOT, commit.snapshot.seq, 0, commit.snapshot.body))
    if commit.blobs:
        for name, body in commit.blobs.items():
            db.execute(_KEEP, (no, BLOB, name, body))
    if commit.meta is not None:
        db.execute(_PUT, (no, META, 0, 0, commit.meta))
    if commit.labels is not None:
        put_labels(db, no, claim.thread, commit.labels)
    if commit.questions is not None:
        put_questions(db, no, claim.thread, commit.questions)
    if commit.taken or commit.posts:
        put_messages(db, no, commit)
    if commit.memory:
        memory.write(db, commit.memory, commit.at)
    if commit.release:
        free(db, claim)
    return place


def post_message(db: Connection, thread: str, id: str, body: bytes) -> tuple[bool, int]:
    """Store a message to *thread*, unless there was one with this id. Used by `post` and for the messages of a commit.

    Returns:
        Whether it is kept, and the thread's number: 0 if there is no such thread, or it has no entries.
    """
    row = db.execute(_NUMBER, (thread,)).fetchone()
    if row is None:
        return False, 0
    no = int(row[0])
    if message_is_there(db, no, id):
        return False, no
    ((last_place,),) = PLACE.checked(db.execute(_LAST_MESSAGE, (no,)).fetchall())
    db.execute(_POST, (no, MAIL, id, last_place + 1, body))
    return True, no


def message_is_there(db: Connection, no: int, id: str) -> bool:
    """Return whether the thread numbered *no* has the message *id*, or had it before and remembers it."""
    return db.execute(_MESSAGE, (no, id)).fetchone() is not None


def put_messages(db: Connection, no: int, commit: Commit) -> None:
    """Delete the messages that *commit* takes from the thread numbered *no*, remember their ids, and post its own."""
    for place in commit.taken:
        db.execute(_TAKE_MESSAGE, (no, place))
    if commit.taken:
        db.execute(_FORGET_TAKEN, {"no": no})
    # Messages to other threads. If the thread does not exist, `post` raises, but here the message is dropped, so that
    # the commit does not fail.
    for thread, id_, body in commit.posts:
        post_message(db, thread, id_, body)


def replace(db: Connection, no: int, record: Record) -> bool:
    """Replace body and seal of a stored record, when values are erased. Return False if there is no such record."""
    key = no * SPAN + record.seq
    return db.execute(_REPLACE, (record.body, record.seal, key, record.count)).rowcount == 1


def renew(db: Connection, claim: SqliteClaim, now_s: float) -> None:
    """Restart the lease of *claim* at *now_s*, unless the claim is void."""
    db.execute(_RENEW, (now_s + claim.lease_s, claim.no, claim.epoch, now_s))


def free(db: Connection, claim: SqliteClaim) -> None:
    """Release the thread if *claim* is its newest, and delete the thread if it has no entries."""
    row = reading.row_by_no(db, claim.no)
    # If two claims with one epoch were reserved at the same time, at most one was stored: its token is there.
    if row is None or row.epoch != claim.epoch or claim.token not in (row.owner or ""):
        return
    if row.seq:
        db.execute(_FREE, (claim.no, claim.epoch))
    else:
        forget(db, claim.no)


def landed(db: Connection, claim: SqliteClaim, commit: Commit, seq: int) -> bool | None:
    """Return whether *commit*, whose outcome is unknown, is stored. *seq* is its last entry.

    While the claim is the newest one, the number of commits in the row decides: it is one more than the claim has
    counted. After another claim, the last record of *commit* decides; without records, the answer is unknown (None).
    """
    row = reading.row_by_no(db, claim.no)
    if row is None:  # releasing a thread without entries removes it
        return commit.release and not seq
    # The first commit stores the claim. Another owner may have stored one with the same epoch; it has another token.
    if row.epoch == claim.epoch and (claim.is_stored or claim.token in (row.owner or "")):
        return row.turn == claim.turn + 1
    if not commit.records:
        return None
    last = commit.records[-1]
    return reading.record_at(db, claim.no, seq) == (last.body, last.seal)


def forget(db: Connection, no: int) -> None:
    """Remove the thread with all its stored data."""
    _forget_labels(db, no)
    db.execute("DELETE FROM record WHERE key > ? AND key < ?", (no * SPAN, (no + 1) * SPAN))
    db.execute("DELETE FROM part WHERE no = ?", (no,))
    db.execute("DELETE FROM thread WHERE no = ?", (no,))


def prune(db: Connection, row: Row, upto: int, keep: set[str] | None) -> int:
    """Remove the snapshots before *upto* and the records up to *upto*.

    Args:
        db: The connection.
        row: The thread's row.
        upto: Number of an entry that has a snapshot.
        keep: Names of the blobs to keep; None: all.

    Returns:
        The number of the oldest entry that is left.
    """
    base = row.no * SPAN
    last = db.execute("SELECT max(key) FROM record WHERE key > ? AND key <= ?", (base, base + upto)).fetchall()[0][0]
    first = row.first if last is None else int(last) - base + 1  # no such record: the start is unchanged
    db.execute("DELETE FROM record WHERE key > ? AND key <= ?", (base, base + upto))
    db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name < ?", (row.no, SNAPSHOT, upto))
    db.execute("UPDATE thread SET first = ? WHERE no = ?", (first, row.no))
    if keep is not None:
        _remove_blobs(db, row.no, keep)
    return first


def remove_repeated(db: Connection, no: int, snapshots_after: int, keep: set[str]) -> None:
    """Remove the snapshots of entries after *snapshots_after*, and the blobs that are not named in *keep*.

    These may contain copies of erased values; the caller replaces the records.
    """
    db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name > ?", (no, SNAPSHOT, snapshots_after))
    _remove_blobs(db, no, keep)


def _remove_blobs(db: Connection, no: int, keep: set[str]) -> None:
    """Remove the blobs of the thread numbered *no* that are not named in *keep*."""
    for (name,) in db.execute(NAMES, (no, BLOB)).fetchall():
        if name not in keep:
            db.execute("DELETE FROM part WHERE no = ? AND kind = ? AND name = ?", (no, BLOB, name))


def put_labels(db: Connection, no: int, thread: str, labels: Labels) -> None:
    """Write the labels of the thread numbered *no* with the id *thread*, in place of those that it has.

    Raises:
        ValueError, TypeError: The row of its present labels is damaged.
    """
    # `rank` is a column of `thread`, because threads that are due are listed by it.
    db.execute(_RANK, (-labels.priority, no, -labels.priority))
    old_tags = _tags(db, no)
    row = label_row(thread, labels)  # the columns of `_PUT_LABEL` after `no`
    if row is None:  # it has no tenant, title or tags
        db.execute(_FORGET_LABEL, (no,))
    else:
        db.execute(_PUT_LABEL, (no, *row))
    for tag in old_tags - labels.tags:  # rows of unchanged tags are not rewritten
        db.execute(_FORGET_TAG, (tag, no))
    for tag in sorted(labels.tags - old_tags):
        db.execute(_PUT_TAG, (tag, no))


def put_tenant(db: Connection, no: int, tenant: str) -> None:
    """Write the tenant of a thread that is created, which has no title and no tags yet. `_writing.make` calls it."""
    db.execute(_PUT_LABEL, (no, *LabelRow(tenant, None, None, None)))  # without title, folded title and tags


def _tags(db: Connection, no: int) -> frozenset[str]:
    """Return the tags of a thread from its row in `label`, which has them as JSON. The rows in `tag` serve searches.

    Raises:
        ValueError, TypeError: The row is damaged.
    """
    rows = db.execute(_TAGS, (no,)).fetchall()
    return load_tags(rows[0][0]) if rows else frozenset()


def put_questions(db: Connection, no: int, thread: str, questions: Sequence[Question]) -> None:
    """Write all open questions of the thread numbered *no* with the id *thread*, in place of those that are listed.

    A question that is listed already keeps its `asked_at`, so that its position in the list of all questions stays.
    """
    open_places = {question.place for question in questions}
    for (place,) in db.execute(_PLACES, (no,)).fetchall():
        if place not in open_places:
            db.execute(_FORGET_QUESTION, (no, place))
    tenant = tenant_of(thread)
    for question in questions:
        db.execute(_PUT_QUESTION, (no, tenant, *question))


def _forget_labels(db: Connection, no: int) -> None:
    """Remove labels and questions of the thread numbered *no*, which is deleted."""
    try:
        for tag in _tags(db, no):
            db.execute(_FORGET_TAG, (tag, no))
    except (ValueError, TypeError):  # the row was damaged; without names, all tags of the file are searched
        db.execute(_FORGET_TAGS, (no,))
    db.execute(_FORGET_LABEL, (no,))
    db.execute(_FORGET_QUESTIONS, (no,))
