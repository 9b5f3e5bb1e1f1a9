"""Reading and writing a whole thread through the store protocol, for copies, exports and imports.

A thread becomes visible with its first entry. Blobs are therefore written before it, in commits without records. One
commit then writes the records, the newest snapshot, meta and staged bodies, so that no reader sees half of a thread.

This module only orders these steps, without file formats or SQL. It serves copies, imports of exported threads, and
threads restored from an audit log.

Terms: a *record* has the journal entries of one commit, `seq` is the number of an entry, and a *snapshot* is the state
after an entry. *Staged* bodies are outcomes of tasks whose superstep is not committed yet. *Meta* are facts about the
thread as a whole. *Blobs* are large values under names derived from their content. A *claim* is the right to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.errors._codes.threads import PRUNED_WHILE_READ, THREAD_EXISTS
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit, Head, Labels, Question, Record, StoredSnapshot, StoredThread

_LEASE_S: Final = 60.0
"""Seconds of the lease on the new thread; each of its commits renews it."""


class Whole(NamedTuple):
    """All stored data of a thread, except its blobs."""

    head: Head
    meta: Any
    staged: Sequence[tuple[str, Any]]
    """(key, body) in the order of staging."""
    snapshots: dict[int, Any]
    """Bodies of all snapshots, by the `seq` of their entry."""
    records: list[Record]
    """All records, in order."""
    questions: Sequence[Question] = ()
    """The open questions, as listed."""


def whole_of(store: Store, loaded: StoredThread) -> Whole:
    """Return the whole thread up to the last entry of *loaded*, with its currently listed questions.

    Raises:
        ConflictError: It was pruned or deleted since then. StoreError: The store failed.
    """
    return Whole(
        loaded.head,
        loaded.meta,
        loaded.staged,
        snapshots_of(store, loaded),
        list(records_of(store, loaded)),
        listed(store, loaded.head.thread),
    )


def write_thread(
    store: Store,
    to: str,
    read: Callable[[], Whole],
    blobs: Callable[[], Iterable[Mapping[str, bytes]]],
    *,
    made_at: float,
) -> None:
    """Write a thread under the id *to*, and remove it again on failure.

    One commit makes the thread visible, with all its entries. Its older snapshots follow in separate commits.

    Args:
        store: The store to write to.
        to: Id of the new thread.
        read: Returns the data to write. Called once, after *to* was claimed.
        blobs: Returns the blobs by name, in groups that are each written in one commit. Called after *read*.
        made_at: Creation time of *to*, in seconds since the epoch.

    Raises:
        InputError: *to* exists (`thread-exists`).
        StoreError: The store failed. If *to* could not be removed either, a note on the error reports it.
    """
    write_claimed(store, _claim_new(store, to, made_at), read, blobs)


def write_claimed(
    store: Store,
    claim: Claim,
    read: Callable[[], Whole],
    blobs: Callable[[], Iterable[Mapping[str, bytes]]],
) -> None:
    """Write the thread that was claimed by *claim*, which created it, and release it; see `write_thread`.

    Raises:
        StoreError: The store failed.
    """
    # The claim is released below, by the last commit, `release` or `_remove`.
    is_visible = False  # whether readers may see the thread
    try:
        source = read()
        at = source.head.updated_at
        records, snapshots = list(source.records), dict(source.snapshots)
        end, pruned = source.head.seq, source.head.first - 1  # number of the last entry, and of the last pruned one
        for body in blobs():
            store.commit(claim, Commit(expected=0, at=at, blobs=body))
        newest = max(snapshots, default=None)
        if pruned:
            # A new thread begins with entry 1, and `prune` needs a snapshot where it cuts. A placeholder record takes
            # the numbers of the entries that were pruned from the source, and is pruned below.
            records.insert(0, Record(pruned, pruned, b""))
            newest = pruned
            snapshots.setdefault(pruned, b"")
        is_visible = True  # set before the commit, whose outcome is unknown if it fails
        commit = Commit(
            expected=0,
            at=at,
            records=records,
            stage=source.staged,
            snapshot=None if newest is None else StoredSnapshot(newest, snapshots.pop(newest)),
            meta=source.meta,
            status=source.head.status,
            graph=source.head.graph,
            release=not pruned and not snapshots,  # `newest` was removed from `snapshots` above
            labels=labels_of(source.head),
            questions=source.questions or None,
        )
        store.commit(claim, commit)
        if pruned:
            store.prune(claim, pruned)
        for seq, saved in sorted(snapshots.items()):
            store.commit(claim, Commit(expected=end, at=at, snapshot=StoredSnapshot(seq, saved)))
        if not commit.release:
            store.release(claim)
    except BaseException as error:
        _remove(store, claim, error, seen=is_visible)
        raise


def labels_of(head: Head) -> Labels | None:
    """Return the labels of a thread; None if it has none."""
    labels = Labels(head.title, head.tags, head.priority)
    return None if labels == Labels() else labels


def listed(store: Store, thread: str) -> Sequence[Question]:
    """Return the open questions of *thread*; none if the store does not list questions."""
    return store.questions(thread) if "labels" in store.offers else ()


def _remove(store: Store, claim: Claim, error: BaseException, *, seen: bool) -> None:
    """Remove the incomplete copy after *error*. If that fails, add a note to *error*.

    No note is added if readers cannot have *seen* the copy: it has no entries, and disappears with its claim.
    """
    try:
        store.release(claim)
        if not isinstance(error, ConflictError):  # otherwise another owner has the thread, or created one with this id
            store.delete(claim.thread)
    except InputError:
        pass  # `release` deletes a thread without entries itself
    except StoreError as other:
        if seen:
            error.add_note(
                f"What was written of thread {claim.thread!r} could not be removed again and may be there without older snapshots: "
                f"delete_thread({claim.thread!r}). {other.what}"
            )


def _claim_new(store: Store, to: str, at: float) -> Claim:
    """Create the thread *to*, with the creation time *at*, and return the claim on it.

    Raises:
        InputError: It exists (`thread-exists`).
    """
    try:
        claim = store.claim(to, create=True, lease_s=_LEASE_S, at=at)
    except ConflictError:
        raise THREAD_EXISTS(thread=to) from None
    if claim.head.seq:  # the claim did not create it
        store.release(claim)
        raise THREAD_EXISTS(thread=to)
    return claim


def records_of(store: Store, loaded: StoredThread) -> Iterator[Record]:
    """Yield all records of the thread, up to the last entry of *loaded*.

    Those after its newest snapshot are taken from *loaded*: they are in memory already.

    Raises:
        ConflictError: Records were pruned or deleted since *loaded* was loaded.
    """
    thread, end, seq = loaded.head.thread, loaded.head.seq, loaded.head.first - 1
    newest = loaded.snapshot.seq if loaded.snapshot is not None else seq
    older = store.records(thread, after=seq, upto=newest) if newest > seq else ()
    for record in chain(older, loaded.records):
        if record.seq <= seq:  # this record spans the snapshot, so it is in both
            continue
        if record.seq - record.count != seq:  # records before this one were removed in the meantime
            break
        seq = record.seq
        yield record
    if seq != end:
        raise PRUNED_WHILE_READ(thread=thread, last=seq, end=end)


def snapshots_of(store: Store, loaded: StoredThread) -> dict[int, bytes]:
    """Return the bodies of all snapshots of the thread, by the `seq` of their entry."""
    # The protocol cannot list snapshots, so each load finds the next older one.
    bodies: dict[int, bytes] = {}  # from the newest to the oldest
    saved = loaded.snapshot
    while saved is not None:
        bodies[saved.seq] = saved.body
        saved = store.load(loaded.head.thread, upto=saved.seq - 1).snapshot if saved.seq else None
    return bodies


def some_blobs(
    store: Store, loaded: StoredThread, names: Iterable[str], *, most: int = 8
) -> Iterator[dict[str, bytes]]:
    """Yield the named blobs, reading at most *most* at a time, because their sizes are unknown until they are read.

    Args:
        store: The store.
        loaded: The thread as it was loaded, before the entries were read that name the blobs.
        names: Names of blobs.
        most: Maximum number of them in memory at once.

    Raises:
        ConflictError: One is missing, and the thread was pruned, deleted or written to since it was loaded.
        StoreError: One is missing from the thread, which did not change: it is damaged.
    """
    thread = loaded.head.thread
    all_names = list(names)
    for at in range(0, len(all_names), most):
        chunk = all_names[at : at + most]
        bodies = store.blobs(thread, chunk)
        for name in chunk:
            if name not in bodies:
                raise _without_blob(store, loaded, name)
        yield bodies


def _without_blob(store: Store, loaded: StoredThread, name: str) -> StoreError:
    """Return the error for a blob that is missing from the thread *loaded*."""
    thread, first, end = loaded.head.thread, loaded.head.first, loaded.head.seq
    try:
        current = store.head(thread)
    except InputError:  # it was deleted
        return PRUNED_WHILE_READ(thread=thread, last=0, end=end)
    if (current.first, current.seq) != (first, end):  # a prune or an erasure deleted the blob
        return PRUNED_WHILE_READ(thread=thread, last=first - 1, end=end)
    return STORE_DAMAGED(
        problem=f"A large value of thread {thread!r} is missing: {name}",
        fix="Call verify() to see what else is damaged; restore the database from a backup.",
        thread=thread,
    )
