"""Simulates processes that die between two commits: a store that stops, and its remains for the next process.

This module interrupts runs and reopens their store; the tests check the result.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from graphrt import open_store
from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Store
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import Claim, Commit
from graphrt.stores.wrapper import StoreWrapper

StoreKind: TypeAlias = Literal["memory", "sqlite"]


class PowerCutError(BaseException):
    """The process is dead: every later call fails."""


class Mortal(StoreWrapper):
    """A store that delegates until the process dies: at its commit number *after*, counted from 0.

    Args:
        inner: The store.
        after: How many commits it passes on; with None it never dies.
        landed: Whether the commit at which it dies is stored, without an acknowledgement.
    """

    def __init__(self, inner: Store, *, after: int | None = None, landed: bool = False) -> None:
        super().__init__(inner)
        self.inner = inner
        self.after = after
        self.landed = landed
        self.dead = False
        self.commits: list[Commit] = []
        """The content of the store."""
        self.seen: Callable[[Commit], object] = lambda _: None
        """Called with each commit that was stored."""

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        claim = self.inner.claim(thread, create=create, lease_s=lease_s, at=at)
        # Questions about effects name how the owner before was lost, if the store knows. One in memory never does, and
        # what these processes do is compared over all stores.
        claim.former = "released"
        return claim

    def commit(self, claim: Claim, commit: Commit) -> None:
        dies = self.after is not None and len(self.commits) >= self.after
        if self.dead or (dies and not self.landed):
            self.dead = True
            raise PowerCutError
        self.inner.commit(claim, commit)
        self.commits.append(commit)
        self.seen(commit)
        if dies:
            self.dead = True
            raise PowerCutError

    def release(self, claim: Claim) -> None:
        if not self.dead:
            self.inner.release(claim)

    def renew(self, claims: Iterable[Claim]) -> None:
        if not self.dead:
            self.inner.renew(claims)


def make(kind: StoreKind, folder: Path) -> Store:
    """A new store."""
    return MemoryStore() if kind == "memory" else open_store(f"sqlite:///{folder / f'{next(_numbers)}.db'}")


_numbers = itertools.count()


def opened_again(store: Store) -> Store:
    """The content of *store* for the next process, with its unreleased claims."""
    if isinstance(store, MemoryStore):
        heir = MemoryStore()
        heir._threads.update((id_, kept) for id_, kept in store._threads.items() if kept.seq)
        for kept in heir._threads.values():
            kept.claim = None
        return heir
    assert isinstance(store, SqliteStore)
    abandon(store)
    return SqliteStore(store.path)


def abandon(store: SqliteStore) -> None:
    """Leave the file like a dead process, with unreleased claims, and let their leases expire."""
    store._file.close()
    if not Path(store.path).exists():  # it was never used
        return
    db = sqlite3.connect(store.path)
    try:
        with db:
            db.execute("UPDATE thread SET lease = 0 WHERE lease IS NOT NULL")
    finally:
        db.close()
