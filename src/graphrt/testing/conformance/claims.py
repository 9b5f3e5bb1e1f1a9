"""Clauses on claims: who may write a thread, and what a void claim can still do."""

from __future__ import annotations

from functools import partial

from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.values import Claim, Commit
from graphrt.testing.conformance._world import AT, LONG_S, World, entry, holds, refused, same, void


def a_new_thread_has_no_entries(w: World) -> None:
    """A claim that creates a thread has a head with the status "new", no entries, and an owner."""
    head = w.claim("t").head
    same((head.thread, head.seq, head.status, head.first), ("t", 0, "new", 1), "head of a new thread")
    same((head.created_at, head.graph, head.owned), (AT, "", True), "rest of the head")


def the_claim_repeats_its_arguments(w: World) -> None:
    """A claim has its thread, its lease and the epoch of its head."""
    claim = w.store.claim("t", create=True, lease_s=12.5, at=AT)
    same((claim.thread, claim.lease_s), ("t", 12.5), "thread and lease of the claim")
    same(claim.epoch, claim.head.epoch, "epoch of the claim and of its head")


def an_unknown_thread_is_not_made_unasked(w: World) -> None:
    """Without `create`, a claim of an unknown thread is refused and creates nothing."""
    refused(
        InputError,
        lambda: w.store.claim("t", create=False, lease_s=LONG_S, at=AT),
        "claim of no thread",
        code="unknown-thread",
    )
    refused(InputError, lambda: w.store.head("t"), "head of a thread that was not made", code="unknown-thread")


def a_known_thread_is_claimed_without_create(w: World) -> None:
    """Without `create`, an existing thread can be claimed."""
    w.thread(entries=3)
    claim = w.store.claim("t", create=False, lease_s=LONG_S, at=AT + 5)
    same((claim.head.seq, claim.head.created_at), (3, AT), "head of a known thread")


def create_keeps_a_known_thread(w: World) -> None:
    """With `create`, an existing thread keeps its entries and its creation time."""
    w.thread(entries=2, status="failed", graph="g")
    head = w.store.claim("t", create=True, lease_s=LONG_S, at=AT + 9).head
    same((head.seq, head.status, head.graph, head.created_at), (2, "failed", "g", AT), "head of a known thread")


def a_held_thread_is_not_claimed(w: World) -> None:
    """A thread with a living owner cannot be claimed, not even by the same store, and not without `create` either."""
    w.held()
    for create in (True, False):
        call = partial(w.store.claim, "t", create=create, lease_s=LONG_S, at=AT)
        error = refused(ConflictError, call, "second claim", code="conflict")
        holds("'t'" in str(error), "the conflict does not name the thread")
    w.claim("new")
    refused(ConflictError, partial(w.claim, "new"), "second claim of a thread without entries", code="conflict")


def a_thread_is_held_before_the_first_commit(w: World) -> None:
    """A claim that has committed nothing keeps the thread from other callers of the same store, until it is released."""
    w.thread()
    claim = w.store.claim("t", create=False, lease_s=LONG_S, at=AT)
    refused(
        ConflictError, lambda: w.store.claim("t", create=False, lease_s=LONG_S, at=AT), "second claim", code="conflict"
    )
    w.store.release(claim)
    again = w.store.claim("t", create=False, lease_s=LONG_S, at=AT)
    w.store.commit(again, Commit(1, AT, [entry(2)]))
    refused(ConflictError, lambda: w.store.commit(claim, Commit(2, AT, [entry(3)])), "commit of the released claim")


def the_first_commit_may_release(w: World) -> None:
    """A claim may be stored and released by one commit."""
    w.thread()
    claim = w.store.claim("t", create=False, lease_s=LONG_S, at=AT)
    w.store.commit(claim, Commit(1, AT, [entry(2)], release=True))
    same((w.store.head("t").owned, w.store.head("t").epoch), (False, claim.epoch), "head after the commit")


def a_first_commit_that_does_not_fit_takes_nothing(w: World) -> None:
    """A first commit that expects another entry is refused, and once the claim is released, the thread is free."""
    w.thread()
    claim = w.store.claim("t", create=False, lease_s=LONG_S, at=AT)
    refused(ConflictError, lambda: w.store.commit(claim, Commit(5, AT, [entry(6)])), "first commit", code="conflict")
    w.store.release(claim)
    same(w.claim().head.seq, 1, "last entry of the next claim")


def a_refused_claim_harms_nobody(w: World) -> None:
    """The owner can continue after another claim was refused."""
    claim = w.held()
    refused(ConflictError, w.claim, "second claim")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(w.load().head.seq, 2, "last entry")


def a_released_thread_can_be_claimed(w: World) -> None:
    """After `release` the thread is free."""
    w.store.release(w.held())
    same(w.store.head("t").owned, False, "owned after release")
    same(w.claim().head.seq, 1, "last entry of the next claim")


def each_claim_has_the_next_epoch(w: World) -> None:
    """Each claim of a thread has an epoch one above that of the claim before."""
    claim = w.held()
    for n in range(1, 5):
        w.store.release(claim)
        again = w.claim()
        same(again.epoch, claim.epoch + n - n + 1, "epoch of the next claim")
        claim = again


def the_head_shows_epoch_and_owner(w: World) -> None:
    """`head` shows the newest epoch, and whether the thread is held now."""
    claim = w.held()
    same((w.store.head("t").epoch, w.store.head("t").owned), (claim.epoch, True), "head of a held thread")
    w.store.release(claim)
    same((w.store.head("t").epoch, w.store.head("t").owned), (claim.epoch, False), "head of a free thread")


def a_released_claim_is_void(w: World) -> None:
    """A released claim can do nothing, whether another claim follows it or not."""
    claim = w.held()
    w.store.release(claim)
    void(w.store, claim, 1, "a released claim", code="lost-lease")
    w.claim()
    void(w.store, claim, 1, "an older claim")


def an_older_epoch_cannot_commit(w: World) -> None:
    """A commit under an older claim is refused though its expected entry is right."""
    old = w.held()
    w.store.release(old)
    new = w.claim()
    refused(ConflictError, lambda: w.store.commit(old, Commit(1, AT, [entry(2)])), "commit of an old claim")
    w.store.commit(new, Commit(1, AT, [entry(2, b"new")]))
    same(w.bodies(), [b"1", b"new"], "records")


def an_older_epoch_cannot_stage(w: World) -> None:
    """A commit without records under an older claim is refused too."""
    old = w.held()
    w.store.release(old)
    w.claim()
    refused(ConflictError, lambda: w.store.commit(old, Commit(1, AT, stage=[("k", b"v")])), "staging of an old claim")
    same(list(w.load().staged), [], "staged")


def an_older_epoch_cannot_release(w: World) -> None:
    """`release` of an older claim does nothing: the newer owner keeps the thread."""
    old = w.held()
    w.store.release(old)
    new = w.claim()
    w.store.release(old)
    same(w.store.head("t").owned, True, "owned after a stale release")
    w.store.commit(new, Commit(1, AT, [entry(2)]))


def a_thread_without_entries_vanishes(w: World) -> None:
    """A thread that is released before its first entry ceases to exist."""
    w.store.release(w.claim())
    refused(InputError, lambda: w.store.head("t"), "head of a forgotten thread", code="unknown-thread")
    same(w.store.query(ThreadFilter()), [], "heads")


def a_vanished_thread_takes_its_parts_along(w: World) -> None:
    """Data staged for a thread that never had an entry is gone when its id is used again."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, stage=[("k", b"old")], blobs={"b": b"old"}, meta=b"old", status="running"))
    w.store.release(claim)
    again = w.claim()
    same(again.head.status, "new", "status of the recreated thread")
    w.store.commit(again, Commit(0, AT, [entry(1)]))
    loaded = w.load()
    same((list(loaded.staged), loaded.meta), ([], None), "staged and meta of the recreated thread")
    same(w.store.blobs("t", ["b"]), {}, "blobs of the recreated thread")


def a_vanished_threads_claim_is_void(w: World) -> None:
    """The claim of a thread that ceased to exist can do nothing to a new thread with the same id."""
    old = w.claim()
    w.store.release(old)
    w.claim()
    void(w.store, old, 0, "the old claim")


def renew_keeps_the_claim(w: World) -> None:
    """The claim can commit after `renew`, which may be given any number of claims."""
    first, second = w.held("a"), w.held("b")
    w.store.renew([])
    w.store.renew(iter([first, second]))
    for claim in (first, second):
        w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same([head.seq for head in w.store.query(ThreadFilter())], [2, 2], "last entries")


def claims_of_different_threads_are_apart(w: World) -> None:
    """One owner may hold many threads, and releasing one leaves the others."""
    claims: list[Claim] = [w.held(f"t{n}") for n in range(5)]
    w.store.release(claims[2])
    same([head.owned for head in w.store.query(ThreadFilter())], [True, True, False, True, True], "owned")
