"""MACs of seals: what a key proves, what a change of keys requires, and what is refused without a key."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

import pytest

from graphrt._journal.body import ERASED_LINE
from graphrt._journal.chain import KID, Chain, Links, genesis
from graphrt._journal.log_keys import KeyRing, kid_of
from graphrt._journal.seal import ERASED, SEED_BYTES, UNKEYED, parsed, salts_of
from graphrt.errors import InputError, StoreError

OLD, NEW = bytes(range(32)), bytes(range(100, 132))
LINES = [b"[3,1.5]", b'"yes"', b"7"]
WRITTEN = [("consent", 1), ("n", 2)]


def sealed(*rings: KeyRing | None) -> list[bytes]:
    """The seals of records in order, written by a chain with the given keys."""
    seals: list[bytes] = []
    saved: dict[str, str] | None = None
    for seq, ring in enumerate(rings, 1):
        chain = Chain("t", saved, keys=ring.of("t") if ring else None)
        chain.writable(adopt=True)
        seals.append(chain.seal(seq, 1, 1.5, LINES, WRITTEN, 7))
        saved = chain.saved()
    return seals


def accepted(seals: Sequence[bytes], ring: KeyRing | None, lines: Sequence[bytes] = LINES) -> int:
    chain = Chain("t", keys=ring.of("t") if ring else None)
    for seq, seal in enumerate(seals, 1):
        try:
            chain.check(seq, 1, 1.5, lines, WRITTEN, seal)
        except StoreError:
            return seq - 1
    return len(seals)


def flips(data: bytes) -> list[bytes]:
    return [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at in range(len(data)) for bit in range(8)]


def test_change_of_any_bit_of_a_keyed_seal_is_detected_with_the_key() -> None:
    ring = KeyRing(OLD)
    seals = sealed(ring, ring, ring)

    assert accepted(seals, ring) == 3
    assert [len(seal) for seal in seals] == [122] * 3
    for at, seal in enumerate(seals):
        for changed in flips(seal):
            assert accepted([*seals[:at], changed, *seals[at + 1 :]], ring) == at


def test_chain_is_verified_without_the_key_and_the_macs_are_not() -> None:
    seals = sealed(KeyRing(OLD), KeyRing(OLD))
    forged = seals[0][:74] + bytes(32) + seals[0][106:]

    assert accepted(seals, None) == 2
    assert accepted(seals, KeyRing(NEW)) == 2
    assert accepted([forged, seals[1]], None) == 2
    assert accepted([forged, seals[1]], KeyRing(OLD)) == 0


def test_recomputed_chain_is_detected_with_the_key() -> None:
    forged = sealed(KeyRing(NEW), KeyRing(NEW))
    kid = kid_of(OLD)
    renamed = [seal[:2] + kid + seal[10:] for seal in forged]

    assert accepted(renamed, KeyRing(OLD)) == 0
    chain = Chain("t", keys=KeyRing(OLD).of("t"))
    [seal] = sealed(KeyRing(OLD))
    with pytest.raises(StoreError, match="MAC does not match"):
        chain.check(1, 1, 1.5, LINES, WRITTEN, seal[:74] + bytes(32) + seal[106:])


def test_mac_follows_rfc_2104_and_rfc_5869() -> None:
    """Recomputed from the description: a key of the log by HKDF, and HMAC-SHA256 of the leaf."""
    [seal] = sealed(KeyRing(OLD))
    parts = parsed(seal, 3)
    assert parts is not None
    secret = hmac.new(bytes(32), OLD, hashlib.sha256).digest()
    key = hmac.new(secret, b"graphrt/log-key/v1\x00" + b"t" + b"\x01", hashlib.sha256).digest()

    assert parts.macs == (hmac.new(key, parts.leaf, hashlib.sha256).digest(),)
    assert parts.kid == hmac.new(OLD, b"graphrt/kid/v1\x00", hashlib.sha256).digest()[:8]


def test_key_of_one_log_differs_from_that_of_another() -> None:
    ring = KeyRing(OLD)

    assert ring.of("a").mac(ring.kid, bytes(32)) != ring.of("b").mac(ring.kid, bytes(32))


def test_change_of_keys_is_signed_by_both() -> None:
    both = KeyRing(NEW, (OLD,))
    seals = sealed(KeyRing(OLD), both, both)

    assert [len(seal) for seal in seals] == [122, 154, 122]
    assert accepted(seals, both) == accepted(seals, KeyRing(OLD)) == accepted(seals, KeyRing(NEW)) == 3
    # The MAC of the old key is left out, or computed with another one.
    parts = parsed(seals[1], 3)
    assert parts is not None
    alone = seals[1][:1] + b"\x01" + seals[1][2:106] + seals[1][138:]
    other = seals[1][:106] + bytes(32) + seals[1][138:]
    assert accepted([seals[0], alone], None) == 1
    assert accepted([seals[0], other], both) == 1


def test_new_key_without_the_old_one_is_refused() -> None:
    [first] = sealed(KeyRing(OLD))
    chain = Chain("t", keys=KeyRing(NEW).of("t"))
    chain.check(1, 1, 1.5, LINES, WRITTEN, first)
    with pytest.raises(InputError, match="log of thread 't'") as caught:
        chain.writable()
    assert caught.value.code == "log-key-needed"
    assert OLD.hex() not in str(caught.value)
    assert kid_of(OLD).hex() in str(caught.value)


def test_record_without_a_key_after_one_with_a_key_is_detected() -> None:
    [first] = sealed(KeyRing(OLD))
    chain = Chain("t")
    chain.check(1, 1, 1.5, LINES, WRITTEN, first)
    chain.kid = UNKEYED  # as a forger would do
    second = chain.seal(2, 1, 1.5, LINES, WRITTEN, 7)

    assert accepted([first, second], None) == accepted([first, second], KeyRing(OLD)) == 1


def test_log_that_started_without_a_key_can_get_one() -> None:
    seals = sealed(None, KeyRing(OLD))

    assert [len(seal) for seal in seals] == [90, 122]
    assert accepted(seals, KeyRing(OLD)) == 2


def test_snapshot_stores_the_name_of_the_key() -> None:
    chain = Chain("t", keys=KeyRing(OLD).of("t"))
    chain.seal(1, 1, 1.5, LINES, WRITTEN, 7)

    assert chain.saved()[KID] == kid_of(OLD).hex()
    with pytest.raises(InputError):
        Chain("t", chain.saved()).writable()
    assert OLD.hex() not in repr(KeyRing(OLD))


def erased(seal: bytes, at: int) -> bytes:
    """The seal after line *at* was erased: its salt is gone, and its commitment remains."""
    salts = salts_of(seal[-SEED_BYTES:], 3)
    rest = b""
    for line, text in enumerate(LINES):
        salt = salts[16 * line : 16 * line + 16]
        commitment = hashlib.sha256(b"graphrt/commit/v1\x00" + salt + text).digest()
        rest += b"\x01" + commitment if line == at else b"\x00" + salt
    return bytes([ERASED]) + seal[1:-SEED_BYTES] + rest


@pytest.mark.parametrize("ring", [None, KeyRing(OLD)])
def test_erased_line_leaves_the_chain_valid(ring: KeyRing | None) -> None:
    first, second = sealed(ring, ring)
    hollow = [LINES[0], ERASED_LINE, LINES[2]]

    chain = Chain("t", keys=ring.of("t") if ring else None)
    links = Links(genesis("t"), "t")
    for seq, (lines, seal) in enumerate([(hollow, erased(first, 1)), (LINES, second)], 1):
        chain.check(seq, 1, 1.5, lines, WRITTEN, seal)
        links.check(seq, 1, 1.5, lines, WRITTEN, seal)


def test_line_that_is_restored_or_changed_after_its_erasure_is_detected() -> None:
    [seal] = sealed(KeyRing(OLD))
    for line in (LINES[1], b'"no"', b"", ERASED_LINE + b" "):
        with pytest.raises(StoreError):
            Chain("t").check(1, 1, 1.5, [LINES[0], line, LINES[2]], WRITTEN, erased(seal, 1))
    for changed in flips(erased(seal, 1)):
        assert accepted([changed], KeyRing(OLD), [LINES[0], ERASED_LINE, LINES[2]]) == 0
