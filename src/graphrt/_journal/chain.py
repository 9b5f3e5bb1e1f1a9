"""The hash chain over the journal: a small header for each commit, and salted commitments to its lines.

A header names the header before it, the lines of its own commit and the state after it, and holds no value of the
user's. It is what a signature, a MAC or a Merkle tree stands on later; a line and its salt can be taken away, and the
chain still holds. The layout is fixed, so that there is one way only to write a header (decision 0021):

    version u8 | seq u64 | entries u32 | at i64, microseconds | prev 32 | body 32 | state 32        big-endian, 117 bytes

`prev` is SHA-256 of 0x00 and the header before (RFC 6962, a leaf); of the first one it stands for the thread.
`body` is SHA-256 over the commitments of the lines, each SHA-256 of a label, 16 bytes of salt, and the line.
`state` is SHA-256 over the fields' rolling digests, by name. A field's digest is a chain over all that was folded into
it: it is extended, never computed anew, however large the field has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from struct import Struct
from typing import Final, final

from graphrt.errors import StoreError

HEADER: Final = Struct(">BQIq32s32s32s")
SALT_BYTES: Final = 16
VERSION: Final = 1
_GENESIS: Final = b"graphrt/journal/v1\x00"
_COMMIT: Final = b"graphrt/commit/v1\x00"
_FIELD: Final = b"graphrt/field/v1\x00"
LEAF: Final = "\x00"
"""Key of the last header's hash beside the digests of fields: no field has this name."""


@final
class Chain:
    """The end of a thread's chain, to which commits are added."""

    __slots__ = ("digests", "leaf")

    def __init__(self, thread: str, digests: Mapping[str, str] | None = None) -> None:
        self.digests: dict[str, bytes] = {name: bytes.fromhex(value) for name, value in (digests or {}).items()}
        """Field to its rolling digest."""
        self.leaf: bytes = self.digests.pop(LEAF, b"") or sha256(_GENESIS + thread.encode()).digest()

    def saved(self) -> dict[str, str]:
        """What a snapshot keeps of the chain."""
        return {LEAF: self.leaf.hex(), **{name: value.hex() for name, value in sorted(self.digests.items())}}

    def extend(self, written: Iterable[tuple[str, bytes]]) -> None:
        """Take in what was folded into fields."""
        digests = self.digests
        for name, line in written:
            digests[name] = sha256(_FIELD + digests.get(name, b"") + line).digest()

    def seal(self, seq: int, count: int, at: float, lines: Sequence[bytes], entropy: Callable[[int], bytes]) -> bytes:
        """The seal of a commit, which is added to the chain.

        Args:
            at: Seconds since the epoch.
            entropy: Makes so many random bytes, for the salts.
        """
        salts = entropy(SALT_BYTES * len(lines))
        header = self._header(seq, count, at, lines, salts)
        self.leaf = sha256(b"\x00" + header).digest()
        return header + salts

    def _header(self, seq: int, count: int, at: float, lines: Sequence[bytes], salts: bytes) -> bytes:
        commits = b"".join(
            sha256(_COMMIT + salts[at * SALT_BYTES : (at + 1) * SALT_BYTES] + line).digest()
            for at, line in enumerate(lines)
        )
        digests = self.digests
        state = sha256(b"".join(name.encode() + b"\x00" + digests[name] for name in sorted(digests))).digest()
        return HEADER.pack(VERSION, seq, count, round(at * 1e6), self.leaf, sha256(commits).digest(), state)

    def check(self, seq: int, count: int, at: float, lines: Sequence[bytes], seal: bytes) -> None:
        """Take in a stored commit, if it is what was sealed.

        Raises:
            StoreError: It was changed, or stands where it does not belong.
        """
        header, salts = seal[: HEADER.size], seal[HEADER.size :]
        if len(salts) != SALT_BYTES * len(lines) or header != self._header(seq, count, at, lines, salts):
            raise StoreError(
                f"Entry {seq} of the journal is not what was written: its seal does not fit.",
                code="store-damaged",
                known=f"entries before {seq - count + 1} are as they were written",
                fix="Restore the database from a backup, or fork the thread from an entry before it.",
                seq=seq,
            )
        self.leaf = sha256(b"\x00" + header).digest()
