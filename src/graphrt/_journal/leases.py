"""Renewal of leases while runs continue, and release of claims that could not be released: one worker thread per store.

A claim is the right to write a thread. Its lease is the time for which it is valid without renewal. A commit renews the
lease. A node that works for minutes commits nothing, so a worker thread calls `renew`. If it cannot (the process is
stopped, the store is unreachable), the lease runs out and another process may claim the thread. Later writes of this
process are then refused (rule R12).

A claim whose release failed is kept. It is released when the store is available again, and before this process claims
the same thread. Otherwise a retry after the fault would have to wait for its own lease to expire.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from math import inf
from typing import Final, final

from graphrt._journal.per_store import PerStore, StoreWorker
from graphrt.errors import StoreError
from graphrt.errors._codes.threads import THREAD_HAS_MOVED
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Head

IDLE_S: Final = 2.0
"""Seconds until the worker thread ends if nothing is left to do, and between two attempts to release a claim."""


@final
class LeaseRenewer(StoreWorker):
    """Renews the claims of one store, and releases those whose release failed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "graphrt-leases")
        self._claims: dict[int, tuple[Claim, float]] = {}
        """Claims by their `id()`, each with the monotonic time of its next renewal."""
        self._owed: dict[str, tuple[Claim, float]] = {}
        """Maps a thread to a claim whose release failed, and the monotonic time at which its lease has run out."""
        self._until: dict[int, float] = {}
        """Monotonic time until which each claim is certainly valid, by its `id()`: no other process can take it
        before."""
        self._due = 0.0
        """Monotonic time of the worker thread's next check; 0 until it is set."""

    def add(self, claim: Claim) -> None:
        """Renew *claim* until it is removed. A run calls this when it begins, and `remove` when it ends."""
        with self._changed:
            # After a third of the lease: if one attempt fails, another follows before the lease runs out.
            now = time.monotonic()
            due = now + claim.lease_s / 3
            self._until[id(claim)] = now + claim.lease_s
            self._claims[id(claim)] = claim, due
            self._wake(due)

    def remove(self, claim: Claim) -> None:
        """Stop renewing *claim*; does nothing if it is not being renewed."""
        with self._changed:
            self._claims.pop(id(claim), None)
            self._until.pop(id(claim), None)

    def check(self, claim: Claim, prove: Callable[[], None]) -> None:
        """Check that *claim* is still valid, before a node acts. Costs nothing while its lease is renewed in time.

        Args:
            prove: Writes to the thread, and raises ConflictError if another process has taken it.
        """
        if time.monotonic() < self._until.get(id(claim), inf):
            return
        prove()  # this process was stopped, or the store was unreachable: the lease had expired
        self._extend((claim,), time.monotonic())

    def _extend(self, claims: Iterable[Claim], at: float) -> None:
        """Record that *claims* were renewed at the monotonic time *at*."""
        with self._changed:
            for claim in claims:
                if id(claim) in self._claims:
                    self._until[id(claim)] = at + claim.lease_s

    def release_later(self, claim: Claim) -> None:
        """Release *claim*, whose release failed, as soon as the store is available."""
        with self._changed:
            self._owed[claim.thread] = claim, time.monotonic() + claim.lease_s
            self._wake(time.monotonic() + IDLE_S)

    def release_now(self, thread: str) -> None:
        """Release the claim on *thread* whose release failed, if there is one.

        Raises:
            StoreError: The store still fails.
        """
        with self._changed:
            owed = self._owed.get(thread)
        store = self._store()
        if owed is None or store is None:
            return
        store.release(owed[0])
        self._paid(owed[0])

    def _paid(self, claim: Claim) -> None:
        """Forget that *claim* must be released, unless a later claim on its thread replaced it."""
        with self._changed:
            if self._owed.get(claim.thread, (None,))[0] is claim:
                del self._owed[claim.thread]

    def _wake(self, due: float) -> None:
        """Make the worker thread check at *due* at the latest. The caller holds the lock."""
        self._start()
        if due < self._due:
            self._changed.notify_all()  # it sleeps until a later time, for claims with longer leases

    def _is_busy(self) -> bool:
        """Return whether any claim must be renewed or released."""
        return bool(self._claims or self._owed)

    def _next(self) -> tuple[list[Claim], list[tuple[Claim, float]]] | None:
        """Wait until something is due; return the claims to renew, and those to release."""
        with self._changed:
            idle = time.monotonic() + IDLE_S
            while True:
                dues = [due for _, due in self._claims.values()]
                # The idle time applies if a release must be retried, or if there is nothing to renew.
                self._due = min([*dues, idle] if self._owed or not dues else dues)
                left_s = self._due - time.monotonic()
                if left_s <= 0 or (self._ending and not self._is_busy()):
                    break
                self._changed.wait(
                    min(left_s, IDLE_S)
                )  # removed claims do not wake it, and it ends soon after the last
            if not self._is_busy():
                self._worker = None  # under the lock: the next `_wake` starts another one
                return None
            return self._chosen(), list(self._owed.values())

    def _chosen(self) -> list[Claim]:
        """Return the claims to renew now, and schedule their next renewals after a third of the lease."""
        now = time.monotonic()
        chosen = [(key, claim) for key, (claim, due) in self._claims.items() if due <= now]
        for key, claim in chosen:
            self._claims[key] = claim, now + claim.lease_s / 3
        return [claim for _, claim in chosen]

    def _do(self, store: Store, work: tuple[list[Claim], list[tuple[Claim, float]]]) -> None:
        """Renew and release claims.

        After an error, the next attempt or the run's next commit will encounter it again.
        """
        claims, owed = work
        with contextlib.suppress(Exception):
            if claims:
                now = time.monotonic()
                store.renew(claims)
                # Renewing a void claim does nothing and raises no error, so an expired claim remains uncertain.
                self._extend(
                    [renewed for renewed in claims if self._until.get(id(renewed), 0.0) > time.monotonic()], now
                )
        for claim, until in owed:
            with contextlib.suppress(Exception):
                store.release(claim)
                self._paid(claim)
            if until < time.monotonic():  # the lease has run out: nothing is left to release
                self._paid(claim)


_RENEWERS: Final = PerStore(LeaseRenewer)
renewer_of: Final = _RENEWERS.of
end: Final = _RENEWERS.end


def take(store: Store, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
    """Claim *thread*, after releasing a claim on it whose release failed before.

    Args:
        create: Whether to create the thread if it does not exist.
        lease_s: Seconds that the claim is valid without renewal.
        at: Time of creation, in seconds since the epoch.

    Raises:
        InputError: There is no such thread and *create* is False.
        ConflictError: A living owner holds it.
        StoreError: The store failed.
    """
    release_now(store, thread)
    return store.claim(thread, create=create, lease_s=lease_s, at=at)


def check_unmoved(claim: Claim, head: Head) -> None:
    """Check that the thread, whose *head* was read after the claim, has not moved: the first commit stores the claim.

    Raises:
        ConflictError: Another owner has written it in between.
    """
    if head.seq != claim.head.seq:
        raise THREAD_HAS_MOVED(thread=claim.thread, expected=claim.head.seq, got=head.seq)


def release_now(store: Store, thread: str) -> None:
    """Release the claim of this process on *thread* whose release failed, if there is one.

    Raises:
        StoreError: The store still fails.
    """
    if store.blocking:  # other stores are in memory, where no release fails
        renewer_of(store).release_now(thread)


def give_back(store: Store, claim: Claim) -> None:
    """Release *claim*, or do it later if the store fails now. The result or error of the run is not affected."""
    try:
        store.release(claim)
    except StoreError:
        renewer_of(store).release_later(claim)
