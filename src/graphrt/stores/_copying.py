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


def whole_of(store: Store, found: StoredThread) -> Whole:
    """Return the whole thread up to the entry at which it was loaded as *found*, with its currently listed questions.

    Raises:
        ConflictError: It was pruned or deleted since then. StoreError: The store failed.
    """
    return Whole(
        found.head,
        found.meta,
        found.staged,
        snapshots_of(store, found),
        list(records_of(store, found)),
        listed(store, found.head.thread),
    )


def write_thread(
    store: Store,
    to: str,
    read: Callable[[], Whole],
    blobs: Callable[[], Iterable[Mapping[str, bytes]]],
    *,
    made_at: float,
    at: float,
) -> None:
    """Write a thread under the id *to*, and remove it again on failure.

    One commit makes the thread visible, with all its entries. Its older snapshots follow in separate commits.

    Args:
        store: The store to write to.
        to: Id of the new thread.
        read: Returns the data to write. Called once, after *to* was claimed.
        blobs: Returns the blobs by name, in groups that are each written in one commit. Called after *read*.
        made_at: Creation time of *to*, in seconds since the epoch.
        at: Time of its last commit, in seconds since the epoch.

    Raises:
        InputError: *to* exists (`thread-exists`).
        StoreError: The store failed. If *to* could not be removed either, a note on the error reports it.
    """
    write_claimed(store, _claim_new(store, to, made_at), read, blobs, at=at)


def write_claimed(
    store: Store,
    claim: Claim,
    read: Callable[[], Whole],
    blobs: Callable[[], Iterable[Mapping[str, bytes]]],
    *,
    at: float,
) -> None:
    """Write the thread that was claimed by *claim*, which created it, and release it; see `write_thread`.

    Raises:
        StoreError: The store failed.
    """
    # The claim is released below, by the last commit, `release` or `_remove`.
    shown = False  # whether readers may see the thread
    try:
        found = read()
        records, snapshots = list(found.records), dict(found.snapshots)
        end, pruned = found.head.seq, found.head.first - 1  # number of the last entry, and of the last pruned one
        for body in blobs():
            store.commit(claim, Commit(expected=0, at=at, blobs=body))
        newest = max(snapshots, default=None)
        if pruned:
            # A new thread begins with entry 1, and `prune` needs a snapshot where it cuts. A placeholder record takes
            # the numbers of the entries that were pruned from the source, and is pruned below.
            records.insert(0, Record(pruned, pruned, b""))
            newest = pruned
            snapshots.setdefault(pruned, b"")
        shown = True  # set before the commit, whose outcome is unknown if it fails
        whole = Commit(
            expected=0,
            at=at,
            records=records,
            stage=found.staged,
            snapshot=None if newest is None else StoredSnapshot(newest, snapshots.pop(newest)),
            meta=found.meta,
            status=found.head.status,
            graph=found.head.graph,
            release=not pruned and not snapshots,  # `newest` was removed from `snapshots` above
            labels=labels_of(found.head),
            questions=found.questions or None,
        )
        store.commit(claim, whole)
        if pruned:
            store.prune(claim, pruned)
        for seq, saved in sorted(snapshots.items()):
            store.commit(claim, Commit(expected=end, at=at, snapshot=StoredSnapshot(seq, saved)))
        if not whole.release:
            store.release(claim)
    except BaseException as error:
        _remove(store, claim, error, seen=shown)
        raise


def labels_of(head: Head) -> Labels | None:
    """Return the labels of a thread; None if it has none."""
    found = Labels(head.title, head.tags, head.priority)
    return None if found == Labels() else found


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


def records_of(store: Store, found: StoredThread) -> Iterator[Record]:
    """Yield all records of the thread, up to the last entry of *found*, the loaded thread.

    Those after its newest snapshot are taken from *found*: they are in memory already.

    Raises:
        ConflictError: Records were pruned or deleted since *found* was loaded.
    """
    thread, end, seq = found.head.thread, found.head.seq, found.head.first - 1
    newest = found.snapshot.seq if found.snapshot is not None else seq
    older = store.records(thread, after=seq, upto=newest) if newest > seq else ()
    for record in chain(older, found.records):
        if record.seq <= seq:  # this record spans the snapshot, so it is in both
            continue
        if record.seq - record.count != seq:  # records before this one were removed in the meantime
            break
        seq = record.seq
        yield record
    if seq != end:
        raise PRUNED_WHILE_READ(thread=thread, last=seq, end=end)


def snapshots_of(store: Store, found: StoredThread) -> dict[int, bytes]:
    """Return the bodies of all snapshots of the thread, by the `seq` of their entry."""
    # The protocol cannot list snapshots, so each load finds the next older one.
    there: dict[int, bytes] = {}  # from the newest to the oldest
    saved = found.snapshot
    while saved is not None:
        there[saved.seq] = saved.body
        saved = store.load(found.head.thread, upto=saved.seq - 1).snapshot if saved.seq else None
    return there


def some_blobs(store: Store, found: StoredThread, names: Iterable[str], *, most: int = 8) -> Iterator[dict[str, bytes]]:
    """Yield the named blobs, reading at most *most* at a time, because their sizes are unknown until they are read.

    Args:
        store: The store.
        found: The thread as it was loaded, before the entries were read that name the blobs.
        names: Names of blobs.
        most: Maximum number of them in memory at once.

    Raises:
        ConflictError: One is missing, and the thread was pruned, deleted or written to since it was loaded.
        StoreError: One is missing from the thread, which did not change: it is damaged.
    """
    thread = found.head.thread
    wanted = list(names)
    for at in range(0, len(wanted), most):
        part = wanted[at : at + most]
        there = store.blobs(thread, part)
        for name in part:
            if name not in there:
                raise _without_blob(store, found, name)
        yield there


def _without_blob(store: Store, found: StoredThread, name: str) -> StoreError:
    """Return the error for a blob that is not in the thread, which was loaded as *found*."""
    thread, first, end = found.head.thread, found.head.first, found.head.seq
    try:
        now = store.head(thread)
    except InputError:  # it was deleted
        return PRUNED_WHILE_READ(thread=thread, last=0, end=end)
    if (now.first, now.seq) != (first, end):  # a prune or an erasure deleted the blob
        return PRUNED_WHILE_READ(thread=thread, last=first - 1, end=end)
    return STORE_DAMAGED(
        problem=f"A large value of thread {thread!r} is missing: {name}",
        fix="Call verify() to see what else is damaged; restore the database from a backup.",
        thread=thread,
    )
