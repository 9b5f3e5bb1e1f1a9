"""The renewer of leases: each lease is renewed in time regardless of others, and failed releases are retried."""

from __future__ import annotations

import queue

import pytest

from graphrt import StoreError
from graphrt._journal import leases
from graphrt._journal.leases import give_back, release_now, renewer_of, take
from graphrt.stores.values import Claim, Head

PATIENCE_S = 60.0
LONG_S = 3_000.0
SHORT_S = 0.03


class Store:
    """Records its calls; `failing` is raised while it is set."""

    blocking = True

    def __init__(self):
        self.renewed = queue.SimpleQueue()
        self.released = queue.SimpleQueue()
        self.failing = None

    def _ask(self):
        if self.failing is not None:
            raise self.failing

    def claim(self, thread, *, create, lease_s, at):
        return claim(thread, lease_s)

    def renew(self, claims):
        self.renewed.put([one.thread for one in claims])
        self._ask()

    def release(self, one):
        self._ask()
        self.released.put(one.thread)


def claim(thread, lease_s):
    return Claim(Head(thread, 0, 1, "new", "", 0.0, 0.0, True), lease_s)


def broken():
    return StoreError("planted", code="store-full")


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def holds(store):
    """Starts renewal of claims by the store, until the end of the test."""
    mine = []

    def hold(thread, lease_s):
        mine.append(claim(thread, lease_s))
        renewer_of(store).add(mine[-1])
        return mine[-1]

    yield hold
    for one in mine:
        renewer_of(store).remove(one)


def test_short_lease_is_renewed_in_time_next_to_a_long_one(store, holds):
    """The worker thread that waits for the long one is woken up; the long one is not renewed before its time."""
    holds("long", LONG_S)
    holds("short", SHORT_S)

    assert {tuple(store.renewed.get(timeout=PATIENCE_S)) for _ in range(3)} == {("short",)}


def test_lease_is_renewed_by_a_worker_thread_that_was_about_to_end(store, holds):
    renewer_of(store).remove(holds("gone", LONG_S))
    holds("short", SHORT_S)

    assert store.renewed.get(timeout=PATIENCE_S) == ["short"]


@pytest.mark.parametrize("error", [broken(), OSError("whatever")], ids=["of-ours", "other"])
def test_renewer_survives_a_failing_store(store, holds, error):
    store.failing = error
    holds("short", SHORT_S)

    for _ in range(3):
        assert store.renewed.get(timeout=PATIENCE_S) == ["short"]


def test_removed_claim_is_no_longer_renewed(store, holds):
    one, _ = holds("one", SHORT_S), holds("two", SHORT_S)
    renewer_of(store).remove(one)
    while "one" in store.renewed.get(timeout=PATIENCE_S):
        pass  # it was running

    assert store.renewed.get(timeout=PATIENCE_S) == ["two"]


def test_failed_release_is_repeated_before_the_thread_is_claimed_again(store):
    store.failing = broken()
    give_back(store, claim("t", LONG_S))
    with pytest.raises(StoreError, match="planted"):
        take(store, "t", create=True, lease_s=1.0, at=0.0)
    assert store.released.empty()

    store.failing = None
    take(store, "t", create=True, lease_s=1.0, at=0.0)
    assert store.released.get_nowait() == "t"
    release_now(store, "t")
    assert store.released.empty()


def test_failed_release_is_repeated_once_the_store_works(store, monkeypatch):
    """Even if this process never claims the thread again: others may want it."""
    monkeypatch.setattr(leases, "IDLE_S", 0.01)
    store.failing = broken()
    give_back(store, claim("t", LONG_S))
    store.failing = None

    assert store.released.get(timeout=PATIENCE_S) == "t"


def test_pending_release_is_dropped_when_its_lease_has_expired(store, monkeypatch):
    monkeypatch.setattr(leases, "IDLE_S", 0.01)
    store.failing = broken()
    give_back(store, claim("t", SHORT_S))
    worker = renewer_of(store)._worker
    if worker is not None:  # it ends when there is nothing left to do
        worker.join(PATIENCE_S)
        assert not worker.is_alive()

    release_now(store, "t")
    assert store.released.empty()
