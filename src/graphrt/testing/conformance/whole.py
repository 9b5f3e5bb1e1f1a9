"""Clauses on whole threads: delete and prune, and the independence of threads with similar ids."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from graphrt.errors import ConflictError, InputError
from graphrt.stores.values import Claim, Commit, Record, StoredSnapshot
from graphrt.testing.conformance._world import AT, World, entry, refused, same, void

_LARGE: Final = 70_000
"""Size of a blob in bytes. The journal stores values of more than 64 KiB as blobs."""


def delete_forgets_everything(w: World) -> None:
    """After `delete` no part of the thread is left, even if its id is used again."""
    _full(w, "t")
    w.store.delete("t")
    refused(InputError, lambda: w.store.head("t"), "head", code="unknown-thread")
    refused(InputError, w.load, "load", code="unknown-thread")
    same(w.store.blobs("t", ["b"]), {}, "blobs")
    claim = w.claim()
    same((claim.head.seq, claim.head.status, claim.head.graph), (0, "new", ""), "head of the recreated thread")
    w.store.commit(claim, Commit(0, AT, [entry(1)]))
    same(_everything(w, "t")[1:], (None, None, [b"1"], [], {}), "the recreated thread")


def delete_of_no_thread(w: World) -> None:
    """`delete` of an unknown thread is refused."""
    refused(InputError, lambda: w.store.delete("t"), "delete of no thread", code="unknown-thread")


def a_held_thread_is_not_deleted(w: World) -> None:
    """`delete` of a held thread is refused and changes nothing."""
    claim = w.held()
    refused(ConflictError, lambda: w.store.delete("t"), "delete of a held thread", code="conflict")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(w.bodies(), [b"1", b"2"], "records")


def a_deleted_threads_claim_is_void(w: World) -> None:
    """A claim from before a deletion can do nothing to a new thread with the same id."""
    old = w.held()
    w.store.release(old)
    w.store.delete("t")
    w.store.release(w.held())
    void(w.store, old, 1, "the old claim of a free thread")
    new = w.claim()
    void(w.store, old, 1, "the old claim")
    w.store.commit(new, Commit(1, AT, [entry(2)]))


def delete_leaves_other_threads(w: World) -> None:
    """`delete` affects no thread with a similar id."""
    names = ["a", "a:1", "a:10", "a.", "A", "aa", "a_", "ab"]
    for name in names:
        _full(w, name)
    before = {name: _everything(w, name) for name in names}
    w.store.delete("a")
    w.store.delete("a_")
    for name in ("a:1", "a:10", "a.", "A", "aa", "ab"):
        same(_everything(w, name), before[name], f"thread {name}")


def threads_are_apart(w: World) -> None:
    """Data written to one thread appears in no other, with any ids."""
    names = ["a", "a:1", "a:1:1", "A", "a=", "a@b", "a+b", "1", "01", "_", "a" * 200]
    claims = {name: w.claim(name) for name in names}
    for step in range(2):
        for name, claim in claims.items():
            body = f"{name}/{step}".encode()
            w.store.commit(claim, Commit(step, AT, [entry(step + 1, body)], stage=[(str(step), body)], meta=body))
    for name in names:
        bodies = [f"{name}/{step}".encode() for step in range(2)]
        same((w.bodies(name), w.load(name).meta), (bodies, bodies[1]), f"thread {name[:9]}")
        same([tuple(item) for item in w.load(name).staged], [("0", bodies[0]), ("1", bodies[1])], "staged")


def prune_forgets_old_records(w: World) -> None:
    """`prune` removes the records up to an entry, returns the number of removed entries, and moves `first`."""
    claim = _pruneable(w)
    same(w.store.prune(claim, 4), 4, "pruned entries")
    same((w.bodies(), w.store.head("t").first, w.store.head("t").seq), ([b"5", b"6"], 5, 6), "records and head")
    same(tuple(w.load().snapshot or ()), (4, b"s4"), "snapshot")
    same([record.body for record in w.load().records], [b"5", b"6"], "records after the snapshot")


def prune_forgets_older_snapshots(w: World) -> None:
    """`prune` removes snapshots of earlier entries, and keeps that of the entry itself and later ones."""
    claim = _pruneable(w)
    w.store.prune(claim, 4)
    same(w.load(upto=3).snapshot, None, "snapshot of an older moment")
    same(tuple(w.load(upto=5).snapshot or ()), (4, b"s4"), "snapshot of a later moment")


def prune_keeps_later_snapshots(w: World) -> None:
    """`prune` up to an earlier snapshot keeps the later ones."""
    claim = _pruneable(w)
    same(w.store.prune(claim, 2), 2, "pruned entries")
    same(tuple(w.load().snapshot or ()), (4, b"s4"), "newest snapshot")
    same((w.bodies(), w.store.head("t").first), ([b"3", b"4", b"5", b"6"], 3), "records and first")


def prune_needs_a_snapshot(w: World) -> None:
    """`prune` up to an entry without a snapshot is refused and removes nothing."""
    claim = _pruneable(w)
    for upto in (0, 1, 3, 5, 6, 99):
        refused(InputError, partial(w.store.prune, claim, upto), f"prune up to {upto}", code="no-snapshot")
    same((len(w.bodies()), w.store.head("t").first), (6, 1), "records and first")


def prune_needs_the_claim(w: World) -> None:
    """`prune` under a void claim is refused and removes nothing."""
    claim = _pruneable(w)
    w.store.release(claim)
    refused(ConflictError, lambda: w.store.prune(claim, 4), "prune of a void claim")
    same(len(w.bodies()), 6, "number of records")


def prune_keeps_a_record_that_goes_on(w: World) -> None:
    """A record that extends beyond the pruned entries stays whole, and `first` is its first entry."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [Record(3, 3, b"a")], snapshot=StoredSnapshot(3, b"s3")))
    w.store.commit(claim, Commit(3, AT, [Record(5, 2, b"b"), Record(9, 4, b"c")], snapshot=StoredSnapshot(9, b"s9")))
    same(w.store.prune(claim, 3), 3, "pruned entries")
    same((w.bodies(), w.store.head("t").first), ([b"b", b"c"], 4), "records and first")


def prune_twice_finds_nothing_more(w: World) -> None:
    """Pruning again up to the same entry removes nothing."""
    claim = _pruneable(w)
    same((w.store.prune(claim, 4), w.store.prune(claim, 4)), (4, 0), "pruned entries")
    same(w.bodies(), [b"5", b"6"], "records")


def prune_keeps_named_blobs(w: World) -> None:
    """`prune` removes all blobs but those that `keep_blobs` names; without that argument all stay."""
    claim = _pruneable(w)
    w.store.commit(claim, Commit(6, AT, blobs={name: name.encode() * _LARGE for name in "abc"}))
    w.store.prune(claim, 2)
    same(sorted(w.store.blobs("t", "abc")), ["a", "b", "c"], "blobs after a prune without keep_blobs")
    w.store.prune(claim, 4, keep_blobs=iter(["b", "x"]))
    same(w.store.blobs("t", "abc"), {"b": b"b" * _LARGE}, "blobs")
    w.store.prune(claim, 4, keep_blobs=[])
    same(w.store.blobs("t", "abc"), {}, "blobs when none is to be kept")


def prune_keeps_the_rest(w: World) -> None:
    """`prune` keeps staged bodies, meta and status, and does not affect other threads."""
    claim = _pruneable(w)
    _full(w, "u")
    before = _everything(w, "u")
    w.store.commit(claim, Commit(6, AT, stage=[("k", b"v")], meta=b"m", status="running"))
    w.store.prune(claim, 4, keep_blobs=[])
    loaded = w.load()
    same((loaded.meta, loaded.head.status), (b"m", "running"), "meta and status")
    same([tuple(item) for item in loaded.staged], [("k", b"v")], "staged")
    same(_everything(w, "u"), before, "another thread")


def a_pruned_thread_goes_on(w: World) -> None:
    """After `prune` the thread accepts the next commit."""
    claim = _pruneable(w)
    w.store.prune(claim, 4)
    w.store.commit(claim, Commit(6, AT, [entry(7)]))
    same((w.bodies(), w.store.head("t").first), ([b"5", b"6", b"7"], 5), "records and first")


def _full(w: World, thread: str) -> None:
    """Create a thread that has every part, and release it."""
    claim = w.claim(thread)
    w.store.commit(
        claim,
        Commit(0, AT, [entry(1), entry(2)], snapshot=StoredSnapshot(2, b"s2"), blobs={"b": thread.encode() * _LARGE}),
    )
    last = Commit(
        2, AT + 3, [Record(4, 2, b"34", b"seal")], stage=[("k", b"v"), ("a", b"w")], snapshot=StoredSnapshot(4, b"s4")
    )
    w.store.commit(claim, last._replace(meta=thread.encode(), status="interrupted", graph="g", release=True))


def _everything(w: World, thread: str) -> tuple[Any, ...]:
    """Return everything that can be read of the thread; its head first."""
    loaded = w.load(thread)
    snapshot = tuple(loaded.snapshot) if loaded.snapshot else None
    staged = [tuple(item) for item in loaded.staged]
    blobs = w.store.blobs(thread, ["b", "c"])
    return tuple(loaded.head), loaded.meta, snapshot, w.bodies(thread), staged, blobs


def _pruneable(w: World) -> Claim:
    """Create a thread of six entries, with snapshots of the second and fourth, and return the claim."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1), entry(2)], snapshot=StoredSnapshot(2, b"s2")))
    w.store.commit(claim, Commit(2, AT, [entry(3), entry(4)], snapshot=StoredSnapshot(4, b"s4")))
    w.store.commit(claim, Commit(4, AT, [entry(5), entry(6)]))
    return claim
