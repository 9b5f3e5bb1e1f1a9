"""Merkle trees: the published vectors of RFC 6962 implementations, and proofs against a tree built by its definition."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt._journal.merkle import Tree, consistency_proof, extends, includes, inclusion_proof, root_of

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


def test_published_roots() -> None:
    tree = Tree()
    assert tree.root() == sha256(b"").digest()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.add(leaf)
        assert tree.root().hex() == root
        assert by_definition(LEAVES[: tree.size]).hex() == root


def test_published_proofs() -> None:
    proof = inclusion_proof(LEAVES, 5)
    assert [one.hex()[:8] for one in proof] == ["bc1a0643", "ca854ea1", "d37ee418"]
    proof = consistency_proof(LEAVES, 6)
    assert [one.hex()[:8] for one in proof] == ["0ebc5d34", "ca854ea1", "d37ee418"]


@pytest.mark.parametrize("size", range(1, 34))
def test_every_proof_of_a_small_tree(size: int) -> None:
    leaves = many(size)
    root = root_of(leaves)
    assert root == by_definition(leaves)
    for index, leaf in enumerate(leaves):
        proof = inclusion_proof(leaves, index)
        assert includes(root, size, leaf, index, proof)
        assert not includes(root, size, leaf, index + 1, proof)
        assert not includes(root, size, sha256(leaf).digest(), index, proof)
        assert not includes(root, size, leaf, index, [*proof, leaf])
        assert not proof or not includes(root, size, leaf, index, proof[:-1])
    for old in range(1, size + 1):
        before, proof = root_of(leaves[:old]), consistency_proof(leaves, old)
        assert extends(before, old, root, size, proof)
        assert not extends(sha256(before).digest(), old, root, size, proof)
        assert not extends(before, old, sha256(root).digest(), size, proof)
        assert not extends(before, old, root, size, [*proof, root])
        assert old == size or not extends(before, old, root, size, proof[:-1])


@given(size=st.integers(1, 300), data=st.data())
def test_changed_proof_shows_nothing(size: int, data: st.DataObject) -> None:
    leaves = many(size)
    old = data.draw(st.integers(1, size))
    proof = consistency_proof(leaves, old)
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        changed = [*proof[:at], sha256(proof[at]).digest(), *proof[at + 1 :]]
        assert not extends(root_of(leaves[:old]), old, root_of(leaves), size, changed)
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(leaves, index)
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        changed = [*proof[:at], sha256(proof[at]).digest(), *proof[at + 1 :]]
        assert not includes(root_of(leaves), size, leaves[index], index, changed)


@pytest.mark.parametrize("wrong", [-1, 0, 4])
def test_proof_about_what_is_not_there_is_refused(wrong: int) -> None:
    with pytest.raises(IndexError):
        consistency_proof(many(3), wrong)
    with pytest.raises(IndexError):
        inclusion_proof(many(3), wrong or 3)
    assert not extends(bytes(32), wrong, bytes(32), 3, [])
    assert not includes(bytes(32), 3, bytes(32), wrong or 3, [])
