"""Clauses on erasure: records get other bodies, and what repeats them goes, in one transaction with a commit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from graphrt.errors import ConflictError, InputError
from graphrt.stores.values import Claim, Commit, Record, StoredSnapshot
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def erase_replaces_records(w: World) -> None:
    """`erase` gives records another body and seal, keeps the others, and appends the records of its commit."""
    claim = _erasable(w)
    _erase(w, claim, Commit(6, AT, [entry(7)]), records=[_two(4)])
    same(w.bodies(), [b"2", b"gone", b"6", b"7"], "records")
    same([record.seal for record in w.store.records("t")], [b"", b"new", b"", b""], "seals")


def erase_forgets_later_snapshots(w: World) -> None:
    """Snapshots of entries after the one named are gone; one that the commit brings stays."""
    claim = _erasable(w)
    _erase(w, claim, Commit(6, AT, [entry(7)]), records=[_two(4)], snapshots_after=3)
    same((w.load().snapshot or StoredSnapshot(0, b"")).seq, 2, "newest snapshot")
    _erase(w, claim, Commit(7, AT, [entry(8)], snapshot=StoredSnapshot(2, b"other")), snapshots_after=0)
    same(w.load().snapshot, StoredSnapshot(2, b"other"), "snapshot of the commit")


def erase_forgets_other_blobs(w: World) -> None:
    """Blobs that are not named are gone, and one that the commit brings under their name is stored."""
    claim = _erasable(w)
    _erase(w, claim, Commit(6, AT, [entry(7)]), keep_blobs=iter(["b", "x"]))
    same(w.store.blobs("t", ["a", "b"]), {"b": b"large b"}, "blobs")
    _erase(w, claim, Commit(7, AT, [entry(8)], blobs={"b": b"new"}), keep_blobs=[])
    same(w.store.blobs("t", ["a", "b"]), {"b": b"new"}, "blobs when the commit brings one")


def erase_replaces_what_is_staged(w: World) -> None:
    """A staged body of the commit takes the place of the one with its key."""
    claim = _erasable(w)
    w.store.commit(claim, Commit(6, AT, stage=[("k", b"v"), ("l", b"w")]))
    _erase(w, claim, Commit(6, AT, [entry(7)], stage=[("k", b"gone")]))
    same([tuple(item) for item in w.load().staged], [("k", b"gone"), ("l", b"w")], "staged")


def erase_of_an_unknown_record_changes_nothing(w: World) -> None:
    """A record that is not stored with these numbers is refused, and nothing was changed."""
    claim = _erasable(w)
    commit = Commit(6, AT, [entry(7)])
    for wrong in (Record(5, 1, b"x"), Record(4, 1, b"x"), Record(9, 2, b"x")):
        call = partial(_erase, w, claim, commit, records=[_two(4), wrong], snapshots_after=0, keep_blobs=[])
        refused(InputError, call, f"erase of {wrong}")
    same(w.bodies(), [b"2", b"4", b"6"], "records")
    same((w.load().snapshot or StoredSnapshot(0, b"")).seq, 4, "newest snapshot")
    same(sorted(w.store.blobs("t", ["a", "b"])), ["a", "b"], "blobs")


def erase_checks_the_last_entry(w: World) -> None:
    """An `erase` that expects another last entry is refused, and nothing was changed."""
    claim = _erasable(w)
    commit = Commit(5, AT, [entry(6)])
    refused(ConflictError, lambda: _erase(w, claim, commit, records=[_two(4)]), "erase after entry 5")
    same(w.bodies(), [b"2", b"4", b"6"], "records")


def erase_needs_the_claim(w: World) -> None:
    """Under a claim that was released, nothing is erased."""
    claim = _erasable(w)
    w.store.release(claim)
    commit = Commit(6, AT, [entry(7)])
    refused(ConflictError, lambda: _erase(w, claim, commit, records=[_two(4)]), "erase after release")
    same(w.bodies(), [b"2", b"4", b"6"], "records")


def erase_can_release(w: World) -> None:
    """A commit that releases the thread does so, and the next claim continues."""
    claim = _erasable(w)
    _erase(w, claim, Commit(6, AT, [entry(7)], release=True), records=[_two(4)])
    again = w.claim()
    w.store.commit(again, Commit(7, AT, [entry(8)]))
    same(w.bodies(), [b"2", b"gone", b"6", b"7", b"8"], "records")


def _erase(
    w: World,
    claim: Claim,
    commit: Commit,
    *,
    records: Iterable[Record] = (),
    snapshots_after: int = 6,
    keep_blobs: Iterable[str] = ("a", "b"),
) -> None:
    w.store.erase(claim, commit, records=records, snapshots_after=snapshots_after, keep_blobs=keep_blobs)


def _two(seq: int) -> Record:
    return Record(seq, 2, b"gone", b"new")


def _erasable(w: World) -> Claim:
    """Create a thread of three records of two entries each, with two snapshots and two blobs, and return the claim."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [Record(2, 2, b"2")], snapshot=StoredSnapshot(2, b"s2")))
    w.store.commit(claim, Commit(2, AT, [Record(4, 2, b"4", b"seal")], snapshot=StoredSnapshot(4, b"s4")))
    blobs = {"a": b"large a", "b": b"large b"}
    w.store.commit(claim, Commit(4, AT, [Record(6, 2, b"6")], blobs=blobs))
    return claim
