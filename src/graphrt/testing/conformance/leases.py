"""Clauses on two stores that share one storage: leases, owners and lost claims. For durable stores."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit
from graphrt.testing.conformance._world import AT, LONG_S, World, entry, holds, refused, same, void


def what_one_commits_the_other_sees(w: World) -> None:
    """A commit is visible to another store at once."""
    other = w.open()
    w.held(entries=2)
    same([record.body for record in other.records("t")], [b"1", b"2"], "records in the other store")


def a_held_thread_is_held_for_others(w: World) -> None:
    """A thread that one store holds cannot be claimed or deleted by another, even if it is new and without entries."""
    other = w.open()
    w.held()
    w.claim("new")
    for thread in ("t", "new"):
        error = refused(ConflictError, partial(w.claim, thread, store=other), "claim by another store", code="conflict")
        holds(repr(thread) in str(error), "the conflict does not name the thread")
    refused(ConflictError, lambda: other.delete("t"), "delete by another store")
    same((other.head("t").owned, w.bodies()), (True, [b"1"]), "owned in the other store, and records")


def the_first_commit_decides_between_two_claims(w: World) -> None:
    """If two stores claim a thread at the same time, only one can commit: a claim is stored by its first commit."""
    other = w.open()
    w.thread()
    _race(w, w.store, other, 1)


def the_first_commit_decides_who_makes_a_thread(w: World) -> None:
    """If two stores claim a thread that does not exist yet, only one can commit."""
    _race(w, w.store, w.open(), 0)


def _race(w: World, store: Store, other: Store, seq: int) -> None:
    """Claim the thread, which is at *seq*, in two stores, and let both commit."""
    claim = store.claim("t", create=True, lease_s=LONG_S, at=AT)
    with suppress(ConflictError):  # a store may store a claim at once
        late = other.claim("t", create=True, lease_s=LONG_S, at=AT)
        store.commit(claim, Commit(seq, AT, [entry(seq + 1, b"first")]))
        refused(ConflictError, lambda: other.commit(late, Commit(seq, AT, [entry(seq + 1, b"late")])), "late commit")
        other.release(late)
        seq += 1
    store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))
    same((other.head("t").owned, b"late" in w.bodies()), (True, False), "whether the first owner has the thread")


def a_released_thread_is_free_for_others(w: World) -> None:
    """A thread that one store released can be claimed and continued by another."""
    other = w.open()
    w.store.release(w.held())
    other.commit(w.claim(store=other), Commit(1, AT, [entry(2)]))
    same(w.bodies(), [b"1", b"2"], "records")


def close_frees_at_once(w: World) -> None:
    """Closing a store frees its threads at once, before their leases run out."""
    other = w.open()
    w.held()
    w.store.close()
    same(w.claim(store=other).head.seq, 1, "last entry of the claim after close")


def close_forgets_new_threads(w: World) -> None:
    """Closing a store deletes its threads that have no entry."""
    other = w.open()
    w.claim()
    w.store.close()
    refused(InputError, lambda: other.head("t"), "head of a thread without entries", code="unknown-thread")


def close_frees_only_its_own(w: World) -> None:
    """Closing a store does not affect the claims of other stores."""
    other = w.open()
    claim = w.held()
    other.close()
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(w.store.head("t").owned, True, "owned after another store was closed")


def a_lease_that_ran_out_frees_the_thread(w: World) -> None:
    """Once a lease has run out, the thread is not owned and another store can claim it."""
    other = w.open()
    old = _outlived(w)
    same(other.head("t").owned, False, "owned after the lease ran out")
    same(w.claim(store=other).epoch, old.epoch + 1, "epoch of the next claim")


def a_claim_says_how_the_owner_before_lost_the_thread(w: World) -> None:
    """A claim knows whether the previous owner released the thread, or lost its lease and may still be running."""
    other = w.open()
    _outlived(w)
    claim = w.claim(store=other)
    same(claim.former, "lease-expired", "former owner after the lease ran out")
    other.release(claim)
    same(w.claim(store=other).former, "released", "former owner after a release")


def the_same_store_may_claim_again_after_the_lease(w: World) -> None:
    """Once a lease has run out, its own store can claim the thread again."""
    old = _outlived(w)
    same(w.claim().epoch, old.epoch + 1, "epoch of the next claim")


def a_lost_lease_is_void(w: World) -> None:
    """After a takeover by another store, the former owner can do nothing, and the new one continues."""
    other = w.open()
    old = _outlived(w)
    new = w.claim(store=other)
    void(w.store, old, 1, "the former owner", code="lost-lease")
    other.commit(new, Commit(1, AT, [entry(2, b"new")]))
    same(w.bodies(), [b"1", b"new"], "records")


def a_lease_that_ran_out_stays_void(w: World) -> None:
    """`renew` does not revive a lease that has run out, even without a takeover."""
    void(w.store, _outlived(w), 1, "a claim whose lease ran out")


def an_expired_claim_survives_no_deletion(w: World) -> None:
    """A claim whose lease ran out can do nothing to a new thread with the same id."""
    other = w.open()
    old = _outlived(w)
    other.delete("t")
    w.claim(store=other)
    for seq in (0, 1):
        void(w.store, old, seq, "a claim from before the deletion")


def a_dead_owners_new_thread_is_not_there(w: World) -> None:
    """A thread whose owner was lost before its first entry cannot be listed, read, or claimed without `create`."""
    other = w.open()
    _expire(w.store, w.claim(lease_s=0.0), other)
    same(other.query(ThreadFilter()), [], "heads")
    refused(InputError, lambda: other.head("t"), "head", code="unknown-thread")
    refused(InputError, lambda: other.load("t"), "load", code="unknown-thread")
    refused(
        InputError,
        lambda: other.claim("t", create=False, lease_s=LONG_S, at=AT),
        "claim without create",
        code="unknown-thread",
    )


def a_dead_owners_new_thread_is_made_anew(w: World) -> None:
    """The id of a thread whose owner was lost before its first entry can be used again for a new thread."""
    other = w.open()
    old = w.claim(lease_s=0.0)
    _expire(w.store, old, other)
    head = other.claim("t", create=True, lease_s=LONG_S, at=AT + 7).head
    same((head.seq, head.status, head.created_at), (0, "new", AT + 7), "head of the recreated thread")
    refused(ConflictError, lambda: w.store.commit(old, Commit(0, AT, [entry(1)])), "commit of the lost claim")


def a_thread_is_deleted_after_the_lease(w: World) -> None:
    """A thread whose owner's lease ran out can be deleted by another store."""
    other = w.open()
    _outlived(w)
    other.delete("t")
    same(w.store.query(ThreadFilter()), [], "heads")


def a_claim_is_good_in_its_own_store_only(w: World) -> None:
    """A claim of one store is void in another."""
    other = w.open()
    claim = w.held()
    void(other, claim, 1, "another store's claim")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))


def a_read_takes_nothing(w: World) -> None:
    """Reading through another store affects no claim."""
    other = w.open()
    claim = w.held()
    other.load("t")
    other.query(ThreadFilter())
    list(other.records("t"))
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(other.head("t").seq, 2, "last entry in the other store")


def renew_lengthens_the_lease(w: World) -> None:
    """A claim that is renewed or used stays valid beyond its first lease."""
    other = w.open()
    claim = w.held()
    for seq in (1, 2, 3):
        w.store.renew([claim])
        w.store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))
    refused(ConflictError, lambda: w.claim(store=other), "claim of a renewed thread")


def _outlived(w: World) -> Claim:
    """Return a claim, whose lease has run out, on a thread with one entry."""
    w.thread()
    claim = w.claim(lease_s=0.0)
    _expire(w.store, claim, w.store)
    return claim


def _expire(store: Store, claim: Claim, watcher: Store) -> None:
    """Wait until *watcher* sees that a claim with a lease of 0 seconds has run out."""
    # Such a lease ends with the next tick of the store's clock, so some thousand reads are enough.
    for _ in range(5_000):
        try:
            if not watcher.head(claim.thread).owned:
                return
        except InputError:
            return
    holds(False, f"the claim on {claim.thread!r} in {store!r} outlives a lease of 0 seconds")
