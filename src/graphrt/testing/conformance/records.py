"""Clauses on records: their order, which of them are read, and that their bytes come back unchanged."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.stores.values import Commit, Record, StoredSnapshot
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def records_come_back_whole(w: World) -> None:
    """A record comes back with its number, count, body and seal."""
    wanted = [Record(1, 1, b"one", b""), Record(4, 3, b"two", b"seal"), Record(5, 1, b"", b"\x00")]
    w.store.commit(w.claim(), Commit(0, AT, wanted))
    same([Record(*record) for record in w.store.records("t")], wanted, "records")
    same([Record(*record) for record in w.load().records], wanted, "loaded records")


def records_are_in_order(w: World) -> None:
    """Records are read in the order of their entries, over many commits."""
    claim = w.claim()
    for n in range(1, 31):
        w.store.commit(claim, Commit(n - 1, AT, [entry(n)]))
    same(w.bodies(), [str(n).encode() for n in range(1, 31)], "bodies")


def one_commit_may_hold_many_records(w: World) -> None:
    """Thousands of records fit into one commit, and are read page by page without loss."""
    w.thread(entries=3_000)
    same(w.bodies(), [str(n).encode() for n in range(1, 3_001)], "bodies")
    same(len(w.load().records), 3_000, "loaded records")


def records_after_a_number(w: World) -> None:
    """`after` leaves out records without an entry above it."""
    w.thread(entries=5)
    for after in range(7):
        wanted = [str(n).encode() for n in range(after + 1, 6)]
        same(w.bodies(after=after), wanted, f"records after {after}")


def records_upto_a_number(w: World) -> None:
    """`upto` leaves out records whose entries are all above it."""
    w.thread(entries=5)
    for upto in range(7):
        wanted = [str(n).encode() for n in range(1, min(upto, 5) + 1)]
        same(w.bodies(upto=upto), wanted, f"records up to {upto}")


def records_between_two_numbers(w: World) -> None:
    """`after` and `upto` together select a range, which is empty if they cross."""
    w.thread(entries=9)
    same(w.bodies(after=3, upto=6), [b"4", b"5", b"6"], "records after 3 up to 6")
    same(w.bodies(after=6, upto=6), [], "records after 6 up to 6")
    same(w.bodies(after=7, upto=3), [], "records after 7 up to 3")


def a_record_is_read_whole_if_it_is_cut(w: World) -> None:
    """A record that `after` or `upto` would cut in two is returned whole."""
    _threes(w)
    same(w.bodies(after=2), [b"a", b"b", b"c"], "records after 2")
    same(w.bodies(after=3), [b"b", b"c"], "records after 3")
    same(w.bodies(after=4), [b"b", b"c"], "records after 4")
    same(w.bodies(upto=3), [b"a"], "records up to 3")
    same(w.bodies(upto=4), [b"a", b"b"], "records up to 4")
    same(w.bodies(upto=6), [b"a", b"b"], "records up to 6")
    same(w.bodies(upto=7), [b"a", b"b", b"c"], "records up to 7")
    same(w.bodies(after=4, upto=5), [b"b"], "records after 4 up to 5")


def pages_do_not_cut_short(w: World) -> None:
    """`after` returns all later records, wherever a page of the store ends."""
    w.thread(entries=1_100)
    for after in (0, 1, 255, 256, 257, 511, 512, 1_000, 1_023, 1_024, 1_099, 1_100):
        wanted = [str(n).encode() for n in range(after + 1, 1_101)]
        same(w.bodies(after=after), wanted, f"records after {after}")
        same(w.bodies(after=after, upto=1_050), wanted[: max(0, 1_050 - after)], f"records after {after} up to 1,050")


def large_records_are_paged(w: World) -> None:
    """Records that are large in total come back whole and in order."""
    bodies = [bytes([n]) * 700_000 for n in range(12)]
    w.store.commit(w.claim(), Commit(0, AT, [entry(n, body) for n, body in enumerate(bodies, 1)]))
    same(w.bodies(), bodies, "bodies")


def records_may_be_left_unread(w: World) -> None:
    """An iterator over records that is left midway blocks nothing."""
    claim = w.held(entries=600)
    reader = w.store.records("t")
    same(next(iter(reader)).body, b"1", "first record")
    w.store.commit(claim, Commit(600, AT, [entry(601)]))
    w.store.release(claim)
    w.store.delete("t")
    del reader


def two_readers_do_not_disturb_each_other(w: World) -> None:
    """Two iterators over records are independent of each other, and of a commit meanwhile."""
    claim = w.held(entries=600)
    first, second = iter(w.store.records("t")), iter(w.store.records("t", after=300))
    bodies = [(next(first).body, next(second).body) for _ in range(5)]
    w.store.commit(claim, Commit(600, AT, [entry(601)]))
    bodies += [(next(first).body, next(second).body) for _ in range(5)]
    same(bodies, [(str(n).encode(), str(n + 300).encode()) for n in range(1, 11)], "bodies of two readers")


def records_of_no_thread(w: World) -> None:
    """`records` of an unknown thread is refused."""
    refused(InputError, lambda: list(w.store.records("t")), "records of no thread", code="unknown-thread")


def records_of_a_new_thread(w: World) -> None:
    """A thread without entries has no records."""
    w.claim()
    same(w.bodies(), [], "records")


def loaded_records_follow_the_snapshot(w: World) -> None:
    """`load` returns the newest snapshot, and only the records after it."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1), entry(2)], snapshot=StoredSnapshot(2, b"s2")))
    w.store.commit(claim, Commit(2, AT, [entry(3), entry(4)]))
    loaded = w.load()
    same(tuple(loaded.snapshot or ()), (2, b"s2"), "snapshot")
    same([record.body for record in loaded.records], [b"3", b"4"], "records after the snapshot")


def loaded_upto_is_cut(w: World) -> None:
    """`load` with `upto` returns the records up to that entry, the last one whole, and the present head."""
    _threes(w)
    for upto, wanted in ((0, []), (1, [b"a"]), (3, [b"a"]), (4, [b"a", b"b"]), (9, [b"a", b"b", b"c"])):
        loaded = w.load(upto=upto)
        same([record.body for record in loaded.records], wanted, f"records of a load up to {upto}")
        same(loaded.head.seq, 9, "last entry in the head")


def loaded_after_an_entry(w: World) -> None:
    """`load` with `after` reads no snapshot, and the records with entries after that one."""
    threes = [Record(3, 3, b"a", b""), Record(6, 3, b"b", b""), Record(9, 3, b"c", b"")]
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, threes, snapshot=StoredSnapshot(9, b"s9")))
    w.store.commit(claim, Commit(9, AT, [entry(10)], stage=[("k", b"v")]))
    for after, wanted in ((3, [b"b", b"c", b"10"]), (4, [b"b", b"c", b"10"]), (9, [b"10"]), (10, [])):
        loaded = w.store.load("t", after=after)
        same(loaded.snapshot, None, f"snapshot of a load after {after}")
        same([record.body for record in loaded.records], wanted, f"records of a load after {after}")
        same((loaded.head.seq, [key for key, _ in loaded.staged]), (10, ["k"]), f"rest of a load after {after}")


def load_beyond_the_end(w: World) -> None:
    """`load` up to an entry that does not exist yet returns everything."""
    w.thread(entries=2, stage=[("k", b"v")])
    loaded = w.load(upto=99)
    same([record.body for record in loaded.records], [b"1", b"2"], "records")
    same([tuple(item) for item in loaded.staged], [("k", b"v")], "staged")


def load_of_no_thread(w: World) -> None:
    """`load` of an unknown thread is refused, and the error names the thread."""
    w.thread("other")
    error = refused(InputError, w.load, "load of no thread", code="unknown-thread")
    same("'t'" in str(error), True, "the error names the thread")


def load_of_a_new_thread(w: World) -> None:
    """A thread without entries loads with no records, staged bodies, snapshot or meta."""
    w.claim()
    loaded = w.load()
    same((loaded.head.seq, loaded.meta, loaded.snapshot), (0, None, None), "head, meta and snapshot")
    same((list(loaded.records), list(loaded.staged)), ([], []), "records and staged")


def numbers_may_be_large(w: World) -> None:
    """Entry numbers beyond 32 bits work like small ones."""
    claim = w.claim()
    big = 2**33
    w.store.commit(claim, Commit(0, AT, [Record(big, big, b"a")]))
    w.store.commit(claim, Commit(big, AT, [Record(big + 2, 2, b"b")], snapshot=StoredSnapshot(big + 2, b"s")))
    w.store.commit(claim, Commit(big + 2, AT, [Record(2 * big, big - 2, b"c")]))
    same(w.store.head("t").seq, 2 * big, "last entry")
    same(w.bodies(after=big + 1), [b"b", b"c"], "records after")
    same(w.bodies(upto=big + 1), [b"a", b"b"], "records up to")
    same([record.seq for record in w.load().records], [2 * big], "records after the snapshot")
    same(w.store.prune(claim, big + 2), big + 2, "pruned entries")


def bytes_come_back_exactly(w: World) -> None:
    """Empty bytes, NUL, 0xff, quotes and text of any kind come back unchanged."""
    bodies = [
        b"",
        b"\x00",
        b"\x00\x00a\x00",
        b"\xff" * 3,
        bytes(range(256)),
        b"'; DROP TABLE",
        "\u00e9\U0001f600".encode(),
    ]
    bodies += [b"\r\n", b"%s %d {}", b"\\x00", b"NULL", b"\xed\xa0\x80"]
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [Record(n, 1, body, body) for n, body in enumerate(bodies, 1)]))
    records = list(w.store.records("t"))
    same([record.body for record in records], bodies, "bodies")
    same([record.seal for record in records], bodies, "seals")


def a_megabyte_comes_back_exactly(w: World) -> None:
    """A body of 1 MB comes back unchanged."""
    body = bytes(range(256)) * 4_096
    w.store.commit(w.claim(), Commit(0, AT, [entry(1, body)], stage=[("k", body)], meta=body))
    same((w.bodies(), w.load().meta), ([body], body), "body and meta of 1 MB")


def twenty_megabytes_come_back_exactly(w: World) -> None:
    """A body of 20 MB comes back unchanged."""
    body = b"\x00\x01\xfe\xff!" * 4_000_000
    w.store.commit(w.claim(), Commit(0, AT, [entry(1, body)], blobs={"b": body}))
    same(w.bodies() == [body] and w.store.blobs("t", ["b"]) == {"b": body}, True, "20 MB as given")


def _threes(w: World) -> None:
    """Create a thread of three records with three entries each."""
    w.store.commit(w.claim(), Commit(0, AT, [Record(3, 3, b"a"), Record(6, 3, b"b"), Record(9, 3, b"c")]))
