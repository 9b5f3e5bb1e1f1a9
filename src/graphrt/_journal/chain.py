"""The hash chain over the journal: a small header for each commit, and salted commitments to its lines.

A header names the header before it, the lines of its own commit and the state after it, and holds no value of the
user's. It is what a signature, a MAC or a Merkle tree stands on later; a line and its salt can be taken away, and the
chain still holds. The layout is fixed, so that there is one way only to write a header (decision 0021):

    version u8 | seq u64 | entries u32 | at i64, microseconds | prev 32 | body 32 | state 32        big-endian, 117 bytes

`prev` is SHA-256 of 0x00 and the header before (RFC 6962, a leaf); of the first one it stands for the thread.
`body` is SHA-256 over the commitments of the lines, each SHA-256 of a label, 16 bytes of salt, and the line.
`state` is SHA-256 over the fields' rolling digests, by name. A field's digest is a chain over the commitments of the
lines that were folded into it: it is extended, never computed anew, however large the field has grown. Of a line nothing
but its commitment goes into a header: without the salt none of these hashes tells whether a guess of the line is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256, shake_256
from os import urandom
from struct import Struct, error
from typing import Final, final

from graphrt._journal.batch import LATEST_S
from graphrt.errors import InputError, StoreError

HEADER: Final = Struct(">BQIq32s32s32s")
SALT_BYTES: Final = 16
VERSION: Final = 1
_HEAD: Final = Struct(">BQIq")
"""What of a header can be told without a hash."""
_GENESIS: Final = b"graphrt/journal/v1\x00"
_COMMIT: Final = b"graphrt/commit/v1\x00"
_FIELD: Final = b"graphrt/field/v1\x00"
LEAF: Final = "\x00"
"""Key of the last header's hash beside the digests of fields: no field has this name."""


@final
class Chain:
    """The end of a thread's chain, to which commits are added."""

    __slots__ = ("_labels", "digests", "leaf")

    def __init__(self, thread: str, digests: Mapping[str, str] | None = None) -> None:
        self.digests: dict[str, bytes] = {name: bytes.fromhex(value) for name, value in (digests or {}).items()}
        """Field to its rolling digest."""
        self._labels: list[tuple[str, bytes]] = []
        """Fields with digests in order, and what stands before each digest. Names are only ever added."""
        self.leaf: bytes = self.digests.pop(LEAF, b"") or sha256(_GENESIS + thread.encode()).digest()

    def saved(self) -> dict[str, str]:
        """What a snapshot keeps of the chain."""
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
        """The seal of a commit, which is added to the chain.

        Args:
            at: Seconds since the epoch.
            written: Fields of the state and the numbers of the lines that were folded into them, in order.
            seed: Makes the same salts in every run; None draws them.

        Raises:
            InputError: *at* is no time that a header can hold; the chain is as it was.
        """
        try:
            head = _HEAD.pack(VERSION, seq, count, round(at * 1e6))
        except (error, TypeError, ValueError, OverflowError) as cause:
            raise InputError(
                f"The clock returned {at!r}, which cannot be sealed as a time.",
                known=f"times are seconds since the epoch, at most {LATEST_S:.0f} before or after it",
                fix="Give Runtime a clock that tells seconds, as time.time does.",
                seq=seq,
            ) from cause
        size = SALT_BYTES * len(lines)
        salts = urandom(size) if seed is None else _salts(seed, seq, size)
        header = self._header(head, lines, written, salts)
        self.leaf = sha256(b"\x00" + header).digest()
        return header + salts

    def _header(self, head: bytes, lines: Sequence[bytes], written: Iterable[tuple[str, int]], salts: bytes) -> bytes:
        # Loops, not comprehensions: this is done for every commit, and for every record that is read.
        commits: list[bytes] = []
        begin = 0
        for line in lines:
            end = begin + SALT_BYTES
            commits.append(sha256(_COMMIT + salts[begin:end] + line).digest())
            begin = end
        digests = self.digests
        for name, number in written:
            before = digests[name] if name in digests else b""  # noqa: SIM401 - a call less, for each field
            digests[name] = sha256(_FIELD + before + commits[number]).digest()
        return head + self.leaf + sha256(b"".join(commits)).digest() + self._fields()

    def _fields(self) -> bytes:
        """The digest of the fields' digests."""
        digests = self.digests
        labels = self._labels
        if len(labels) != len(digests):
            labels = self._labels = [(name, name.encode() + b"\x00") for name in sorted(digests)]
        state = b""
        for name, label in labels:
            state += label + digests[name]
        return sha256(state).digest()

    def check(
        self, seq: int, count: int, at: float, lines: Sequence[bytes], written: Iterable[tuple[str, int]], seal: bytes
    ) -> None:
        """Take in a stored commit, if it is what was sealed; for *written* see `seal`.

        Raises:
            StoreError: It was changed, or stands where it does not belong.
        """
        header, salts = seal[: HEADER.size], seal[HEADER.size :]
        head = _head(seq, count, at)
        if len(salts) != SALT_BYTES * len(lines) or header != self._header(head, lines, written, salts):
            raise _misfit(seq, count)
        self.leaf = sha256(b"\x00" + header).digest()


@final
class Links:
    """Checks records one after another for who has not the state: that each is what was sealed, and follows the last.

    Only the digests of the fields in a header are not looked at, for which all that was ever written is needed.

    Args:
        thread: The id that the chain began with, if the first record is the first of the thread; else None: whatever
            comes first is taken to be in its place.
    """

    __slots__ = ("_leaf",)

    def __init__(self, thread: str | None) -> None:
        self._leaf = b"" if thread is None else sha256(_GENESIS + thread.encode()).digest()

    def check(self, seq: int, count: int, at: float, lines: Sequence[bytes], seal: bytes) -> None:
        """Take in the next commit; see `Chain.check`.

        Raises:
            StoreError: It was changed, or stands where it does not belong.
        """
        header, salts = seal[: HEADER.size], seal[HEADER.size :]
        if len(salts) != SALT_BYTES * len(lines):
            raise _misfit(seq, count)
        commits = b""
        for at_line, line in enumerate(lines):
            salt = salts[SALT_BYTES * at_line : SALT_BYTES * (at_line + 1)]
            commits += sha256(_COMMIT + salt + line).digest()
        before = self._leaf or header[_HEAD.size : _HEAD.size + 32]
        if header[: _HEAD.size + 64] != _head(seq, count, at) + before + sha256(commits).digest():
            raise _misfit(seq, count)
        self._leaf = sha256(b"\x00" + header).digest()


def _head(seq: int, count: int, at: float) -> bytes:
    """What a header begins with; nothing if no header can say this."""
    try:
        return _HEAD.pack(VERSION, seq, count, round(at * 1e6))
    except (error, ValueError, OverflowError):
        return b""


def _misfit(seq: int, count: int) -> StoreError:
    return StoreError(
        f"Entry {seq} of the journal is not what was written: its seal does not fit.",
        code="store-damaged",
        known=f"entries before {seq - count + 1} are as they were written" if seq > count else "it is the first",
        fix="Restore the database from a backup"
        + (", or fork the thread from an entry before it." if seq > count else "."),
        seq=seq,
    )


def _salts(seed: int, seq: int, size: int) -> bytes:
    return shake_256(f"graphrt/salt/{seed}/{seq}".encode()).digest(size)
