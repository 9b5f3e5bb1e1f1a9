"""Clauses on reopening a storage: exactly the committed data is there. For durable stores."""

from __future__ import annotations

from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.values import Commit, Record, StoredSnapshot
from graphrt.testing.conformance._world import AT, LONG_S, World, entry, refused, same, void


def a_durable_store_says_so(w: World) -> None:
    """A store that finds its threads after reopening has `durable` set."""
    w.thread()
    same((w.store.durable, w.reopen().query(ThreadFilter()) != []), (True, True), "durable, and something there")


def everything_is_there_again(w: World) -> None:
    """Records, staged bodies, snapshots, blobs, meta and head are unchanged after reopening."""
    claim = w.claim()
    records = [Record(2, 2, b"\x00\xff", b"seal"), entry(3)]
    commit = Commit(
        0, AT + 1, records, False, [("b", b"1"), ("a", b"2")], StoredSnapshot(3, b"s"), {"x": b"X"}, b"m", "failed", "g"
    )
    w.store.commit(claim, commit._replace(release=True))
    before, head = w.load(), w.store.head("t")
    w.reopen()
    after = w.load()
    same(tuple(w.store.head("t")), tuple(head), "head")
    same([tuple(record) for record in w.store.records("t")], [tuple(record) for record in records], "records")
    same((after.meta, tuple(after.snapshot or ())), (before.meta, (3, b"s")), "meta and snapshot")
    same([tuple(item) for item in after.staged], [("b", b"1"), ("a", b"2")], "staged")
    same(w.store.blobs("t", ["x"]), {"x": b"X"}, "blobs")


def every_commit_is_there_again(w: World) -> None:
    """Each commit that returned is there after reopening, including the last one."""
    claim = w.claim()
    for seq in range(5):
        w.store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))
    w.reopen()
    same(w.bodies(), [b"1", b"2", b"3", b"4", b"5"], "records")


def staged_alone_is_there_again(w: World) -> None:
    """A commit that only stages is as durable as any other."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("k", b"v")]))
    w.reopen()
    same([tuple(item) for item in w.load().staged], [("k", b"v")], "staged")


def claims_end_with_the_store(w: World) -> None:
    """After reopening a held thread is free, and the next claim has the next epoch."""
    old = w.held()
    w.reopen()
    same(w.store.head("t").owned, False, "owned")
    same(w.claim().epoch, old.epoch + 1, "epoch of the next claim")


def a_claim_of_before_is_void(w: World) -> None:
    """A claim of a closed store can do nothing through the store that is opened next."""
    old = w.held()
    w.reopen()
    void(w.store, old, 1, "an old claim")
    new = w.claim()
    void(w.store, old, 1, "an old claim of a thread that is held")
    w.store.commit(new, Commit(1, AT, [entry(2)]))


def a_deletion_is_durable(w: World) -> None:
    """A deleted thread stays deleted after reopening."""
    w.thread("a")
    w.thread("b")
    w.store.delete("a")
    w.reopen()
    same([head.thread for head in w.store.query(ThreadFilter())], ["b"], "ids")
    refused(InputError, lambda: w.store.head("a"), "head of the deleted thread", code="unknown-thread")


def a_prune_is_durable(w: World) -> None:
    """Pruned records stay removed after reopening."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1), entry(2)], snapshot=StoredSnapshot(2, b"s")))
    w.store.commit(claim, Commit(2, AT, [entry(3)]))
    w.store.prune(claim, 2)
    w.reopen()
    same((w.bodies(), w.store.head("t").first), ([b"3"], 3), "records and first")


def a_refused_commit_is_not_there(w: World) -> None:
    """Nothing of a refused commit appears after reopening."""
    claim = w.held()
    commit = Commit(0, AT, [entry(1, b"no")], stage=[("k", b"v")], blobs={"b": b"B"}, meta=b"m")
    refused(ConflictError, lambda: w.store.commit(claim, commit), "old expectation")
    w.reopen()
    loaded = w.load()
    same((w.bodies(), list(loaded.staged), loaded.meta), ([b"1"], [], None), "the thread")
    same(w.store.blobs("t", ["b"]), {}, "blobs")


def the_thread_goes_on_after_reopening(w: World) -> None:
    """A thread can be claimed and continued after reopening, with its staged bodies in order."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("b", b"1")]))
    w.reopen()
    again = w.store.claim("t", create=False, lease_s=LONG_S, at=AT)
    w.store.commit(again, Commit(1, AT, [entry(2)], stage=[("a", b"2")]))
    same((w.bodies(), [key for key, _ in w.load().staged]), ([b"1", b"2"], ["b", "a"]), "records and staged keys")


def order_is_kept_after_reopening(w: World) -> None:
    """Threads created after reopening are listed after the older ones."""
    w.thread("b")
    w.reopen()
    w.thread("a")
    w.reopen()
    same([head.thread for head in w.store.query(ThreadFilter())], ["b", "a"], "ids")


def an_unused_storage_is_empty_again(w: World) -> None:
    """A storage that was opened and closed without a write is still empty."""
    w.reopen()
    same(w.store.query(ThreadFilter()), [], "heads")
