"""Merkle trees: the published roots of RFC 6962 implementations, and a tree built from its definition."""

from __future__ import annotations

from hashlib import sha256

import pytest

from graphrt._journal.merkle import Tree, root_of

# Inputs and roots of certificate-transparency's reference tree, sizes 1 to 8.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [sha256(b"\x00" + bytes.fromhex(one)).digest() for one in INPUTS]


def by_definition(leaves: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + by_definition(leaves[:split]) + by_definition(leaves[split:])).digest()


def many(size: int) -> list[bytes]:
    return [sha256(b"\x00%d" % number).digest() for number in range(size)]


def test_roots_equal_the_published_ones() -> None:
    tree = Tree()
    assert tree.root() == sha256(b"").digest()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.add(leaf)
        assert tree.root().hex() == root
        assert by_definition(LEAVES[: tree.size]).hex() == root


@pytest.mark.parametrize("size", range(1, 70))
def test_tree_of_any_size_equals_the_definition(size: int) -> None:
    leaves = many(size)
    tree = Tree()
    for leaf in leaves[: size // 2]:
        tree.add(leaf)
    again = Tree(tree.size, tree.roots)  # as stored in a snapshot
    for leaf in leaves[size // 2 :]:
        again.add(leaf)

    assert again.root() == root_of(leaves) == by_definition(leaves)
    assert len(again.roots) == again.size.bit_count()
