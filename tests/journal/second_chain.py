"""A second implementation of the hash chain, based only on docs/reference/journal.md and decision 0021.

Reads the rows of a SQLite file with sqlite3, json, struct and hashlib. It must not import graphrt, because it
represents an independent verifier of journals.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HEADER = ">BQIq8s32s32s32s"
FIXED = ">BB8s32s32s"
SALT_BYTES = 16
SPAN = 2**36


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


class Header(NamedTuple):
    version: int
    seq: int
    count: int
    at: int
    kid: bytes
    prev: bytes
    body: bytes
    state: bytes

    def packed(self) -> bytes:
        return struct.pack(HEADER, *self)

    def leaf(self) -> bytes:
        return sha(b"\x00", self.packed())


class Row(NamedTuple):
    """A stored record: lines without the checksum, and a salt for each. Removed ones are None."""

    seq: int
    count: int
    kid: bytes
    state: bytes
    leaf: bytes
    lines: tuple[bytes | None, ...]
    salts: tuple[bytes | None, ...]

    def sealed(self, header: Header) -> bool:
        """Whether *header* is the sealed one."""
        return (header.kid, header.state, header.leaf()) == (self.kid, self.state, self.leaf)

    def commitments(self) -> tuple[bytes | None, ...]:
        return tuple(
            None if line is None or salt is None else sha(b"graphrt/commit/v1\x00", salt, line)
            for line, salt in zip(self.lines, self.salts, strict=True)
        )


class Thread(NamedTuple):
    chained: str
    """The id of the thread that the chain began with."""
    names: list[str]
    rows: list[Row]
    pruned: int = 0
    """Number of the last removed entry."""
    saved: dict[str, str] | None = None
    """The chain in the snapshot after it."""


def thread_in(path: Path, thread: str) -> Thread:
    """The thread's rows, read with a separate connection."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        [(no, first)] = db.execute("SELECT no, first FROM thread WHERE id = ?", (thread,)).fetchall()
        [(meta,)] = db.execute("SELECT body FROM part WHERE no = ? AND kind = 0", (no,)).fetchall()
        records = db.execute(
            "SELECT key, count, body, seal FROM record WHERE key > ? AND key < ? ORDER BY key",
            (no * SPAN, (no + 1) * SPAN),
        ).fetchall()
        snapshots = db.execute(
            "SELECT body FROM part WHERE no = ? AND kind = 1 AND name = ?", (no, first - 1)
        ).fetchall()
    told = json.loads(meta)
    rows = [row(key - no * SPAN, *rest) for key, *rest in records]
    saved = saved_in(snapshots[0][0]) if snapshots else None
    return Thread(told["chained"], told["names"], rows, first - 1 if first > 1 else 0, saved)


def saved_in(snapshot: bytes) -> dict[str, str]:
    """The chain so far, as a snapshot stores it: the seventeenth field of its only event."""
    [[_, _, *form]] = json.loads(snapshot.split(b"\n")[0])[5]
    digests: dict[str, str] = form[16]
    return digests


def row(seq: int, count: int, body: bytes, seal: bytes) -> Row:
    lines = tuple(body.split(b"\n")[:-1])
    version, macs, kid, state, leaf = struct.unpack_from(FIXED, seal)
    assert (version, macs, kid, len(seal)) == (2, 0, bytes(8), struct.calcsize(FIXED) + 16)
    salts = hashlib.shake_256(b"graphrt/salts/v2\x00" + seal[-16:]).digest(SALT_BYTES * len(lines))
    parts = tuple(salts[at : at + SALT_BYTES] for at in range(0, len(salts), SALT_BYTES))
    return Row(seq, count, kid, state, leaf, lines, parts)


def pairs(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(flat[::2], flat[1::2], strict=True)


def folded(structure: Any) -> Iterator[tuple[int, int]]:
    """Name and line of every value that the entries fold into fields at the top, in order."""
    for code, path, *form in structure[5]:
        if path != 0:
            continue
        match code:
            case 1:
                updates = form[4:5]
            case 8:
                updates = form[1:2] and (form[1] or [])
            case 14:
                updates = form[0:1]
            case 16:
                updates = form[2][0:1]
            case 17:
                updates = form[3:4]
            case _:
                updates = []
        for update in updates:
            yield from pairs(update or [])


def rolled(before: bytes, commitment: bytes) -> bytes:
    return sha(b"graphrt/field/v1\x00", before, commitment)


class Chain:
    """The chain so far. A removed line leaves one hash: its commitment.

    It starts with the thread, or with the chain in the first snapshot if earlier entries are gone.
    """

    def __init__(self, chained: str, names: Iterable[str], saved: Mapping[str, str] | None = None) -> None:
        kept = {name: bytes.fromhex(digest) for name, digest in (saved or {}).items() if name != "\x00tree"}
        self.prev = kept.pop("\x00", b"") or sha(b"graphrt/journal/v1\x00", chained.encode())
        self.digests = kept
        self.names = list(names)

    def header(self, row: Row, commitments_kept: Mapping[int, bytes] | None = None) -> Header:
        """The header of *row*, computed from the remaining data; the chain then includes it."""
        kept = commitments_kept or {}
        first = row.lines[0]
        assert first is not None
        structure = json.loads(first)
        commitments = [kept[at] if one is None else one for at, one in enumerate(row.commitments())]
        for number, at in folded(structure):
            name = self.names[number]
            self.digests[name] = rolled(self.digests.get(name, b""), commitments[at])
        state = b"".join(name.encode() + b"\x00" + digest for name, digest in sorted(self.digests.items()))
        at = round(structure[1] * 1_000_000)
        made = Header(2, row.seq, row.count, at, row.kid, self.prev, sha(*commitments), sha(state))
        self.prev = made.leaf()
        return made


def verify(thread: Thread) -> int:
    """How many records equal the sealed ones, from the first on."""
    chain, seq = Chain(thread.chained, thread.names, thread.saved), thread.pruned
    for done, row in enumerate(thread.rows):
        if row.seq - row.count != seq or not row.sealed(chain.header(row)):
            return done
        seq = row.seq
    return len(thread.rows)
