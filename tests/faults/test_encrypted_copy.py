"""A copy of an encrypted thread that the store breaks off: no half of one is ever seen, and what stays is told."""

from __future__ import annotations

import pytest

from graphrt.errors import StoreError
from graphrt.stores.encrypted import EncryptedStore
from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Commit, Record, Saved

from .faulty import FaultyStore

pytestmark = pytest.mark.needs("cryptography")
AT = 1_700_000_000.0
NAMES = [f"b{seq}" for seq in range(1, 21)]


def prepared(inner, *, pruned):
    """An encrypted thread of 20 entries, with snapshots, large values, something staged, and perhaps pruned."""
    store = EncryptedStore(inner, {"k": bytes(range(32))})
    claim = store.claim("t", create=True, lease_s=60, at=AT)
    for seq in range(1, 21):
        saved = Saved(seq, b"s%d" % seq) if seq % 5 == 0 else None
        record = Record(seq, 1, b"r%d" % seq, b"seal")
        store.commit(claim, Commit(seq - 1, AT, [record], snapshot=saved, blobs={f"b{seq}": b"x%d" % seq}))
    if pruned:
        store.prune(claim, 5)
    end = Commit(20, AT, stage=[("a", b"1"), ("b", b"2")], meta=b"meta", status="interrupted", graph="g", release=True)
    store.commit(claim, end)
    return store


def seen(store, thread):
    """All that a reader finds of the thread, and which snapshots there are."""
    loaded = store.load(thread)
    snapshots = [store.load(thread, upto=seq).snapshot for seq in range(1, 21)]
    head = loaded.head._replace(thread="", epoch=0, owned=False)
    return (head, loaded.meta, loaded.staged, list(store.records(thread)), store.blobs(thread, NAMES)), snapshots


@pytest.mark.parametrize("pruned", [False, True], ids=["whole", "pruned"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_no_half_copy_is_seen_wherever_the_store_fails(pruned, after, lasting):
    broken = []
    for at in range(1, 60):
        with MemoryStore() as inner:
            faulty = FaultyStore(inner, after=after, lasting=lasting)
            store = prepared(faulty, pruned=pruned)
            wanted, snapshots = seen(store, "t")
            faulty.calls.clear()
            faulty.at = at
            told = ""
            try:
                store.copy("t", "u", at=AT)
            except StoreError as error:
                broken.append(faulty.failed)
                told = "\n".join(getattr(error, "__notes__", ()))
            faulty.works = True
            threads = [head.thread for head in store.heads()]
            if not faulty.failed:
                assert seen(store, "u") == (wanted, snapshots)
                break
            assert seen(store, "t") == (wanted, snapshots)
            if "u" in threads:
                assert "delete_thread('u')" in told
                left, _ = seen(store, "u") if not pruned or store.head("u").first > 1 else (wanted, [])
                assert left == wanted
                inner._threads["u"].claim = None  # its lease runs out
                store.delete("u")
            elif "u" in inner._threads:
                inner._threads["u"].claim = None
            store.copy("t", "u", at=AT)
            assert seen(store, "u") == (wanted, snapshots)
    else:
        pytest.fail("more calls than expected")

    assert {"load", "claim", "blobs", "commit"} <= set(broken)


def test_a_reader_never_sees_half_a_copy_while_it_is_made():
    """At each call that the copy makes of the store, there is no copy yet, or one with all its entries."""
    found = []

    class Looking(FaultyStore):
        def _call(self, name, arguments, options):
            made = self.inner._threads.get("u")
            if made is not None and made.seq:
                found.append((made.seq, made.status, len(made.staged), len(made.blobs) >= 20, made.meta is not None))
            return super()._call(name, arguments, options)

    with MemoryStore() as inner:
        store = prepared(Looking(inner), pruned=False)
        store.copy("t", "u", at=AT)

    assert set(found) == {(20, "interrupted", 2, True, True)}


def test_a_copy_of_a_thread_that_goes_on_has_the_large_values_of_what_it_copied():
    """A commit that comes in between is there with its values, or not at all."""

    class Moving(FaultyStore):
        moving = False

        def _call(self, name, arguments, options):
            if name == "load" and self.moving:
                self.moving = False
                store.commit(claim, Commit(20, AT, [Record(21, 1, b"r21")], blobs={"b21": b"x21"}))
            return super()._call(name, arguments, options)

    with MemoryStore() as inner:
        moving = Moving(inner)
        store = prepared(moving, pruned=False)
        claim = store.claim("t", create=False, lease_s=60, at=AT)
        moving.moving = True
        store.copy("t", "u", at=AT)

        assert store.head("u").seq == 21
        assert store.blobs("u", ["b21"]) == {"b21": b"x21"}
