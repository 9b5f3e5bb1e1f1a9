"""Clauses on the parts of a thread that are not records: staged bodies, snapshots, blobs and meta."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphrt.errors import InputError
from graphrt.stores.values import Claim, Commit, StoredSnapshot
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def staged_bodies_are_in_order(w: World) -> None:
    """Staged bodies come back in the order in which their keys were first staged, over several commits."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("b", b"1"), ("a", b"2")]))
    w.store.commit(claim, Commit(1, AT, stage=[("c", b"3"), ("0", b"4")]))
    same(_staged(w), [("b", b"1"), ("a", b"2"), ("c", b"3"), ("0", b"4")], "staged")


def a_staged_key_is_replaced_in_place(w: World) -> None:
    """Staging a key again replaces its body and keeps its place."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"1"), ("b", b"2"), ("c", b"3")]))
    w.store.commit(claim, Commit(1, AT, stage=[("b", b"new"), ("d", b"4")]))
    same(_staged(w), [("a", b"1"), ("b", b"new"), ("c", b"3"), ("d", b"4")], "staged")


def a_key_twice_in_one_commit(w: World) -> None:
    """The last body of a key wins within one commit too."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"1"), ("b", b"2"), ("a", b"3")]))
    same(_staged(w), [("a", b"3"), ("b", b"2")], "staged")


def unstage_forgets_what_was_staged(w: World) -> None:
    """`unstage` removes everything staged before."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"1"), ("b", b"2")]))
    w.store.commit(claim, Commit(1, AT, [entry(2)], unstage=True))
    same(_staged(w), [], "staged after unstage")


def unstage_comes_before_stage(w: World) -> None:
    """A commit that unstages keeps what it stages itself."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"1"), ("b", b"2")]))
    w.store.commit(claim, Commit(1, AT, unstage=True, stage=[("b", b"3"), ("z", b"4")]))
    same(_staged(w), [("b", b"3"), ("z", b"4")], "staged")


def a_key_that_was_unstaged_is_new(w: World) -> None:
    """After `unstage` the order of keys starts over."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"1"), ("b", b"2")]))
    w.store.commit(claim, Commit(1, AT, unstage=True))
    w.store.commit(claim, Commit(1, AT, stage=[("b", b"3")]))
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"4")]))
    same(_staged(w), [("b", b"3"), ("a", b"4")], "staged")


def staged_bodies_stay_without_unstage(w: World) -> None:
    """A commit of records alone leaves the staged data."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("a", b"1")]))
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(_staged(w), [("a", b"1")], "staged")


def staged_bodies_outlive_the_claim(w: World) -> None:
    """Staged bodies outlive their claim, and the next claim stages after them."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[("b", b"1"), ("c", b"2")]))
    w.store.release(claim)
    again = w.claim()
    w.store.commit(again, Commit(1, AT, stage=[("a", b"3")]))
    same(_staged(w), [("b", b"1"), ("c", b"2"), ("a", b"3")], "staged")
    w.store.commit(again, Commit(1, AT, unstage=True))
    same(_staged(w), [], "staged after unstage by the next claim")


def staged_bodies_are_not_of_older_moments(w: World) -> None:
    """`load` up to an older entry returns no staged bodies; up to the last entry it does."""
    w.thread(entries=3, stage=[("a", b"1")])
    same(list(w.load(upto=2).staged), [], "staged at an older moment")
    same([tuple(item) for item in w.load(upto=3).staged], [("a", b"1")], "staged at the last entry")


def staged_keys_may_be_odd(w: World) -> None:
    """Any text may be a key: empty, long, with quotes, wildcards, NUL or letters of any alphabet."""
    keys = [
        "",
        "'",
        '"',
        "%",
        "_",
        "a" * 2_000,
        "\x00",
        "a\x00b",
        "a\x00c",
        "\u00e9",
        "e\u0301",
        "\U0001f600",
        " ",
        "A",
        "a",
    ]
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[(key, str(n).encode()) for n, key in enumerate(keys)]))
    same(_staged(w), [(key, str(n).encode()) for n, key in enumerate(keys)], "staged")


def staged_bodies_may_be_many(w: World) -> None:
    """Thousands of bodies staged one by one or together keep their order."""
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[(f"k{n % 7}.{n}", str(n).encode()) for n in range(2_000)]))
    for n in range(2_000, 2_020):
        w.store.commit(claim, Commit(1, AT, stage=[(f"k{n % 7}.{n}", str(n).encode())]))
    same([body for _, body in _staged(w)], [str(n).encode() for n in range(2_020)], "staged bodies")


def staged_bodies_are_exact(w: World) -> None:
    """Staged bodies come back unchanged, byte by byte."""
    bodies = [b"", b"\x00", b"\xff\xfe", bytes(range(256))]
    claim = w.held()
    w.store.commit(claim, Commit(1, AT, stage=[(str(n), body) for n, body in enumerate(bodies)]))
    same([body for _, body in _staged(w)], bodies, "staged bodies")


def the_newest_snapshot_is_loaded(w: World) -> None:
    """`load` returns the newest snapshot."""
    _snapshots(w)
    same(_snapshot(w, None), (4, b"s4"), "snapshot")


def the_snapshot_is_not_after_the_moment(w: World) -> None:
    """`load` with `upto` returns the newest snapshot that is not after that entry, and the records between the two."""
    _snapshots(w)
    for upto, wanted in ((1, ()), (2, (2, b"s2")), (3, (2, b"s2")), (4, (4, b"s4")), (5, (4, b"s4"))):
        same(_snapshot(w, upto), wanted, f"snapshot of a load up to {upto}")
        after = wanted[0] if wanted else 0
        bodies = [record.body for record in w.load(upto=upto).records]
        same(bodies, [str(n).encode() for n in range(after + 1, upto + 1)], f"records of a load up to {upto}")


def a_thread_without_snapshot_loads_all(w: World) -> None:
    """Without a snapshot all records are loaded."""
    w.thread(entries=3)
    same((w.load().snapshot, len(w.load().records)), (None, 3), "snapshot and number of records")


def a_snapshot_is_replaced(w: World) -> None:
    """A second snapshot of the same entry replaces the first."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], snapshot=StoredSnapshot(1, b"old")))
    w.store.commit(claim, Commit(1, AT, snapshot=StoredSnapshot(1, b"new")))
    same(_snapshot(w, None), (1, b"new"), "snapshot")


def a_snapshot_may_be_of_an_older_entry(w: World) -> None:
    """A snapshot may be of an entry before the last one; only its entry determines its order."""
    claim = _snapshots(w)
    w.store.commit(claim, Commit(5, AT, snapshot=StoredSnapshot(3, b"s3")))
    same([_snapshot(w, upto) for upto in (2, 3, None)], [(2, b"s2"), (3, b"s3"), (4, b"s4")], "snapshots")


def a_snapshot_is_exact(w: World) -> None:
    """The body of a snapshot comes back unchanged, byte by byte, even if it is empty."""
    claim = w.claim()
    for seq, body in enumerate((b"", bytes(range(256)), b"\x00" * 300_000), 1):
        w.store.commit(claim, Commit(seq - 1, AT, [entry(seq)], snapshot=StoredSnapshot(seq, body)))
        same(_snapshot(w, None), (seq, body), "snapshot")


def blobs_come_back_by_name(w: World) -> None:
    """Blobs are found by their names; unknown names are left out."""
    w.thread(blobs={"a": b"A", "b": b"", "c": b"\x00\xff"})
    same(w.store.blobs("t", ["c", "b", "x"]), {"b": b"", "c": b"\x00\xff"}, "blobs")
    same(w.store.blobs("t", []), {}, "no blobs")
    same(w.store.blobs("t", iter(["a", "a"])), {"a": b"A"}, "a blob twice")


def a_blob_that_is_there_stays(w: World) -> None:
    """A blob with the name of an existing one does not replace it."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], blobs={"a": b"first"}))
    w.store.commit(claim, Commit(1, AT, [entry(2)], blobs={"a": b"second", "b": b"B"}))
    same(w.store.blobs("t", ["a", "b"]), {"a": b"first", "b": b"B"}, "blobs")


def blobs_are_of_their_thread(w: World) -> None:
    """A blob belongs to the thread that it was committed to."""
    w.thread("a", blobs={"x": b"of a"})
    w.thread("b", blobs={"x": b"of b", "y": b"Y"})
    same(w.store.blobs("a", ["x", "y"]), {"x": b"of a"}, "blobs of a")
    same(w.store.blobs("b", ["x", "y"]), {"x": b"of b", "y": b"Y"}, "blobs of b")


def blobs_of_no_thread(w: World) -> None:
    """A thread that does not exist has no blobs."""
    same(w.store.blobs("t", ["a"]), {}, "blobs of no thread")


def blobs_may_be_many(w: World) -> None:
    """Hundreds of blobs can be read in one call."""
    many = {f"{n:064x}": bytes([n % 256]) * 100 for n in range(800)}
    w.thread(blobs=many)
    same(w.store.blobs("t", many), many, "blobs")


def meta_is_of_the_whole_thread(w: World) -> None:
    """The meta of a thread is None until a commit sets it; `load` up to an older entry returns the current meta."""
    w.thread("u")
    same(w.load("u").meta, None, "meta")
    w.thread(entries=3, meta=b"m")
    same(w.load(upto=1).meta, b"m", "meta at an older moment")


def meta_is_replaced(w: World) -> None:
    """The meta of a commit replaces the earlier one; a commit without meta keeps it."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], meta=b"one"))
    same(w.load().meta, b"one", "meta")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(w.load().meta, b"one", "meta after a commit without")
    w.store.commit(claim, Commit(2, AT, meta=b"two\x00"))
    same(w.load().meta, b"two\x00", "meta after another")


def empty_meta_is_meta(w: World) -> None:
    """Empty meta is not the same as no meta."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], meta=b"one"))
    w.store.commit(claim, Commit(1, AT, meta=b""))
    same(w.load().meta, b"", "meta")


def kinds_do_not_mix(w: World) -> None:
    """A staged key, a blob and a snapshot are independent, even with the same name."""
    w.thread(
        entries=1,
        stage=[("1", b"staged"), ("", b"nameless")],
        blobs={"1": b"blob"},
        meta=b"m",
        snapshot=StoredSnapshot(1, b"saved"),
    )
    same(_staged(w), [("1", b"staged"), ("", b"nameless")], "staged")
    same((w.store.blobs("t", ["1"]), _snapshot(w, None)), ({"1": b"blob"}, (1, b"saved")), "blob and snapshot")
    same(w.load().meta, b"m", "meta")


def only_bytes_are_kept(w: World) -> None:
    """Bodies other than bytes are refused."""
    claim = w.held()
    thing: Any = {"a": [1]}
    text: Any = "text"
    array: Any = bytearray(b"m")
    all_parts = Commit(1, AT, [entry(2, thing)], stage=[("k", thing)], meta=thing)
    parts = (Commit(1, AT, [entry(2, text)]), Commit(1, AT, stage=[("k", text)]), Commit(1, AT, meta=array))
    for each in (all_parts, *parts):
        refused(InputError, partial(w.store.commit, claim, each), f"{each}", code="bad-commit")
    same((w.bodies(), _staged(w), w.load().meta), ([b"1"], [], None), "the thread afterwards")


def _staged(w: World) -> list[tuple[str, object]]:
    """Return the staged (key, body) pairs of the thread."""
    return [(key, body) for key, body in w.load().staged]


def _snapshot(w: World, upto: int | None) -> tuple[object, ...]:
    """Return (seq, body) of the snapshot that is loaded; empty if there is none."""
    return tuple(w.load(upto=upto).snapshot or ())


def _snapshots(w: World) -> Claim:
    """Write five entries, with snapshots of the second and fourth, and return the claim."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1), entry(2)], snapshot=StoredSnapshot(2, b"s2")))
    w.store.commit(claim, Commit(2, AT, [entry(3), entry(4)], snapshot=StoredSnapshot(4, b"s4")))
    w.store.commit(claim, Commit(4, AT, [entry(5)]))
    return claim
