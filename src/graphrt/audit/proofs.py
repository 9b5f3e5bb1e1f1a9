"""Extracts proofs from an audit log: documents of a few hundred bytes that `offline` checks without the log.

- A proof of *inclusion* holds one record, and shows that it is in the log that a head covers.
- A proof of *consistency* holds two heads, and shows that the newer one only adds records to the older one.

Both kinds use the Merkle proofs of RFC 9162 (sections 2.1.3 and 2.1.4) over the leaves of the records. They are
extracted from a log in its portable form, whose needed part has to be sound. `offline`, which does not need graphrt,
checks them. A pruned log holds the roots of the pruned leaves, which suffices for most proofs about later records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, final

from graphrt._journal.merkle import joined, root_of
from graphrt._journal.seal import leaf_in
from graphrt.audit._lines import line_of, record_line
from graphrt.audit._restore import Log, bytes_of
from graphrt.audit.offline import BAD_DATA, CONSISTENCY, INCLUSION, Source, TreeHead, genesis
from graphrt.errors._codes.audit import NOT_PROVABLE

_NOT_KEPT: Final = "it began with a prune after these records, and does not hold what the proof needs"


def inclusion_proof(log: Source, seq: int) -> bytes:
    """Return the proof that the log contains the record with entry *seq*, against the first head that covers it.

    The proof contains the record as it is in the log, without lines that were withheld or erased there.

    Args:
        log: A log in its portable form.
        seq: Number of an entry.

    Returns:
        One line of JSON, for `graphrt.audit.offline.check_inclusion`.

    Raises:
        InputError: The log has no such entry, no head after it, or cannot be read (`not-provable`).
    """
    read = _Read(log)
    position = next((number for number, record in enumerate(read.records) if record.seq >= seq), None)
    if position is None or seq < 1 or seq <= read.begun:
        raise NOT_PROVABLE(problem=f"it has no entry {seq}")
    index = read.base + position
    head = next((candidate for candidate in read.heads if candidate["size"] > index), None)
    if head is None:
        raise NOT_PROVABLE(problem=f"it has no head after entry {seq}")
    path = read.inclusion(index, 0, head["size"])
    prev = read.leaves[position - 1] if position else read.before
    record = read.records[position]
    return line_of(
        {
            "head": head,
            "index": index,
            "path": [part.hex() for part in path],
            "prev": prev.hex(),
            "proof": INCLUSION,
            "record": json.loads(record_line(record.seq, record.count, record.body.split(b"\n")[:-1], record.seal)),
        }
    )


def consistency_proof(log: Source, old: Mapping[str, Any], new: Mapping[str, Any] | None = None) -> bytes:
    """Return the proof that the head *new* only adds records to the head *old*.

    Args:
        log: A log in its portable form.
        old: A head in the form that anchors keep: the value of `"head"` in a line.
        new: A later head of the same log; None uses the last head in the log.

    Returns:
        One line of JSON, for `graphrt.audit.offline.check_consistency`.

    Raises:
        InputError: The log does not reach the newer head, has no head, or cannot be read (`not-provable`).
    """
    read = _Read(log)
    later = new if new is not None else read.heads[-1] if read.heads else None
    if later is None:
        raise NOT_PROVABLE(problem="it has no head")
    try:
        begin, end = TreeHead.from_dict(dict(old)).size, TreeHead.from_dict(dict(later)).size
    except (ValueError, KeyError, TypeError) as error:
        raise NOT_PROVABLE(problem="one of the heads is not a head") from error
    if not begin <= end <= read.base + len(read.leaves):
        has = read.base + len(read.leaves)
        raise NOT_PROVABLE(problem=f"it has {has} records, and the heads cover {begin} and {end}")
    path = [part.hex() for part in read.consistency(begin, 0, end)]
    return line_of({"new": dict(later), "old": dict(old), "path": path, "proof": CONSISTENCY})


@final
class _Read:
    """The parts of a log that proofs need: its leaves, its heads, and the positions of its records."""

    def __init__(self, source: Source) -> None:
        try:
            log = Log(bytes_of(source), strict=True)
            self.records: Final = log.records
            self.heads: Final = log.heads
            for head in log.heads:
                TreeHead.from_dict(head)
            self.leaves: Final = [leaf_in(record.seal) for record in log.records]
            self.before = genesis(log.log)
            """Leaf of the record before the first one."""
            self.base = self.begun = 0
            """Number of records before the file, and the last entry before it."""
            self._roots: dict[tuple[int, int], bytes] = {}
            """Roots of the complete subtrees before the file, by first leaf and size."""
            if log.begin:
                self._begin(log.begin)
        except BAD_DATA as error:
            raise NOT_PROVABLE(problem="it cannot be read; verify() says why") from error

    def _begin(self, begin: Mapping[str, Any]) -> None:
        digests: Mapping[str, str] = begin["digests"]
        self.begun, self.before = int(begin["seq"]), bytes.fromhex(digests["\x00"])
        size, _, roots = digests.get("\x00tree", "0:").partition(":")
        self.base = int(size)
        first = 0
        for number in range(self.base.bit_count()):
            subtree_size = 1 << (self.base - first).bit_length() - 1
            self._roots[first, subtree_size] = bytes.fromhex(roots[64 * number : 64 * number + 64])
            first += subtree_size

    def _root(self, begin: int, end: int) -> bytes:
        """Return the root of the leaves from *begin* to before *end*."""
        if begin >= self.base:
            return root_of(self.leaves[begin - self.base : end - self.base])
        stored = self._roots.get((begin, end - begin))
        if stored is not None:
            return stored
        if end - begin == 1:
            raise NOT_PROVABLE(problem=_NOT_KEPT)
        middle = begin + _split(end - begin)
        return joined(self._root(begin, middle), self._root(middle, end))

    def inclusion(self, index: int, begin: int, end: int) -> list[bytes]:
        """Return the path from a leaf to the root of the leaves from *begin* to before *end* (RFC 9162, 2.1.3.1)."""
        if end - begin == 1:
            return []
        middle = begin + _split(end - begin)
        if index < middle:
            return [*self.inclusion(index, begin, middle), self._root(middle, end)]
        return [*self.inclusion(index, middle, end), self._root(begin, middle)]

    def consistency(self, size: int, begin: int, end: int, *, whole: bool = True) -> list[bytes]:
        """Return the path from the tree of the first *size* leaves from *begin* to that of all (RFC 9162, 2.1.4.1).

        *whole* says whether the older tree begins there, which means that the verifier knows its root.
        """
        if size == end - begin:
            return [] if whole else [self._root(begin, end)]
        middle = begin + _split(end - begin)
        if size <= middle - begin:
            return [*self.consistency(size, begin, middle, whole=whole), self._root(middle, end)]
        left_size = middle - begin
        return [*self.consistency(size - left_size, middle, end, whole=False), self._root(begin, middle)]


def _split(size: int) -> int:
    """Return the largest power of two that is less than *size*."""
    return 1 << (size - 1).bit_length() - 1
