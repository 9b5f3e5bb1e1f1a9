"""Copying a thread through the store protocol alone: for stores in which a body cannot be moved as it is.

Only the order of the steps; it needs nothing of a store but the protocol, and the names of the thread's blobs.
Until its first entries are there nobody sees a thread: so everything is written with them or before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Claim, Commit, Loaded, Record, Saved, Store

_LEASE_S: Final = 60.0


def copy_thread(store: Store, thread: str, to: str, *, at: float, blobs: Callable[[], Iterable[str]]) -> None:
    """Write everything of *thread* under the id *to*. If it fails, *to* is removed again.

    One transaction makes the copy visible, with all its entries. Snapshots of older states follow, and of a pruned
    thread the place of what went is given up.

    Args:
        blobs: Tells the names of the thread's blobs; asked after the entries were read, which name them.

    Raises:
        InputError: There is no such thread, or *to* exists (`thread-exists`).
        ConflictError: The thread was pruned or deleted meanwhile.
        StoreError: The store failed. If *to* could not be removed either, a note says so.
    """
    check_id(to)
    found = store.load(thread)
    claim = _claim_new(store, to, at)
    shown = False
    try:
        end, pruned = found.head.seq, found.head.first - 1
        snapshots = _snapshots(store, found)
        records = _records(store, found)
        for body in _some(store, thread, blobs()):
            store.commit(claim, Commit(expected=0, at=at, blobs=body))
        newest = max(snapshots, default=None)
        if pruned:
            # A thread's entries are numbered from 1: those that were pruned are stood in for, and pruned again.
            records.insert(0, Record(pruned, pruned, b""))
            newest = pruned
            snapshots.setdefault(pruned, b"")
        shown = True
        whole = Commit(
            expected=0,
            at=at,
            records=records,
            stage=found.staged,
            snapshot=None if newest is None else Saved(newest, snapshots.pop(newest)),
            meta=found.meta,
            status=found.head.status,
            graph=found.head.graph,
            release=not pruned and not snapshots,
        )
        store.commit(claim, whole)
        if pruned:
            store.prune(claim, pruned)
        for seq, saved in sorted(snapshots.items()):
            store.commit(claim, Commit(expected=end, at=at, snapshot=Saved(seq, saved)))
        if not whole.release:
            store.release(claim)
    except BaseException as error:
        _remove(store, claim, error, seen=shown)
        raise


def _remove(store: Store, claim: Claim, error: BaseException, *, seen: bool) -> None:
    """Remove what was written of a copy; if that fails and somebody may see it, *error* tells."""
    try:
        store.release(claim)
        store.delete(claim.thread)
    except InputError:
        pass  # there is nothing of it
    except StoreError as other:
        if seen:
            error.add_note(
                f"The copy {claim.thread!r} could not be removed again and may be there without older snapshots: "
                f"delete_thread({claim.thread!r}). {other.what}"
            )


def _claim_new(store: Store, to: str, at: float) -> Claim:
    try:
        claim = store.claim(to, create=True, lease_s=_LEASE_S, at=at)
    except ConflictError:
        raise _refusals.thread_exists(to) from None
    if claim.head.seq:
        store.release(claim)
        raise _refusals.thread_exists(to)
    return claim


def _records(store: Store, found: Loaded) -> list[Record]:
    """All records of the thread, up to its last entry.

    Raises:
        ConflictError: Some went meanwhile.
    """
    thread, end, seq = found.head.thread, found.head.seq, found.head.first - 1
    records: list[Record] = []
    for record in store.records(thread, after=seq, upto=end):
        if record.seq - record.count != seq:
            break
        records.append(record)
        seq = record.seq
    if seq != end:
        raise ConflictError(
            f"Thread {thread!r} was pruned or deleted while it was copied: its entries end at {seq}, not at {end}.",
            where=f"thread {thread!r}",
            fix="Copy it again.",
            thread=thread,
        )
    return records


def _snapshots(store: Store, found: Loaded) -> dict[int, bytes]:
    """All snapshots of the thread by their `seq`."""
    there: dict[int, bytes] = {}
    saved = found.snapshot
    while saved is not None:
        there[saved.seq] = saved.body
        saved = store.load(found.head.thread, upto=saved.seq - 1).snapshot if saved.seq else None
    return there


def _some(store: Store, thread: str, names: Iterable[str]) -> Iterator[dict[str, bytes]]:
    """The blobs, a few at a time: nobody knows how large they are."""
    wanted = list(names)
    for at in range(0, len(wanted), 8):
        found = store.blobs(thread, wanted[at : at + 8])
        if found:
            yield found
