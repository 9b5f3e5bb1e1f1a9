"""A whole thread read and written through the store protocol alone: copied, exported to a file, imported from one.

Only the order of the steps; it needs nothing of a store but the protocol, and the names of the thread's blobs.
Until its first entries are there nobody sees a thread: so everything is written with them or before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Claim, Commit, Head, Loaded, Record, Saved, Store

_LEASE_S: Final = 60.0


class Whole(NamedTuple):
    """Everything of a thread but its large values."""

    head: Head
    meta: Any
    staged: Sequence[tuple[str, Any]]
    snapshots: dict[int, Any]
    records: list[Record]


def copy_thread(store: Store, thread: str, to: str, *, at: float, blobs: Callable[[], Iterable[str]]) -> None:
    """Write everything of *thread* under the id *to*. If it fails, *to* is removed again.

    Args:
        blobs: Tells the names of the thread's blobs; asked after the entries were read, which name them.

    Raises:
        InputError: There is no such thread, or *to* exists (`thread-exists`).
        ConflictError: The thread was pruned or deleted meanwhile.
        StoreError: The store failed. If *to* could not be removed either, a note says so.
    """
    check_id(to)
    found = store.load(thread)

    def read() -> Whole:
        return Whole(found.head, found.meta, found.staged, snapshots_of(store, found), list(records_of(store, found)))

    write_thread(store, to, read, lambda: some_blobs(store, thread, blobs()), made_at=at, at=at)


def write_thread(
    store: Store,
    to: str,
    read: Callable[[], Whole],
    blobs: Callable[[], Iterable[Mapping[str, bytes]]],
    *,
    made_at: float,
    at: float,
) -> None:
    """Write a thread under the id *to*. If it fails, *to* is removed again.

    One transaction makes it visible, with all its entries. Snapshots of older states follow, and of a pruned
    thread the place of what went is given up.

    Args:
        read: Tells what to write, once *to* is claimed.
        blobs: Tells its large values after that, a few at a time.

    Raises:
        InputError: *to* exists (`thread-exists`).
        StoreError: The store failed. If *to* could not be removed either, a note says so.
    """
    claim = _claim_new(store, to, made_at)
    shown = False
    try:
        found = read()
        records, snapshots = list(found.records), dict(found.snapshots)
        end, pruned = found.head.seq, found.head.first - 1
        for body in blobs():
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
                f"What was written of thread {claim.thread!r} could not be removed again and may be there without older snapshots: "
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


def records_of(store: Store, found: Loaded) -> Iterator[Record]:
    """All records of the thread, up to its last entry.

    Raises:
        ConflictError: Some went meanwhile.
    """
    thread, end, seq = found.head.thread, found.head.seq, found.head.first - 1
    for record in store.records(thread, after=seq, upto=end):
        if record.seq - record.count != seq:
            break
        seq = record.seq
        yield record
    if seq != end:
        raise ConflictError(
            f"Thread {thread!r} was pruned or deleted while it was read: its entries end at {seq}, not at {end}.",
            where=f"thread {thread!r}",
            fix="Try again.",
            thread=thread,
        )


def snapshots_of(store: Store, found: Loaded) -> dict[int, bytes]:
    """All snapshots of the thread by their `seq`."""
    there: dict[int, bytes] = {}
    saved = found.snapshot
    while saved is not None:
        there[saved.seq] = saved.body
        saved = store.load(found.head.thread, upto=saved.seq - 1).snapshot if saved.seq else None
    return there


def some_blobs(store: Store, thread: str, names: Iterable[str]) -> Iterator[dict[str, bytes]]:
    """The blobs, a few at a time: nobody knows how large they are."""
    wanted = list(names)
    for at in range(0, len(wanted), 8):
        found = store.blobs(thread, wanted[at : at + 8])
        if found:
            yield found
