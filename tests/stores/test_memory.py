"""Behaviour specific to the memory store: its claims need no lease, and closing it drops all data."""

from __future__ import annotations

import pytest
from tests.stores.support import AT, claimed

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores.filters import ScheduleFilter, ThreadFilter
from graphrt.stores.memory import MemoryStore
from graphrt.stores.values import Commit, NewBatch, Record


def test_claim_is_held_without_a_lease():
    """An owner in the same process cannot die alone."""
    store = MemoryStore()
    claimed(store, lease_s=0.0)

    assert store.head("t").owned
    with pytest.raises(ConflictError):
        claimed(store)


def test_claim_that_ctrl_c_interrupts_leaves_no_thread(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    store = MemoryStore()
    monkeypatch.setattr("graphrt.stores.memory.Claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.claim("t", create=True, lease_s=60, at=AT)

    with pytest.raises(InputError):
        store.head("t")


def test_commit_does_not_keep_the_callers_containers():
    store = MemoryStore()
    claim = claimed(store, entries=0)
    records, stage, blobs = [Record(1, 1, b"1")], [("k", b"v")], {"b": b"B"}
    store.commit(claim, Commit(0, AT, records, stage=stage, blobs=blobs))
    records.clear()
    stage.clear()
    blobs.clear()

    assert [record.body for record in store.records("t")] == [b"1"]
    assert store.load("t").staged == (("k", b"v"),)
    assert store.blobs("t", ["b"]) == {"b": b"B"}


def test_loaded_thread_does_not_change_with_later_commits():
    store = MemoryStore()
    claim = claimed(store)
    loaded = store.load("t")
    store.commit(claim, Commit(1, AT, [Record(2, 1, b"2")], stage=[("k", b"v")]))

    assert [record.body for record in loaded.records] == [b"1"]
    assert loaded.staged == ()


def test_close_drops_all_data():
    store = MemoryStore()
    claimed(store)
    store.close()

    for call in (
        lambda: store.head("t"),
        lambda: store.query(ScheduleFilter()),
        lambda: store.delete_schedule("nightly"),
        lambda: store.follow_live(["t"], for_s=1),
        lambda: store.relay([NewBatch("t", "1", b"item")]),
    ):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.code == "store-closed"
    assert repr(store) == "<MemoryStore of 0 threads, closed>"


@pytest.mark.parametrize("newest_first", [False, True])
def test_page_begins_after_a_thread_that_has_no_entries_yet(newest_first):
    store = MemoryStore()
    for thread in ("a", "b", "c"):
        claim = store.claim(thread, create=True, lease_s=60, at=AT)
        if thread != "b":
            store.commit(claim, Commit(0, AT, [Record(1, 1, b"1")]))

    found = store.query(ThreadFilter(newest_first=newest_first), after="b")
    assert [head.thread for head in found] == (["a"] if newest_first else ["c"])


def test_old_batches_are_deleted_unless_their_thread_was_followed_lately(monkeypatch: pytest.MonkeyPatch):
    now = 1_000.0
    monkeypatch.setattr("graphrt.stores._live_board.monotonic", lambda: now)
    store = MemoryStore()
    store.follow_live(["followed", "left"], for_s=10.0)
    for thread in ("followed", "left", "alone"):
        store.relay([NewBatch(thread, "a", b"x")])

    now += 5.0
    store.follow_live(["followed"], for_s=10.0)
    now += 37.0  # the interest in "left" ended 32 seconds ago, and the one in "followed" 27 seconds ago
    store.follow_live(["another"], for_s=10.0)

    kept = [thread for thread in ("followed", "left", "alone") if store.relayed(thread, after=0, limit=1)]
    assert kept == ["followed"]
