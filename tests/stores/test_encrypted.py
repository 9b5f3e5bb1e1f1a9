"""An encrypted store: what its storage reveals, which bodies it refuses, and how keys change."""

from __future__ import annotations

import pickle
import secrets
import sys

import pytest

from graphrt.errors import InputError, MissingExtraError, StoreError
from graphrt.stores._sealing import Keyring
from graphrt.stores.encrypted import EncryptedStore
from graphrt.stores.memory import MemoryStore
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import Commit, Record, StoredSnapshot, StoredThread
from graphrt.stores.wrapper import StoreWrapper

pytestmark = pytest.mark.needs("cryptography")
AT = 1_700_000_000.0
LEASE_S = 600.0
CANARY = b"canary-4711-in-plain-sight"
KEYS = {"k1": secrets.token_bytes(32)}
EVERYTHING = Commit(
    0,
    AT,
    [Record(1, 1, CANARY, b"seal")],
    stage=[("a", CANARY), ("b", b"")],
    snapshot=StoredSnapshot(1, CANARY),
    blobs={f"sha-{CANARY.decode()}": CANARY * 50},
    meta=CANARY,
)
BLOB = next(iter(EVERYTHING.blobs))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def plain(path):
    """The storage without its encryption."""
    with SqliteStore(str(path)) as opened:
        yield opened


@pytest.fixture
def store(plain):
    with EncryptedStore(plain, KEYS) as opened:
        yield opened


def filled(store, thread="t"):
    """A claim on a new thread with every kind of data."""
    claim = store.claim(thread, create=True, lease_s=LEASE_S, at=AT)
    store.commit(claim, EVERYTHING)
    return claim


def read_all(store, thread="t"):
    store.load(thread)
    list(store.records(thread))
    return store.blobs(thread, [BLOB])


def refused(call, code):
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


class Tampered(StoreWrapper):
    """A store whose bodies are changed by an attacker when they are read."""

    def __init__(self, store, change):
        super().__init__(store)
        self._change = change

    def load(self, thread, **options):
        found = self.store.load(thread, **options)
        return StoredThread(
            found.head,
            self._change("meta", found.meta),
            StoredSnapshot(found.snapshot.seq, self._change("snapshot", found.snapshot.body)),
            [record._replace(body=self._change("record", record.body)) for record in found.records],
            [(key, self._change("staged", body)) for key, body in found.staged],
        )

    def records(self, thread, *, after=0, upto=None):
        for record in self.store.records(thread, after=after, upto=upto):
            yield record._replace(body=self._change("record", record.body))

    def blobs(self, thread, names):
        return {name: self._change("blob", body) for name, body in self.store.blobs(thread, names).items()}


# ---------------------------------------------------------------------------------------------------------- the storage


def test_files_contain_no_readable_body_or_blob_name(store, path):
    filled(store)
    read = store.load("t")
    blobs = store.blobs("t", [BLOB, "none"])
    store.close()

    everything = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert (read.meta, read.snapshot, read.staged) == (CANARY, StoredSnapshot(1, CANARY), [("a", CANARY), ("b", b"")])
    assert blobs == {BLOB: CANARY * 50}
    assert CANARY not in everything
    assert b"sha-" not in everything
    assert b"seal" in everything


def test_equal_bodies_have_different_ciphertexts(plain, store):
    for thread in ("t", "u"):
        store.release(filled(store, thread))

    bodies = [body for thread in ("t", "u") for _, body in plain.load(thread).staged]
    assert len(set(bodies)) == len(bodies)
    assert store._keys.name("t", BLOB) != store._keys.name("u", BLOB)
    assert store._keys.name("t", BLOB) != Keyring({"k1": secrets.token_bytes(32)}, current=None).name("t", BLOB)


# ------------------------------------------------------------------------------------------------------------ refusals


def test_change_of_any_bit_of_a_body_is_detected():
    keys = Keyring(KEYS, current=None)
    sealed = keys.seal(b"abc", "t", "record", (1, 1))

    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreError) as caught:
            keys.open(bytes(flipped), "t", "record", (1, 1))
        place = "magic" if bit < 24 else "form" if bit < 32 else "key" if bit < 56 else "rest"
        form = {"downgrade-refused", "store-newer"}
        expected = {
            "magic": {"downgrade-refused"},
            "form": form,
            "key": {"missing-key", "store-damaged"},
            "rest": {"store-damaged"},
        }
        assert caught.value.code in expected[place]
    assert keys.open(sealed, "t", "record", (1, 1)) == b"abc"


def test_a_body_of_a_newer_form_is_refused_as_newer():
    keys = Keyring(KEYS, current=None)
    sealed = keys.seal(b"abc", "t", "record", (1, 1))

    error = refused(lambda: keys.open(sealed[:3] + b"2" + sealed[4:], "t", "record", (1, 1)), "store-newer")
    assert error.what == "An encrypted body has the form 2, which a newer version of graphrt wrote."


def test_truncated_body_is_damaged():
    keys = Keyring(KEYS, current=None)
    sealed = keys.seal(b"abc", "t", "meta", "")

    for end in range(4, len(sealed)):
        refused(lambda end=end: keys.open(sealed[:end], "t", "meta", ""), "store-damaged")


@pytest.mark.parametrize(
    "place",
    [
        ("u", "record", (1, 1)),
        ("t", "snapshot", (1, 1)),
        ("t", "record", (2, 1)),
        ("t", "record", (1, 2)),
        ("t", "", ""),
    ],
)
def test_moved_body_is_refused(place):
    keys = Keyring(KEYS, current=None)
    sealed = keys.seal(b"abc", "t", "record", (1, 1))

    refused(lambda: keys.open(sealed, *place), "store-damaged")


def test_swapped_bodies_are_refused(plain, store):
    claim = filled(store)
    store.commit(claim, Commit(1, AT, [Record(2, 1, b"other")]))
    first, second = (record.body for record in plain.records("t"))
    swapped = EncryptedStore(Tampered(plain, lambda kind, body: {first: second, second: first}.get(body, body)), KEYS)

    refused(lambda: list(swapped.records("t")), "store-damaged")
    moved = {BLOB: plain.blobs("t", [store._keys.name("t", BLOB)])[store._keys.name("t", BLOB)]}
    store.commit(claim, Commit(2, AT, blobs={"other": b"other"}))
    misplaced = EncryptedStore(Tampered(plain, lambda kind, body: moved[BLOB] if kind == "blob" else body), KEYS)
    refused(lambda: misplaced.blobs("t", ["other"]), "store-damaged")


@pytest.mark.parametrize("kind", ["record", "snapshot", "meta", "staged", "blob"])
@pytest.mark.parametrize("body", [b"", b"plain", CANARY])
def test_plain_body_is_refused_everywhere(plain, store, kind, body):
    filled(store)
    downgraded = EncryptedStore(Tampered(plain, lambda found, old: body if found == kind else old), KEYS)

    error = refused(lambda: read_all(downgraded), "downgrade-refused")
    assert "thread 't'" in error.where


def test_store_of_plain_threads_is_refused(plain, store):
    claim = plain.claim("t", create=True, lease_s=LEASE_S, at=AT)
    plain.commit(claim, EVERYTHING)

    refused(lambda: store.load("t"), "downgrade-refused")


# ---------------------------------------------------------------------------------------------------------------- keys


def test_wrong_key_bytes_under_the_right_id_are_damage(plain):
    filled(EncryptedStore(plain, KEYS))

    refused(lambda: EncryptedStore(plain, {"k1": secrets.token_bytes(32)}).load("t"), "store-damaged")


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({}, "bad-key"),
        ({"k": b"short"}, "bad-key"),
        ({"k": b"\0" * 32}, "bad-key"),
        ({"k": b"abcd" * 8}, "bad-key"),
        ({"k": secrets.token_bytes(33)}, "bad-key"),
        ({"k": secrets.token_hex(16)}, "bad-key"),
        ({"k": bytearray(secrets.token_bytes(32))}, "bad-key"),
        ({"": secrets.token_bytes(32)}, "input"),
        ({"k k": secrets.token_bytes(32)}, "input"),
        ({"k" * 65: secrets.token_bytes(32)}, "input"),
        ({1: secrets.token_bytes(32)}, "input"),
        ({"good": secrets.token_bytes(32), "k": b"\xff" * 32}, "bad-key"),
    ],
)
def test_invalid_key_is_refused_and_not_shown(plain, keys, code):
    with pytest.raises(InputError) as caught:
        EncryptedStore(plain, keys)

    assert caught.value.code == code
    told = f"{caught.value} {vars(caught.value)}"
    assert not any(repr(secret) in told or str(secret) in told for secret in keys.values())


@pytest.mark.parametrize("keys", [[b"k" * 32], b"k" * 32, "k" * 32])
def test_keys_that_are_not_a_mapping_are_refused(plain, keys):
    with pytest.raises(InputError, match="not a mapping"):
        EncryptedStore(plain, keys)


def test_url_instead_of_a_store_is_refused_and_not_shown():
    with pytest.raises(InputError, match="store= cannot be <class 'str'>") as caught:
        EncryptedStore("postgresql://user:sesame@localhost/runs", KEYS)

    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["k9", ""])
def test_unknown_key_cannot_be_current(plain, wrong):
    with pytest.raises(InputError):
        EncryptedStore(plain, KEYS, current=wrong)


def test_keys_are_in_no_text_or_pickle(store):
    told = repr(store) + repr(store._keys) + str(vars(store))

    assert "k1" in told
    assert repr(KEYS["k1"])[2:-1] not in told
    assert KEYS["k1"].hex() not in told
    for thing in (store, store._keys):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


def test_memory_store_can_be_wrapped_and_is_not_durable():
    store = EncryptedStore(inner := MemoryStore(), KEYS)
    filled(store)

    assert not store.durable
    assert [record.body for record in store.records("t")] == [CANARY]
    assert CANARY not in next(inner.records("t")).body


def test_missing_package_is_named(plain, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(MissingExtraError) as caught:
        EncryptedStore(plain, KEYS)
    assert "graphrt[crypto]" in caught.value.fix
