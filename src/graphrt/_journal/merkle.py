"""Merkle trees as RFC 9162 defines them: roots of a growing list of leaves, and proofs about it.

A proof shows with a few hashes that a leaf is in a tree (inclusion), or that an older tree is the beginning of a newer
one (consistency). Trees here have at least one leaf wherever a proof is asked for. Nothing here knows what a leaf is.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import final


def joined(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with two children."""
    return sha256(b"\x01" + left + right).digest()


@final
class Tree:
    """A growing tree of which only the roots of its whole subtrees are kept: at most one for each bit of its size.

    Args:
        size: Number of leaves so far.
        roots: Roots of the whole subtrees, the largest first: one for each bit that is set in *size*.
    """

    __slots__ = ("roots", "size")

    def __init__(self, size: int = 0, roots: Sequence[bytes] = ()) -> None:
        self.size: int = size
        self.roots: list[bytes] = list(roots)

    def add(self, leaf: bytes) -> None:
        """Add a leaf. Takes one hash on average."""
        node, size, roots = leaf, self.size, self.roots
        while size & 1:
            node = sha256(b"\x01" + roots.pop() + node).digest()
            size >>= 1
        roots.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Return the root; of an empty tree, the hash of nothing."""
        if not self.roots:
            return sha256(b"").digest()
        node = self.roots[-1]
        for left in reversed(self.roots[:-1]):
            node = joined(left, node)
        return node


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of a tree of *leaves*."""
    tree = Tree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the proof that the leaf number *index*, counted from 0, is in the tree of *leaves* (RFC 9162, 2.1.3.1).

    Raises:
        IndexError: There is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(index)
    begin, end = 0, len(leaves)
    proof: list[bytes] = []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            proof.append(root_of(leaves[middle:end]))
            end = middle
        else:
            proof.append(root_of(leaves[begin:middle]))
            begin = middle
    return proof[::-1]


def includes(root: bytes, size: int, leaf: bytes, index: int, proof: Sequence[bytes]) -> bool:
    """Return whether *proof* shows that *leaf* has the number *index* in the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    fn, sn, node = index, size - 1, leaf
    for part in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            node = joined(part, node)
            while not fn & 1 and fn:
                fn >>= 1
                sn >>= 1
        else:
            node = joined(node, part)
        fn >>= 1
        sn >>= 1
    return sn == 0 and node == root


def consistency_proof(leaves: Sequence[bytes], size: int) -> list[bytes]:
    """Return the proof that the tree of the first *size* leaves is the beginning of the tree of *leaves* (2.1.4.1).

    Raises:
        IndexError: *size* is 0, or greater than the number of leaves.
    """
    if not 0 < size <= len(leaves):
        raise IndexError(size)
    begin, end, whole = 0, len(leaves), True
    proof: list[bytes] = []
    while size != end - begin:
        middle = begin + _split(end - begin)
        if size <= middle - begin:
            proof.append(root_of(leaves[middle:end]))
            end = middle
        else:
            proof.append(root_of(leaves[begin:middle]))
            size -= middle - begin
            begin, whole = middle, False
    if not whole:
        proof.append(root_of(leaves[begin:end]))
    return proof[::-1]


def extends(old_root: bytes, old_size: int, root: bytes, size: int, proof: Sequence[bytes]) -> bool:
    """Return whether *proof* shows that the older tree is the beginning of the newer one (RFC 9162, 2.1.4.2)."""
    if not 0 < old_size <= size:
        return False
    if old_size == size:
        return not proof and old_root == root
    path = list(proof)
    if old_size & (old_size - 1) == 0:  # a whole tree is its own first node
        path.insert(0, old_root)
    if not path:
        return False
    fn, sn = old_size - 1, size - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    old = new = path[0]
    for part in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            old, new = joined(part, old), joined(part, new)
            while not fn & 1 and fn:
                fn >>= 1
                sn >>= 1
        else:
            new = joined(new, part)
        fn >>= 1
        sn >>= 1
    return sn == 0 and old == old_root and new == root


def _split(size: int) -> int:
    """Return the largest power of two that is less than *size*."""
    return 1 << (size - 1).bit_length() - 1
