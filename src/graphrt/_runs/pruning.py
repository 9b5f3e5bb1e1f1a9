"""Pruning: removes old entries of a thread, and large values that nothing refers to any more.

A stored snapshot replaces the removed entries and is then the only copy of their result. So nothing is removed until
the snapshot has been read back from the store, in the way that a resume reads it, and has given the same state.

In a chained thread, a record may *vouch* for a snapshot by a digest of its bytes (decision 0044).

`begun` returns an empty fold with the verdict on the thread's graph, and `start_from` starts it at a snapshot. The path
of an event is empty for the top graph, and otherwise names a nested graph.

The order of the steps makes an interrupted prune harmless: write the snapshot, read it back, journal `HistoryPruned`,
remove the entries. Pruning again completes an interrupted prune. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import emit_events
from graphrt._engine.emit_events import Logged
from graphrt._engine.questions import journalled
from graphrt._engine.snapshot_data import saved
from graphrt._engine.storability import state_not_storable
from graphrt._engine.task import DONE, HANDLED
from graphrt._journal.batch_format import blob_names, digest, encode_state
from graphrt._journal.body import Body, Names
from graphrt._journal.leases import give_back, take
from graphrt._journal.reader import WORLD
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._journal.thread_fold import Fold
from graphrt._plan.fields import ABSENT
from graphrt._runs.arguments import check_number
from graphrt._runs.deep_equal import alike
from graphrt._runs.forking import journal_of, standing_of
from graphrt._runs.labels import labelled, labels_of_head
from graphrt._runs.loading import begun, folded, start_from, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.errors import GraphrtError, StoreError
from graphrt.errors._codes.threads import SNAPSHOT_NOT_AS_WRITTEN
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit, Labels, StoredSnapshot, StoredThread

if TYPE_CHECKING:
    from graphrt._codec import Codec


_CLOSED: Final = (events.SuperstepCommitted, events.ThreadForked, events.RunCompleted)
"""Events after which no superstep is open. An edit (`ThreadUpdated`) says whether one is."""


def prune(config: RunConfig, thread: str, *, before: int | None) -> int:
    """Remove the entries up to the last commit before the entry *before*, and return how many were removed.

    See `Runtime.prune`.

    Args:
        before: Number of an entry; None removes every entry that the current state does not need.

    Raises:
        InputError: There is no such thread.
        ConflictError: Another run drives the thread.
        StoreError: The store failed, or did not return the data that was written. Then nothing was removed.
    """
    check_id(thread)
    check_number("before", before)
    store = the_store(config)
    # The thread is claimed, so no run writes to it.
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        loaded = store.load(thread)
        upto, announced, edited = _last_commit(config, store, loaded, before)
        # Not for a failed thread, whose error is in an entry, or one whose run was cut off.
        if edited and before is None and loaded.head.status in ("interrupted", "cancelled"):
            reopened = folded(config, loaded)
            if reopened.migrated is None:
                return _with_open_superstep(config, store, claim, loaded, reopened)
        if upto is None or upto < loaded.head.first:
            return 0
        # *current* is the thread in its current state, *base* the thread as it was after the last entry to remove.
        current = folded(config, loaded)
        # No migration: the snapshot has to fit the entries after it, which the older graph wrote.
        older = store.load(thread, upto=upto)
        base = folded(config, older, upto=upto, adopt=False)
        # Keep an existing snapshot byte for byte: a record may hold the digest of these bytes (decision 0044).
        if older.snapshot is not None and older.snapshot.seq == upto:
            snapshot = older.snapshot.body
        else:
            snapshot, blobs = _snapshot(base)
            _check_written(config, loaded, base, snapshot, blobs)
            store.commit(
                claim,
                Commit(
                    expected=loaded.head.seq, at=config.clock(), snapshot=StoredSnapshot(upto, snapshot), blobs=blobs
                ),
            )
        _read_back(config, store, base, current)
        # If the current graph differs from the one that wrote the thread, `folded` has migrated the values, and the
        # next entry must record that first.
        news: list[Logged] = [("", current.migrated)] if current.migrated is not None else []
        labels = labels_of_head(loaded.head)
        if labels != Labels():  # the entry that set them may be among the removed ones
            news.append(("", labelled(config, labels)))
        if not announced:  # journalled before the removal, since missing entries would otherwise look like damage
            news.append(("", events.HistoryPruned(upto=upto)))
        if news:
            journal = journal_of(config, store, current, ThreadCommits(store, claim))
            # The next record vouches for the snapshot that the thread then begins with.
            journal.saved = (upto, digest(snapshot))
            journal.write(news)
        return store.prune(claim, upto, keep_blobs=_needed(store, thread, upto))
    finally:
        give_back(store, claim)


def _with_open_superstep(config: RunConfig, store: Store, claim: Claim, loaded: StoredThread, fold: Fold) -> int:
    """Remove all entries of a thread whose open superstep was edited, and return how many were removed.

    The entries since the last commit contain the values that the edits replaced, and a snapshot cannot hold an open
    superstep. So the snapshot has the edited state, and the record after it journals the questions of the open
    superstep again, like the first record of a fork. Both are written in one commit, so that the questions are never
    missing.

    Args:
        fold: The thread in its current state, not migrated.
    """
    upto = fold.seq
    before = folded(config, loaded)  # to compare with: the journal continues with the names and the chain of *fold*
    snapshot, blobs = _snapshot(fold)
    _check_written(config, loaded, fold, snapshot, blobs)
    news: list[Logged] = []
    labels = labels_of_head(loaded.head)
    if labels != Labels():
        news.append(("", labelled(config, labels)))
    news += [("", events.HistoryPruned(upto=upto)), *(("", event) for event in journalled(fold.engine, usage=True))]
    # Data of unfinished tasks in the entries is also staged. The rows of finished tasks are complete.
    open_tasks = [task for task in fold.engine.tasks if task.status not in (DONE, HANDLED)]
    staged = [(task.id, emit_events.standing(fold.engine, task)) for task in open_tasks]
    journal = journal_of(config, store, fold, ThreadCommits(store, claim))
    journal.write(news, staged, below=(StoredSnapshot(upto, snapshot), blobs))
    snapshot_read = folded(config, store.load(loaded.head.thread, upto=upto), upto=upto, adopt=False)
    _compare(before, snapshot_read)
    current_read = folded(config, store.load(loaded.head.thread))
    if _open_questions(current_read) != _open_questions(before):
        raise _not_kept(before, "its questions differ")
    return store.prune(claim, upto, keep_blobs=_needed(store, loaded.head.thread, upto))


def _open_questions(fold: Fold) -> list[tuple[Any, ...]]:
    """Return the parts of the open questions that a person sees."""
    return [
        (question.id, question.kind, question.stale, question.version, question.payload)
        for question in fold.engine.open_interrupts()
    ]


def _last_commit(
    config: RunConfig, store: Store, loaded: StoredThread, before: int | None
) -> tuple[int | None, bool, bool]:
    """Return the last entry that a snapshot can replace, and whether a `HistoryPruned` entry for it already exists.

    Such an entry ends a record after which no superstep is open; None if there is none. The second value is true after
    a prune that was interrupted before the removal. The third is whether an open superstep was edited after that entry.

    Args:
        before: Only an entry before this one; None for no limit.
    """
    end = loaded.head.seq + 1 if before is None else before
    fold, _ = begun(config, loaded)
    last: int | None = None
    announced: set[int] = set()
    edited = False
    for record in store.records(loaded.head.thread, after=loaded.head.first - 1):
        path, event = list(fold.reader.batch(record).logged)[-1]
        if isinstance(event, events.HistoryPruned):
            announced.add(event.upto)
        if record.seq >= end:
            continue  # not `break`: a `HistoryPruned` comes after the entries that it refers to
        if not path and (isinstance(event, _CLOSED) or (isinstance(event, events.ThreadUpdated) and not event.open)):
            last, edited = record.seq, False
        else:
            edited = edited or isinstance(event, events.ThreadUpdated)
    return last, last in announced, edited


def _snapshot(fold: Fold) -> tuple[bytes, dict[str, bytes]]:
    """Return the snapshot of *fold*, encoded, and the large values it refers to.

    Raises:
        UpdateError: A part of the result of a reducer, which is not checked when it is made (R7), cannot be stored.
    """
    body = Body(fold.engine.plan.codec, Names())
    try:
        return encode_state(body, _everything(fold)), body.blobs
    except NotStorable as error:
        raise state_not_storable(fold.engine, error, "prune") from error


def _everything(fold: Fold) -> events.StateSaved:
    """Return everything that the fold knows, as the event that a snapshot stores.

    Besides the state, this is the status and last run, the entry that causes the next one, the names (of nodes and
    fields) that entries refer to by number, and the digests from which the chain continues. Only names introduced by
    the entries up to here are included (`accounted` counts them).
    """
    return replace(
        standing_of(fold, saved(fold.engine), fold.status),
        cause=fold.cause,
        names=tuple(fold.reader.names.known[: fold.reader.names.accounted]),
        digests=fold.chain.saved() if fold.chain is not None else {},
    )


# -- nothing is removed before it was read back ------------------------------------------------------------------------


def _check_written(
    config: RunConfig, loaded: StoredThread, base: Fold, snapshot: bytes, blobs: dict[str, bytes]
) -> None:
    """Check before storing the snapshot that it decodes to *base* using only its own *blobs*.

    Other blobs of the thread do not count, since those of the removed entries are deleted.

    Raises:
        StoreError: It does not.
    """
    fold, _ = begun(config, loaded)
    fold.reader.only(blobs)  # it takes large values from these, not from the store
    try:
        start_from(fold, StoredSnapshot(base.seq, snapshot))
    except GraphrtError as error:
        raise _not_kept(base, "the snapshot cannot be read") from error
    _compare(base, fold)


def _read_back(config: RunConfig, store: Store, base: Fold, current: Fold) -> None:
    """Load the thread as a resume would, at the snapshot and at its end, and compare both with *base* and *current*.

    Raises:
        StoreError: They differ, or cannot be read.
    """
    thread, upto = base.reader.thread, base.seq
    loaded = store.load(thread, upto=upto)
    if loaded.snapshot is None or loaded.snapshot.seq != upto:
        raise _not_kept(base, "the snapshot is not there")
    try:
        base_read = folded(config, loaded, upto=upto, adopt=False)
        current_read = folded(config, store.load(thread))
    except GraphrtError as error:
        if isinstance(error, StoreError) and error.code in WORLD:
            raise  # the store cannot be reached, which says nothing about the snapshot
        raise _not_kept(base, "the thread cannot be read with it") from error
    _compare(base, base_read)
    _compare(current, current_read)


def _compare(written: Fold, read: Fold) -> None:
    """Check that the fold behind the snapshot and the one read back hold the same data.

    Raises:
        StoreError: A field differs.
    """
    written_facts, read_facts = dict(_facts(_everything(written))), dict(_facts(_everything(read)))
    codec = written.engine.plan.codec
    for place in dict.fromkeys((*written_facts, *read_facts)):
        (value, is_users), (other, _) = written_facts.get(place, _MISSING), read_facts.get(place, _MISSING)
        if not (_same(codec, value, other) if is_users and other is not ABSENT else value == other):
            raise _not_kept(written, f"its {place[0]} differ")


_MISSING: Final = (ABSENT, False)  # what one of two snapshots lacks


def _facts(saved: Any, *prefix: Any) -> Iterator[tuple[tuple[Any, ...], tuple[Any, bool]]]:
    """Yield the parts of *saved*, each as (place, (value, whether it is a value of the user's)).

    For an exception only its presence counts: an unregistered class is read back as a stand-in.

    Args:
        saved: A `StateSaved`, or one of the events and records that are parts of it.
        prefix: The place of *saved*.
    """
    for field in fields(saved):
        place, value = (*prefix, field.name), getattr(saved, field.name)
        match field.name:
            case "values" | "sends" | "args":
                yield from (((*place, name), (part, True)) for name, part in value.items())
            case "signals":  # (id, name, value)
                yield place, ([signal[:2] for signal in value], False)
                yield from (((*place, at), (signal[2], True)) for at, signal in enumerate(value))
            case "arg":
                yield place, (value, True)
            case "errors" | "exception":
                yield place, (sorted(value) if field.name == "errors" else value is not None, False)
            case "handled" | "held":
                parts = value.items() if field.name == "handled" else [(0, value)]
                for at, ended in parts:
                    for nth, part in enumerate(ended):
                        yield from _facts(part, *place, at, nth)
            case _:
                yield place, (value, False)


def _same(codec: Codec, value: Any, other: Any) -> bool:
    """Return whether two values are equal by their bytes or by `==` (`alike`, for which a NaN equals a NaN).

    Objects of a class without `__eq__` have only their bytes.
    """
    return codec.dump(value) == codec.dump(other) or alike(value, other)


def _not_kept(fold: Fold, reason: str) -> StoreError:
    """Return the error for a snapshot that the store did not return as written; nothing has been removed."""
    return SNAPSHOT_NOT_AS_WRITTEN(seq=fold.seq, thread=fold.reader.thread, why=reason)


# -- large values ------------------------------------------------------------------------------------------------------


def _needed(store: Store, thread: str, upto: int) -> set[str]:
    """Return the names of the large values that the thread still needs without the entries up to *upto*.

    These are the ones that the meta, staged bodies, later entries, and the snapshots from *upto* on refer to. The
    caller holds the claim, so no reference is added meanwhile (R12).
    """
    loaded = store.load(thread)
    needed = blob_names(loaded.meta or b"")
    for _, body in loaded.staged:
        needed |= blob_names(body)
    for record in store.records(thread, after=upto):
        needed |= blob_names(record.body)
    snapshot = loaded.snapshot
    while snapshot is not None and snapshot.seq >= upto:
        needed |= blob_names(snapshot.body)
        snapshot = store.load(thread, upto=snapshot.seq - 1).snapshot
    return needed
