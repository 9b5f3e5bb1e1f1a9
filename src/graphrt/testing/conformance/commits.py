"""Clauses on commits: the entry that they expect, their contents, and that each is written as a whole or not at all."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.values import Commit, Record, StoredSnapshot
from graphrt.testing.conformance._world import (
    AT,
    BreakError,
    Breaking,
    BreakingList,
    BrokenClauseError,
    World,
    entry,
    refused,
    same,
)


def a_commit_advances_the_head(w: World) -> None:
    """After a commit the head has its last entry, time, status and graph."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT + 1.5, [entry(1), entry(2)], status="running", graph="triage"))
    head = w.store.head("t")
    same((head.seq, head.status, head.graph), (2, "running", "triage"), "head")
    same((head.created_at, head.updated_at), (AT, AT + 1.5), "times")


def status_and_graph_stay_when_not_given(w: World) -> None:
    """A commit without status or graph leaves them as they were; it may change one and leave the other."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], status="interrupted", graph="g"))
    changes: tuple[tuple[dict[str, Any], tuple[str, str]], ...] = (
        ({}, ("interrupted", "g")),
        ({"status": "completed"}, ("completed", "g")),
        ({"graph": "h"}, ("completed", "h")),
    )
    for seq, (change, wanted) in enumerate(changes, 1):
        w.store.commit(claim, Commit(seq, AT, [entry(seq + 1)])._replace(**change))
        same((w.store.head("t").status, w.store.head("t").graph), wanted, f"status and graph after {change}")


def every_status_is_kept(w: World) -> None:
    """Each status comes back as it was given, from `head`, `heads` and `load`."""
    for status in ("running", "interrupted", "failed", "cancelled", "completed"):
        w.thread(status, status=status)
        same(w.store.head(status).status, status, "status of head")
        same(w.load(status).head.status, status, "status of load")
    same(
        [head.status for head in w.store.query(ThreadFilter())],
        [head.thread for head in w.store.query(ThreadFilter())],
        "status of heads",
    )


def an_old_expectation_is_refused(w: World) -> None:
    """A commit that expects an earlier or later entry is a conflict and writes nothing, with records or without."""
    claim = w.held(entries=2)
    for seq in (1, 5):
        for commit in (Commit(seq, AT, [entry(seq + 1, b"no")]), Commit(seq, AT, stage=[("k", b"v")])):
            call = partial(w.store.commit, claim, commit)
            refused(ConflictError, call, f"a commit that expects entry {seq}", code="conflict")
    same((w.bodies(), list(w.load().staged)), ([b"1", b"2"], []), "records and staged")


def the_same_commit_twice_is_refused(w: World) -> None:
    """A repeated commit is a conflict: nothing is stored twice."""
    claim = w.claim()
    commit = Commit(0, AT, [entry(1)])
    w.store.commit(claim, commit)
    refused(ConflictError, lambda: w.store.commit(claim, commit), "the same commit again")
    same(w.bodies(), [b"1"], "records")


def a_conflict_leaves_the_claim_good(w: World) -> None:
    """After a wrong expectation the right one is accepted under the same claim."""
    claim = w.held(entries=1)
    refused(ConflictError, lambda: w.store.commit(claim, Commit(0, AT, [entry(1)])), "old expectation")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(w.bodies(), [b"1", b"2"], "records")


def a_commit_without_records_keeps_the_seq(w: World) -> None:
    """A commit may stage without records, or be empty; it updates the time of the head."""
    claim = w.held(entries=3)
    w.store.commit(claim, Commit(3, AT + 9, stage=[("k", b"v")]))
    same((w.store.head("t").seq, w.store.head("t").updated_at), (3, AT + 9), "head")
    w.store.commit(claim, Commit(3, AT + 10))
    same((w.bodies(), w.store.head("t").updated_at), ([b"1", b"2", b"3"], AT + 10), "the thread after an empty commit")


def a_gap_is_refused(w: World) -> None:
    """Records that leave a gap after the last entry are refused."""
    claim = w.held(entries=1)
    refused(InputError, lambda: w.store.commit(claim, Commit(1, AT, [entry(3)])), "a gap", code="bad-commit")
    refused(InputError, lambda: w.store.commit(claim, Commit(1, AT, [entry(2), entry(4)])), "a gap", code="bad-commit")
    same(w.bodies(), [b"1"], "records")


def an_overlap_is_refused(w: World) -> None:
    """Records that repeat an entry, or hold no entry, are refused."""
    claim = w.held(entries=2)
    for record in (Record(3, 2, b"x"), Record(2, 0, b"x"), Record(3, -1, b"x"), Record(2, 1, b"x")):
        refused(InputError, partial(w.store.commit, claim, Commit(2, AT, [record])), f"{record}", code="bad-commit")
    same(w.bodies(), [b"1", b"2"], "records")


def a_snapshot_of_no_entry_is_refused(w: World) -> None:
    """A snapshot must be of an entry that exists after the commit."""
    claim = w.held(entries=1)
    for seq in (0, -1, 3):
        commit = Commit(1, AT, [entry(2)], snapshot=StoredSnapshot(seq, b"s"))
        refused(InputError, partial(w.store.commit, claim, commit), f"snapshot of {seq}", code="bad-commit")
    same((w.bodies(), w.load().snapshot), ([b"1"], None), "records and snapshot")


def a_commit_can_release(w: World) -> None:
    """A commit with `release` releases the thread and makes its claim void."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], release=True))
    same(w.store.head("t").owned, False, "owned")
    refused(ConflictError, lambda: w.store.commit(claim, Commit(1, AT, [entry(2)])), "commit after release")
    same(w.claim().head.seq, 1, "last entry of the next claim")


def a_refused_commit_does_not_release(w: World) -> None:
    """A refused commit does not release the thread."""
    claim = w.held(entries=1)
    refused(ConflictError, lambda: w.store.commit(claim, Commit(0, AT, [entry(1)], release=True)), "old expectation")
    same(w.store.head("t").owned, True, "owned")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))


def a_release_without_entries_forgets(w: World) -> None:
    """A commit that releases a thread without entries deletes it."""
    w.store.commit(w.claim(), Commit(0, AT, stage=[("k", b"v")], release=True))
    refused(InputError, lambda: w.store.head("t"), "head", code="unknown-thread")
    same(list(w.claim().head[1:4]), [0, w.store.head("t").epoch, "new"], "head of the recreated thread")


def a_commit_of_another_threads_claim_stays_there(w: World) -> None:
    """A commit writes to the thread of its claim only."""
    first, _ = w.held("a"), w.held("b")
    w.store.commit(first, Commit(1, AT, [entry(2)], status="failed", graph="g", meta=b"m"))
    head = w.store.head("b")
    same((head.seq, head.status, head.graph, w.load("b").meta), (1, "new", "", None), "the other thread")


def a_commit_that_breaks_in_its_blobs_leaves_nothing(w: World) -> None:
    """If reading the blobs fails, at any point, no part of the commit is stored, and the next one works."""
    _breaks(w, "blobs", Breaking[str, Any]({"x": b"1", "y": b"2"}, 0))


def a_commit_that_breaks_in_its_lists_leaves_nothing(w: World) -> None:
    """If reading the staged bodies or the records fails, no part of the commit is stored, and the next one works."""
    _breaks(w, "stage", BreakingList[Any]([("x", b"1"), ("y", b"2")], 0))
    w.store.delete("t")
    _breaks(w, "records", BreakingList[Any]([entry(3), entry(4)], 0))


def a_staged_body_that_is_no_pair_leaves_nothing(w: World) -> None:
    """A malformed staged item fails the whole commit."""
    stage: Any = [("x", b"1"), ("y",)]
    claim = _full(w)
    before = _everything(w)
    refused(Exception, lambda: w.store.commit(claim, _other(stage=stage)), "a staged item that is not a pair")
    same(_everything(w), before, "the thread after a failed commit")


def _full(w: World) -> Any:
    """Create a thread that has everything that a commit can write, and return the claim on it."""
    claim = w.claim()
    snapshot = StoredSnapshot(2, b"s")
    first = Commit(0, AT, [entry(1), entry(2)], False, [("k", b"v")], snapshot, {"b": b"B"}, b"m", "running", "g")
    w.store.commit(claim, first)
    return claim


def _other(**changed: Any) -> Commit:
    """Return a commit that follows `_full` and changes every part; *changed* replaces some of its fields."""
    commit = Commit(
        2,
        AT + 99,
        [entry(3), entry(4)],
        unstage=True,
        stage=[("z", b"Z")],
        snapshot=StoredSnapshot(4, b"S"),
        blobs={"c": b"C"},
        meta=b"M",
        status="failed",
        graph="h",
        release=True,
    )
    return commit._replace(**changed)


def _everything(w: World) -> tuple[Any, ...]:
    """Return everything that can be read of the thread."""
    loaded = w.load()
    blobs = w.store.blobs("t", ["b", "c", "x", "y"])
    return loaded.head, loaded.meta, loaded.snapshot, w.bodies(), list(loaded.staged), blobs


def _breaks(w: World, name: str, broken: Any) -> None:
    """Check that a commit stores nothing if iterating over its field *name* fails.

    A store may iterate over the field several times. So the commit is tried with a failure in the first pass, then in
    the second, and so on, until the store has needed no further pass and the commit succeeds.
    """
    claim = _full(w)
    before = _everything(w)
    for good in range(9):
        broken._good = good
        try:
            w.store.commit(claim, _other(**{name: broken}))
        except BreakError:
            same(_everything(w), before, f"the thread after {name} broke in pass {good}")
        else:
            if not good:
                raise BrokenClauseError(f"{name} were never read")
            break
    else:
        raise BrokenClauseError(f"{name} are read more than eight times")
    same((w.store.head("t").seq, w.store.head("t").status), (4, "failed"), "head after the commit that worked")
