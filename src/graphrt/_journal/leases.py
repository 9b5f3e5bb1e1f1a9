"""Keeping leases alive while runs drive, and giving claims back: one worker thread for each store, while there is need.

A commit renews the lease of its claim by itself; a node that works for minutes does not commit. The worker thread does
nothing but `renew`. If it cannot (the process is stopped, the store is away), the lease runs out and somebody else may
take the thread: what this process still writes is refused then (rule R12).

A claim that cannot be given back because the store fails is owed: it is given back when the store works again, and
before this process claims the thread anew. Otherwise whoever retries after the fault would wait for his own lease.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import Final, final

from graphrt._forks import FreshLock
from graphrt.errors import StoreError
from graphrt.stores.protocol import Claim, Store

IDLE_S: Final = 2.0
"""Seconds that the worker thread waits for another claim before it ends, and between two tries to give one back."""


@final
class Keeper:
    """Renews the claims of one store, and gives back those that it is owed."""

    def __init__(self, store: Store) -> None:
        self._store = weakref.ref(store)
        self._claims: dict[int, tuple[Claim, float]] = {}
        """Each with when it is to be renewed next."""
        self._owed: dict[str, tuple[Claim, float]] = {}
        """By thread: a claim that could not be given back, and when its lease has run out in any case."""
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._due = 0.0
        """When the worker thread looks again."""
        self.pid: Final = os.getpid()

    def add(self, claim: Claim) -> None:
        """Renew *claim* until it is removed."""
        with self._changed:
            due = time.monotonic() + claim.lease_s / 3
            self._claims[id(claim)] = claim, due
            self._wake(due)

    def remove(self, claim: Claim) -> None:
        """Renew *claim* no more."""
        with self._changed:
            self._claims.pop(id(claim), None)

    def release_later(self, claim: Claim) -> None:
        """Give *claim* back as soon as the store can."""
        with self._changed:
            self._owed[claim.thread] = claim, time.monotonic() + claim.lease_s
            self._wake(time.monotonic() + IDLE_S)

    def release_now(self, thread: str) -> None:
        """Give back now what is owed of *thread*.

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
        with self._changed:
            if self._owed.get(claim.thread, (None,))[0] is claim:
                del self._owed[claim.thread]

    def _wake(self, due: float) -> None:
        """See that the worker thread looks at *due* at the latest. The caller has the lock."""
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="graphrt-leases", daemon=True)
            self._worker.start()
        if due < self._due:
            self._changed.notify_all()  # it waits by the longer leases of before

    def _pause(self) -> bool:
        """Wait until there is something to do; False if there will be nothing."""
        with self._changed:
            idle = time.monotonic() + IDLE_S
            while True:
                dues = [due for _, due in self._claims.values()]
                self._due = min([*dues, idle] if self._owed or not dues else dues)
                left_s = self._due - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            if not self._claims and not self._owed:
                self._worker = None
                return False
            return True

    def _chosen(self) -> list[Claim]:
        """The claims that are to be renewed now; they are due again after a third of their lease."""
        with self._changed:
            now = time.monotonic()
            chosen = [(key, claim) for key, (claim, due) in self._claims.items() if due <= now]
            for key, claim in chosen:
                self._claims[key] = claim, now + claim.lease_s / 3
            return [claim for _, claim in chosen]

    def _work(self) -> None:
        while self._pause():
            claims = self._chosen()
            with self._changed:
                owed = list(self._owed.values())
            store = self._store()
            if store is None:
                return
            # Whatever a store raises, the other claims need their keeper: the next time, or the run's next commit, tells.
            with contextlib.suppress(Exception):
                if claims:
                    store.renew(claims)
            for claim, until in owed:
                with contextlib.suppress(Exception):
                    store.release(claim)
                    self._paid(claim)
                if until < time.monotonic():
                    self._paid(claim)
            del store


_keepers: Final[weakref.WeakKeyDictionary[Store, Keeper]] = weakref.WeakKeyDictionary()
_lock: Final = FreshLock()


def keeper_of(store: Store) -> Keeper:
    """The keeper of *store*, made at first need; another one in the child of a fork."""
    with _lock:
        found = _keepers.get(store)
        if found is None or found.pid != os.getpid():
            found = _keepers[store] = Keeper(store)
        return found


def take(store: Store, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
    """Claim *thread*, after what this process owes of it; see `Store.claim`.

    Raises:
        InputError: There is no such thread and *create* is False.
        ConflictError: A living owner holds it.
        StoreError: The store failed.
    """
    release_now(store, thread)
    return store.claim(thread, create=create, lease_s=lease_s, at=at)


def release_now(store: Store, thread: str) -> None:
    """Give back what this process owes of *thread*.

    Raises:
        StoreError: The store still fails.
    """
    if store.blocking:
        keeper_of(store).release_now(thread)


def give_back(store: Store, claim: Claim) -> None:
    """Release *claim*, later if the store fails now: what the run came to, and its error, are not changed by that."""
    try:
        store.release(claim)
    except StoreError:
        keeper_of(store).release_later(claim)
