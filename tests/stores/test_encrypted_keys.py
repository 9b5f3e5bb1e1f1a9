"""How the keys of an encrypted store change: added, made current, retired."""

from __future__ import annotations

import secrets

import pytest
from tests.stores.test_encrypted import AT, BLOB, CANARY, KEYS, LEASE_S, filled, path, plain, read_all, refused

from graphrt.stores.encrypted import EncryptedStore
from graphrt.stores.protocol import Commit, Record, Saved

__all__ = ["path", "plain"]
pytestmark = pytest.mark.needs("cryptography")


def test_keys_can_be_rotated(plain):
    old, new = KEYS, {"k2": secrets.token_bytes(32)}
    first = EncryptedStore(plain, old)
    claim = filled(first)
    both = EncryptedStore(plain, {**new, **old})
    both.commit(claim, Commit(1, AT, [Record(2, 1, b"new")], blobs={"n": b"new", BLOB: b"stays"}))

    assert [record.body for record in both.records("t")] == [CANARY, b"new"]
    assert both.blobs("t", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}
    refused(lambda: list(first.records("t")), "missing-key")
    refused(lambda: first.load("t"), "missing-key")
    refused(lambda: EncryptedStore(plain, new).load("t"), "missing-key")


def written_by_the_first_version(plain, *, named_by):
    """A thread whose bodies the key k1 sealed, with names that another key made: that was a choice once."""
    first = EncryptedStore(plain, {**KEYS, **named_by})
    only = EncryptedStore(plain, named_by)
    first._keys._naming, first._keys._mark = only._keys._naming, only._keys._mark  # type: ignore[misc]
    first.release(filled(first))


def test_key_that_made_names_is_missed_before_blobs_are(plain):
    """Without it no blob would be found; whoever reads anything of the thread hears of it."""
    names = {"k0": secrets.token_bytes(32)}
    written_by_the_first_version(plain, named_by=names)

    error = refused(lambda: EncryptedStore(plain, KEYS).load("t"), "missing-key")
    assert "names of large values" in error.what
    both = EncryptedStore(plain, {**KEYS, **names})
    assert read_all(both) == read_all(EncryptedStore(plain, {**names, **KEYS}))
    assert both.blobs("t", [BLOB]) == {BLOB: CANARY * 50}


@pytest.mark.parametrize("new", ["a-sorts-first", "z-sorts-last"])
@pytest.mark.parametrize("current", ["k1", "new"])
def test_key_that_is_added_hides_nothing(plain, new, current):
    """Wherever its id sorts, and whichever is current: what was there is read, and what is written is read by both."""
    first = EncryptedStore(plain, KEYS)
    claim = filled(first)
    keys = {new: secrets.token_bytes(32), **KEYS}
    both = EncryptedStore(plain, keys, current=new if current == "new" else current)
    both.commit(claim, Commit(1, AT, [Record(2, 1, b"new")], blobs={"n": b"new", BLOB: b"stays"}))

    for reader in (both, EncryptedStore(plain, keys)):
        assert [record.body for record in reader.records("t")] == [CANARY, b"new"]
        assert reader.blobs("t", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}
    if current == "k1":
        assert first.blobs("t", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}


@pytest.mark.parametrize("names", ["own", "of another key"])
def test_key_is_retired_by_copying(plain, names):
    """The first key, too, and one that only made names: the copy has nothing of them, whatever was pruned meanwhile."""
    old = dict(KEYS)
    if names == "own":
        EncryptedStore(plain, KEYS).release(filled(EncryptedStore(plain, KEYS)))
    else:
        old["k0"] = secrets.token_bytes(32)
        written_by_the_first_version(plain, named_by={"k0": old["k0"]})
    new = {"k2": secrets.token_bytes(32)}
    both = EncryptedStore(plain, {**old, **new}, current="k2")
    claim = both.claim("t", create=False, lease_s=LEASE_S, at=AT)
    both.commit(claim, Commit(1, AT, [Record(2, 1, b"two")], snapshot=Saved(2, b"snap"), blobs={"n": b"new"}))
    both.prune(claim, 1, keep_blobs=[BLOB, "n"])
    both.release(claim)

    both.copy("t", "u", at=AT)
    both.delete("t")

    alone = EncryptedStore(plain, new)
    assert [record.body for record in alone.records("u")] == [b"two"]
    assert alone.blobs("u", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}
    found = alone.load("u", upto=1)
    assert (found.snapshot, found.meta, found.staged) == (Saved(1, CANARY), CANARY, [])
    assert alone.load("u").snapshot == Saved(2, b"snap")
    alone.copy("u", "v", at=AT)
    assert read_all(alone, "u") == read_all(alone, "v")
