"""Merkle trees as RFC 9162 defines them: roots of a growing list of leaves.

A node is the SHA-256 of the byte 1 and its two children. The caller hashes leaves with the byte 0, so that a leaf can
never be mistaken for a node. The hash chain keeps such a tree over its records, so that one root represents all of
them.

This module does not know what a leaf is. Proofs are created in `audit.proofs`, and checked in `audit.offline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import final


def joined(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with the children *left* and *right*."""
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
        """Add a leaf, the hash of a record. Takes one hash on average."""
        node, size, roots = leaf, self.size, self.roots
        # Like a carry in binary addition: each trailing set bit of the size is a complete subtree as large as the
        # current node.
        while size & 1:
            node = sha256(b"\x01" + roots.pop() + node).digest()  # the same as `joined`, inlined to save a call
            size >>= 1
        roots.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Return the root; for an empty tree, the hash of empty input."""
        if not self.roots:
            return sha256(b"").digest()
        node = self.roots[-1]  # the smallest subtree is the rightmost
        for left in reversed(self.roots[:-1]):
            node = joined(left, node)
        return node


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of a tree of *leaves*."""
    tree = Tree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root()
