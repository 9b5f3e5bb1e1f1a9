"""Commits that wait are merged: a store that gets few holds what one that gets each of them holds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.journal.recording import record

from graphrt._journal.commit_queue import merge, merged_groups
from graphrt.stores import MemoryStore
from graphrt.stores.protocol import Commit, Record, Saved

keys = st.sampled_from(["a", "b", "c"])


@st.composite
def commits(draw: Any) -> list[Commit]:
    """What a journal may put: only the last one gives the claim back."""
    seq = 0
    made: list[Commit] = []
    count = draw(st.integers(1, 8))
    for number in range(count):
        expected, records = seq, []
        for size in draw(st.lists(st.integers(1, 3), min_size=1 if number == 0 else 0, max_size=2)):
            seq += size
            records.append(Record(seq, size, b"%d" % seq, b"s"))
        made.append(
            Commit(
                expected=expected,
                at=float(number),
                records=records,
                unstage=draw(st.booleans()),
                stage=[(key, b"%d" % number) for key in draw(st.lists(keys, max_size=3))],
                snapshot=Saved(seq, b"%d" % number) if records and draw(st.booleans()) else None,
                blobs={draw(keys): b"blob" for _ in range(draw(st.integers(0, 2)))},
                meta=draw(st.none() | st.just(b"%d" % number)),
                status=draw(st.none() | st.sampled_from(["running", "completed", "failed"])),
                graph=draw(st.none() | st.sampled_from(["g", "h"])),
            )
        )
    if draw(st.booleans()):
        made[-1] = made[-1]._replace(release=True)
    return made


def stored(found: list[Commit]) -> Any:
    """All that a store holds after *found*."""
    store = MemoryStore()
    claim = store.claim("t", create=True, lease_s=9.0, at=0.0)
    for commit in found:
        store.commit(claim, commit)
    snapshots = [store.load("t", upto=upto).snapshot for upto in range(store.head("t").seq + 1)]
    return store.load("t"), list(store.records("t")), snapshots, store.blobs("t", ["a", "b", "c"])


@given(commits())
def test_store_holds_the_same_after_merged_commits(found: list[Commit]) -> None:
    groups = merged_groups(found)

    assert stored(groups) == stored(found)
    assert len(groups) <= 1 + sum(commit.snapshot is not None for commit in found)


@given(commits())
def test_each_merged_commit_follows_the_one_before(found: list[Commit]) -> None:
    seq = 0
    for commit in merged_groups(found):
        assert commit.expected == seq
        assert commit.snapshot is None or commit.snapshot.seq == (commit.records[-1].seq if commit.records else seq)
        seq = commit.records[-1].seq if commit.records else seq


def test_commit_alone_is_not_touched() -> None:
    alone = record(1)

    assert merge([alone]) is alone
    assert merged_groups([]) == []


def test_staging_that_a_later_commit_makes_pointless_is_left_out() -> None:
    merged = merge([record(1, stage=[("a", b"1"), ("b", b"1")]), record(2, unstage=True, stage=[("b", b"2")])])

    assert merged.unstage
    assert list(merged.stage) == [("b", b"2")]
    assert [one.seq for one in merged.records] == [1, 2]
    assert (merged.expected, merged.at) == (0, 2.0)
