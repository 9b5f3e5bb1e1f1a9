"""Copying a thread through the store protocol alone: for stores in which a body cannot be moved as it is.

Only the order of the steps; it needs nothing of a store but the protocol, and the names of the thread's blobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Claim, Commit, Loaded, Record, Saved, Store

_BYTES: Final = 8 * 2**20
_RECORDS: Final = 256
"""How much goes in one transaction."""
_LEASE_S: Final = 60.0


def copy_thread(store: Store, thread: str, to: str, *, at: float, blobs: Iterable[str]) -> None:
    """Write everything of *thread* under the id *to*. If it fails, *to* is removed again.

    Raises:
        InputError: There is no such thread, or *to* exists (`thread-exists`).
        ConflictError: The thread was pruned or deleted meanwhile.
    """
    check_id(to)
    found = store.load(thread)
    claim = _claim_new(store, to, at)
    try:
        seq = _copy_entries(store, found, claim, at)
        for body in _some(store, thread, blobs):
            store.commit(claim, Commit(expected=seq, at=at, blobs=body))
        stage, meta, head = found.staged, found.meta, found.head
        last = Commit(expected=seq, at=at, stage=stage, meta=meta, status=head.status, graph=head.graph, release=True)
        store.commit(claim, last)
    except BaseException:
        with suppress(StoreError, InputError):  # the first error says more
            store.release(claim)
            store.delete(to)
        raise


def _claim_new(store: Store, to: str, at: float) -> Claim:
    try:
        claim = store.claim(to, create=True, lease_s=_LEASE_S, at=at)
    except ConflictError:
        raise _refusals.thread_exists(to) from None
    if claim.head.seq:
        store.release(claim)
        raise _refusals.thread_exists(to)
    return claim


def _copy_entries(store: Store, found: Loaded, claim: Claim, at: float) -> int:
    """Copy records and snapshots; the number of the last entry."""
    thread, end, seq = found.head.thread, found.head.seq, found.head.first - 1
    snapshots = _snapshots(store, found)
    if seq:
        # A thread's entries are numbered from 1: those that were pruned are stood in for, and pruned again.
        body = snapshots.get(seq, b"")
        stand_in = Commit(expected=0, at=at, records=[Record(seq, seq, b"")], snapshot=Saved(seq, body))
        store.commit(claim, stand_in)
        store.prune(claim, seq)
    for records in _bundles(store.records(thread, after=seq, upto=end), set(snapshots)):
        if records[0].seq - records[0].count != seq:
            break
        last = records[-1].seq
        saved = Saved(last, snapshots[last]) if last in snapshots else None
        store.commit(claim, Commit(expected=seq, at=at, records=records, snapshot=saved))
        seq = last
    if seq != end:
        raise ConflictError(
            f"Thread {thread!r} was pruned or deleted while it was copied: its entries end at {seq}, not at {end}.",
            where=f"thread {thread!r}",
            fix="Copy it again.",
            thread=thread,
        )
    return seq


def _snapshots(store: Store, found: Loaded) -> dict[int, bytes]:
    """All snapshots of the thread by their `seq`."""
    there: dict[int, bytes] = {}
    saved = found.snapshot
    while saved is not None:
        there[saved.seq] = saved.body
        saved = store.load(found.head.thread, upto=saved.seq - 1).snapshot if saved.seq else None
    return there


def _bundles(records: Iterable[Record], ends: set[int]) -> Iterator[list[Record]]:
    """*records* in groups that make good transactions; each of *ends* ends one."""
    group: list[Record] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.body)
        if record.seq in ends or size >= _BYTES or len(group) == _RECORDS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _some(store: Store, thread: str, names: Iterable[str]) -> Iterator[dict[str, bytes]]:
    """The blobs, a few at a time: nobody knows how large they are."""
    wanted = list(names)
    for at in range(0, len(wanted), 8):
        found = store.blobs(thread, wanted[at : at + 8])
        if found:
            yield found
