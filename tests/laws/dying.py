"""Processes that die between two commits, without a process: a store that stops, and what is left of it for the next.

How a run is cut and how its store is opened again lives here; what must come of it is the tests' business.
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
    """The process is dead: whatever is tried after this comes to nothing."""


class Mortal(StoreWrapper):
    """A store that passes everything on until the process dies: at its commit number *after*, counted from 0.

    Args:
        inner: The store.
        after: How many commits it lets through; None never dies.
        landed: Whether the commit at which it dies is stored: nobody hears of it then.
    """

    def __init__(self, inner: Store, *, after: int | None = None, landed: bool = False) -> None:
        super().__init__(inner)
        self.inner = inner
        self.after = after
        self.landed = landed
        self.dead = False
        self.commits: list[Commit] = []
        """What is stored."""
        self.seen: Callable[[Commit], object] = lambda _: None
        """Called with each commit that was stored."""

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
    """A store that nobody used yet."""
    return MemoryStore() if kind == "memory" else open_store(f"sqlite:///{folder / f'{next(_numbers)}.db'}")


_numbers = itertools.count()


def opened_again(store: Store) -> Store:
    """What *store* holds, as the next process finds it: nobody gave back what was claimed."""
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
    """Leave the file as a dead process does, its claims not given back, and let their leases run out."""
    store._file.close()
    if not Path(store.path).exists():  # it was never used
        return
    db = sqlite3.connect(store.path)
    try:
        with db:
            db.execute("UPDATE thread SET lease = 0 WHERE lease IS NOT NULL")
    finally:
        db.close()
