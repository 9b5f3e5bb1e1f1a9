"""The seal of a record: the stored form of its header, from which a reader computes the header again.

The header links a record, which holds the entries of one commit as lines of bytes, to the record before it (`chain`). A
commitment to a line is a hash of a random salt and the line, which cannot confirm a guess of the line. The functions
here only know the layout; `chain` verifies.

Its layout (decision 0120):

    version u8 | macs u8 | kid 8 | state 32 | leaf 32 | mac 32, `macs` times | seed 16

- `kid`, `state` and `leaf` are those of the header. The rest of the header is in the record: `seq`, `entries` and `at`,
  and `body`, which is computed from the lines. `prev` is the leaf of the record before.
- `leaf` is the hash of the header. `state` is a hash over all values that were written to the state so far.
- A `mac` is HMAC-SHA256 of the leaf. Without a key there is none. The first record under a new key has a second one,
  under the previous key. So the key cannot be changed without the old one.
- `seed` determines the salts of all lines: SHAKE-256 of a label and the seed.

  When a line is erased, its salt must be removed while the others are kept. The salts then replace the seed, and the
  version is `ERASED`:

    ... | mac 32, `macs` times | for each line: 0 and its salt 16, or 1 and its commitment 32
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256, shake_256
from struct import Struct
from typing import Final, NamedTuple

VERSION: Final = 2
"""The only version of headers and seals."""
ERASED: Final = 0x82
"""Version byte of a seal whose record has lines that were erased."""
SALT_BYTES: Final = 16
SEED_BYTES: Final = 16
KID_BYTES: Final = 8
"""Length of the name of a key."""
MAC_BYTES: Final = 32
UNKEYED: Final = bytes(KID_BYTES)
"""`kid` of a commit that is not authenticated."""
UNKEYED_BEGIN: Final = bytes([VERSION, 0]) + UNKEYED
"""Prefix of a seal without a key; followed by state, leaf and seed."""
_FIXED: Final = Struct(">BB8s32s32s")
"""The part of a seal that is always present: version, number of MACs, `kid`, `state`, `leaf`; 74 bytes."""
_STATE: Final = 10
"""Offset of the state."""
_LEAF: Final = 42
"""Offset of the leaf."""
_MACS: Final = 74
"""Where the MACs begin."""
STATE_AND_LEAF: Final = slice(_STATE, _MACS)
"""Where the two stand, in seals of every form."""
PLAIN_BYTES: Final = _MACS + SEED_BYTES
"""Length of a seal without a key and without erased lines."""
_SECOND: Final = _MACS + MAC_BYTES
"""Offset of the second MAC, if there are two."""
SALTS: Final = b"graphrt/salts/v2\x00"
"""Label of the hash that derives salts from a seed."""
COMMIT: Final = b"graphrt/commit/v1\x00"
"""Label of a commitment to a line."""


class Seal(NamedTuple):
    """A parsed seal."""

    kid: bytes
    """Name of the key; `UNKEYED` without one."""
    state: bytes
    leaf: bytes
    macs: tuple[bytes, ...]
    """0 to 2: under the key `kid`, and under the previous key if the record is the first under a new one."""
    salts: bytes
    """The salts of all lines, one after another; empty if a line was erased."""
    kept: tuple[tuple[bytes, bytes], ...]
    """If a line was erased, a pair for each line: salt and b"", or b"" and its commitment if it was erased. Else ()."""


def salts_of(seed: bytes, number: int) -> bytes:
    """Return the salts of *number* lines, one after another."""
    return shake_256(SALTS + seed).digest(SALT_BYTES * number)


def packed(kid: bytes, state: bytes, leaf: bytes, macs: Sequence[bytes], seed: bytes) -> bytes:
    """Return a seal without erased lines; for the arguments see `Seal` and the layout above."""
    return _FIXED.pack(VERSION, len(macs), kid, state, leaf) + b"".join(macs) + seed


def parsed(seal: bytes, lines: int) -> Seal | None:
    """Take a seal apart; None if it does not have the form of a seal for a record of so many *lines*."""
    if len(seal) == PLAIN_BYTES and seal.startswith(UNKEYED_BEGIN):  # the common case; the checks below agree
        return Seal(UNKEYED, seal[_STATE:_LEAF], seal[_LEAF:_MACS], (), salts_of(seal[_MACS:], lines), ())
    if len(seal) < _FIXED.size:
        return None
    version, number, kid, state, leaf = _FIXED.unpack_from(seal)
    # A key has one MAC, or two after a change of keys; without a key there is no MAC.
    if kid == UNKEYED:
        if number:
            return None
        macs: tuple[bytes, ...] = ()
    elif number == 1:
        macs = (seal[_MACS:_SECOND],)
    elif number == 2:
        macs = (seal[_MACS:_SECOND], seal[_SECOND : _SECOND + MAC_BYTES])
    else:
        return None
    rest = seal[_MACS + MAC_BYTES * number :]
    if version == VERSION:
        return Seal(kid, state, leaf, macs, salts_of(rest, lines), ()) if len(rest) == SEED_BYTES else None
    pairs = _kept(rest, lines) if version == ERASED else ()
    return Seal(kid, state, leaf, macs, b"", pairs) if pairs else None


def _kept(rest: bytes, lines: int) -> tuple[tuple[bytes, bytes], ...]:
    """Return the pairs of `Seal.kept` from *rest*, the end of a seal; () if it does not fit this number of *lines*.

    At least one line must be erased: otherwise the same record would have two valid seals.
    """
    pairs: list[tuple[bytes, bytes]] = []
    at, erased = 0, False
    for _ in range(lines):
        kind = rest[at : at + 1]
        size = SALT_BYTES if kind == b"\x00" else 32  # a salt, or a commitment
        value = rest[at + 1 : at + 1 + size]
        if kind not in (b"\x00", b"\x01") or len(value) != size:
            return ()
        erased = erased or kind == b"\x01"
        pairs.append((value, b"") if kind == b"\x00" else (b"", value))
        at += 1 + size
    return tuple(pairs) if erased and at == len(rest) else ()


def erased_lines(seal: bytes, lines: int) -> set[int]:
    """Return the numbers of the erased lines of a record with this number of *lines*; none for another form."""
    parts = parsed(seal, lines) if seal[:1] == bytes([ERASED]) else None
    return {number for number, (_, commitment) in enumerate(parts.kept) if commitment} if parts is not None else set()


def leaf_in(seal: bytes) -> bytes:
    """Return the leaf of the header that *seal* belongs to."""
    return seal[_LEAF:_MACS]


def erased(seal: bytes, lines: Sequence[bytes], numbers: Collection[int]) -> bytes:
    """Replace the salts of the lines *numbers* in *seal* by their commitments, and return the new seal.

    Header, leaf and MACs are unchanged. The seal must belong to *lines*.
    """
    parts = parsed(seal, len(lines))
    assert parts is not None  # noqa: S101 - the caller has verified the record
    begin = bytes([ERASED]) + seal[1 : _MACS + MAC_BYTES * len(parts.macs)]
    salts = parts.salts
    pairs = parts.kept or tuple((salts[at : at + SALT_BYTES], b"") for at in range(0, len(salts), SALT_BYTES))
    tail = b""
    for number, (line, (salt, commitment)) in enumerate(zip(lines, pairs, strict=True)):
        if number in numbers and not commitment:
            commitment = sha256(COMMIT + salt + line).digest()
        tail += b"\x01" + commitment if commitment else b"\x00" + salt
    return begin + tail
