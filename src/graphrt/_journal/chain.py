"""The hash chain over the journal: a small header for each commit, and salted commitments to its lines.

A header holds the hash of the previous header, of the commit's own lines and of the state after it, and no user values.
A signature, a MAC or a Merkle tree can be built on headers later. A line and its salt can be removed, and the chain
still verifies. The layout is fixed, so that each header can be written in one way only (decision 0021):

    version u8 | seq u64 | entries u32 | at i64, microseconds | prev 32 | body 32 | state 32     big-endian, 117 bytes

- `prev` is SHA-256 of 0x00 and the previous header (a leaf of RFC 6962); in the first header, a hash of the thread's
  id.
- `body` is SHA-256 over the commitments of the lines. A commitment is SHA-256 of a label, 16 bytes of salt, and the
  line.
- `state` is SHA-256 over the rolling digests of the fields, sorted by name.

A field's digest is a chain over the commitments of the lines that were folded into it. It is extended and never
computed again, however large the field has grown. Of a line only the commitment enters a header: without the salt, none
of these hashes tells whether a guess of the line is right.

A seal is a header, followed by the salts of the lines.
This module loads OpenSSL, so it is imported for chained threads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256, shake_256
from os import urandom
from struct import Struct, error
from typing import Final, final

from graphrt._journal.batch import LATEST_S
from graphrt.errors import StoreError
from graphrt.errors._codes.journal import BROKEN_SEAL, TIME_CANNOT_BE_SEALED

HEADER: Final = Struct(">BQIq32s32s32s")
"""Layout of a header: 117 bytes."""
SALT_BYTES: Final = 16
"""Length of the salt of each line."""
VERSION: Final = 1
_HEAD: Final = Struct(">BQIq")
"""The part of a header that needs no hash: version, `seq`, number of entries, time."""
# Each kind of hash begins with a label of its own, so that no hash is valid as one of another kind.
_GENESIS: Final = b"graphrt/journal/v1\x00"
_COMMIT: Final = b"graphrt/commit/v1\x00"
_FIELD: Final = b"graphrt/field/v1\x00"
LEAF: Final = "\x00"
"""Key of the last header's hash among the saved digests; no field can have this name."""


@final
class Chain:
    """The end of a thread's hash chain, to which commits are added.

    Args:
        thread: Id of the thread that the chain began with.
        digests: What `saved` returned, to go on from a snapshot; None at the beginning.
    """

    __slots__ = ("_labels", "digests", "leaf")

    def __init__(self, thread: str, digests: Mapping[str, str] | None = None) -> None:
        self.digests: dict[str, bytes] = {name: bytes.fromhex(value) for name, value in (digests or {}).items()}
        """Field to its rolling digest."""
        self._labels: list[tuple[str, bytes]] = []
        """Fields in order of their names, each with the bytes that stand before its digest in the hash of the state."""
        self.leaf: bytes = self.digests.pop(LEAF, b"") or sha256(_GENESIS + thread.encode()).digest()
        """Hash of the last header, which becomes `prev` of the next one."""

    def saved(self) -> dict[str, str]:
        """Return what a snapshot keeps of the chain: digests in hexadecimal, by field, and the leaf under `LEAF`."""
        return {LEAF: self.leaf.hex(), **{name: value.hex() for name, value in sorted(self.digests.items())}}

    def seal(
        self,
        seq: int,
        count: int,
        at: float,
        lines: Sequence[bytes],
        written: Iterable[tuple[str, int]],
        seed: int | None,
    ) -> bytes:
        """Add a commit to the chain, and return its seal: the header and the salts.

        Args:
            seq: Number of the commit's last entry.
            count: Number of its entries.
            at: Seconds since the epoch.
            lines: Its body without the checksum, the structure first.
            written: Fields of the state and the numbers of the lines that were folded into them, in order.
            seed: Makes the salts the same in every run (R13); None draws them at random.

        Raises:
            InputError: *at* does not fit into a header; the chain is unchanged.
        """
        try:
            # Before anything is hashed: a time that does not fit must leave the chain unchanged.
            head = _HEAD.pack(VERSION, seq, count, round(at * 1e6))
        except (error, TypeError, ValueError, OverflowError) as cause:
            raise TIME_CANNOT_BE_SEALED(at=at, latest_s=LATEST_S, seq=seq) from cause
        size = SALT_BYTES * len(lines)
        salts = urandom(size) if seed is None else _salts(seed, seq, size)
        header = self._header(head, lines, written, salts)
        self.leaf = sha256(b"\x00" + header).digest()
        return header + salts

    def _header(self, head: bytes, lines: Sequence[bytes], written: Iterable[tuple[str, int]], salts: bytes) -> bytes:
        """Return the header of a commit, and extend the digests of the fields that it wrote."""
        # Loops, because comprehensions cost a call before CPython 3.12 (PEP 709), and this runs for every record.
        commits: list[bytes] = []
        begin = 0
        for line in lines:
            end = begin + SALT_BYTES
            commits.append(sha256(_COMMIT + salts[begin:end] + line).digest())
            begin = end
        digests = self.digests
        for name, number in written:
            before = digests[name] if name in digests else b""  # noqa: SIM401 - saves a call per field
            # The commitment, not the line: a digest over the line would have no salt, and would confirm a guess of it.
            digests[name] = sha256(_FIELD + before + commits[number]).digest()
        return head + self.leaf + sha256(b"".join(commits)).digest() + self._fields()

    def _fields(self) -> bytes:
        """Return the hash of the state: SHA-256 over names and digests of all fields."""
        digests = self.digests
        labels = self._labels
        # Fields are only ever added, so the count tells whether one is new.
        if len(labels) != len(digests):
            labels = self._labels = [(name, name.encode() + b"\x00") for name in sorted(digests)]
        state = b""
        for name, label in labels:
            state += label + digests[name]
        return sha256(state).digest()

    def check(
        self, seq: int, count: int, at: float, lines: Sequence[bytes], written: Iterable[tuple[str, int]], seal: bytes
    ) -> None:
        """Verify a stored commit against its *seal*, and add it to the chain; for *written* see `seal`.

        Raises:
            StoreError: The commit was changed, or is not the one that follows.
        """
        header, salts = seal[: HEADER.size], seal[HEADER.size :]
        head = _head(seq, count, at)
        if len(salts) != SALT_BYTES * len(lines) or header != self._header(head, lines, written, salts):
            raise _misfit(seq, count)
        self.leaf = sha256(b"\x00" + header).digest()


@final
class Links:
    """Verifies records in sequence without the state: that each is what was sealed, and follows the one before.

    The hash of the state in a header is not verified: that needs everything that was ever written.

    Args:
        thread: Id that the chain began with, if the first record is the first of the thread. None accepts any first
            record as being in its place.
    """

    __slots__ = ("_leaf",)

    def __init__(self, thread: str | None) -> None:
        self._leaf = b"" if thread is None else sha256(_GENESIS + thread.encode()).digest()

    def check(self, seq: int, count: int, at: float, lines: Sequence[bytes], seal: bytes) -> None:
        """Verify the next commit; see `Chain.check`.

        Raises:
            StoreError: The commit was changed, or is not the one that follows.
        """
        header, salts = seal[: HEADER.size], seal[HEADER.size :]
        if len(salts) != SALT_BYTES * len(lines):
            raise _misfit(seq, count)
        commits = b""
        for at_line, line in enumerate(lines):
            salt = salts[SALT_BYTES * at_line : SALT_BYTES * (at_line + 1)]
            commits += sha256(_COMMIT + salt + line).digest()
        # If the record before is not known, the first one's own `prev` is taken as right.
        before = self._leaf or header[_HEAD.size : _HEAD.size + 32]
        if header[: _HEAD.size + 64] != _head(seq, count, at) + before + sha256(commits).digest():
            raise _misfit(seq, count)
        self._leaf = sha256(b"\x00" + header).digest()


def _head(seq: int, count: int, at: float) -> bytes:
    """Return the beginning of a header, or nothing if the numbers do not fit: then no seal matches."""
    try:
        return _HEAD.pack(VERSION, seq, count, round(at * 1e6))
    except (error, ValueError, OverflowError):
        return b""


def _misfit(seq: int, count: int) -> StoreError:
    return BROKEN_SEAL(
        seq=seq,
        or_fork=", or fork the thread from an entry before it." if seq > count else ".",
        known=f"entries before {seq - count + 1} are as they were written" if seq > count else "it is the first",
    )


def _salts(seed: int, seq: int, size: int) -> bytes:
    """Return the salts of a seeded run. Anyone who knows the seed can compute them, and confirm a guess of a line."""
    return shake_256(f"graphrt/salt/{seed}/{seq}".encode()).digest(size)
