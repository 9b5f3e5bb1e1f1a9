"""The same thing done to several stores, one after another: a runtime on each, with the same clock, ids and seed.

This module opens, abandons and compares stores; the machine performs the operations.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime, open_store
from graphrt.errors import GraphrtError, InputError
from graphrt.stores.encrypted import EncryptedStore
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.memory import MemoryStore
from graphrt.stores.postgres import PostgresStore
from graphrt.stores.protocol import Store
from graphrt.stores.sqlite import SqliteStore
from laws.build import build, to_plain
from laws.description import Graph
from laws.dying import Mortal, PowerCutError, abandon, opened_again
from laws.steady import Steady, World

KEYS = {"k": bytes(range(32))}
FASTER = "-c synchronous_commit=off"
"""Server option: losing confirmed commits at a power loss is not tested here."""
PATIENCE_S = 30


class Places:
    """The places of stores, and those that stay open from one example to the next."""

    def __init__(self, folder: Path, postgres: str | None) -> None:
        self.folder = folder
        self.postgres = postgres
        self.numbers = itertools.count()
        self.open_postgres: PostgresStore | None = None

    def file(self) -> str:
        return str(self.folder / f"{next(self.numbers)}.db")

    def buried(self, pid: int | None) -> None:
        """Wait until the server's process *pid* has ended, which happens shortly after its connection was closed."""
        from stores import postgres_server

        assert self.postgres is not None
        until = time.monotonic() + PATIENCE_S
        while pid is not None and time.monotonic() < until:
            if not postgres_server.run(self.postgres, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid):
                return
            time.sleep(0.001)

    def close(self) -> None:
        if self.open_postgres is not None:
            self.open_postgres.close()


class Replica:
    """One store with its runtimes."""

    def __init__(self, name: str, places: Places, graph: Graph) -> None:
        self.name = name
        self.places = places
        self.graph = graph
        self.world = World()
        self.compiled = build(graph, Steady(graph, self.world))
        seconds, numbers = itertools.count(1_000_000), itertools.count(1)
        self.clock: Callable[[], float] = lambda: float(next(seconds))
        self.ids: Callable[[], str] = lambda: f"id-{next(numbers)}"
        self.store = self.first()
        self.mortal = Mortal(self.store)

    def first(self) -> Store:
        """A store without threads."""
        if self.name == "memory":
            return MemoryStore()
        if self.name == "sqlite":
            return SqliteStore(self.places.file())
        if self.name == "encrypted":
            return EncryptedStore(SqliteStore(self.places.file()), KEYS)
        if self.places.open_postgres is None:
            assert self.places.postgres is not None
            store = open_store(self.places.postgres)
            assert isinstance(store, PostgresStore)
            self.places.open_postgres = store
        return self.places.open_postgres

    def runtime(self, store: Any = None, **options: Any) -> Runtime[Any]:
        return Runtime(
            self.compiled,
            store=self.mortal if store is None else store,
            clock=self.clock,
            ids=self.ids,
            seed=1,
            lease_s=600,
            **options,
        )

    @contextlib.contextmanager
    def rival(self) -> Iterator[Runtime[Any]]:
        """Another runtime on the same threads, with a separate store object where possible."""
        store = self.store if isinstance(self.store, MemoryStore) else self.another()
        try:
            yield self.runtime(store)
        finally:
            if store is not self.store:
                store.close()

    def another(self) -> Store:
        """Another store object for the same threads."""
        store = self.store
        if isinstance(store, EncryptedStore):
            inner = store.store
            assert isinstance(inner, SqliteStore)
            return EncryptedStore(SqliteStore(inner.path), KEYS)
        if isinstance(store, SqliteStore):
            return SqliteStore(store.path)
        assert self.places.postgres is not None
        return open_store(self.places.postgres)

    def die(self, after: int | None, *, landed: bool = False) -> None:
        """Let the process die at its commit number *after* from now; None: let it live."""
        self.mortal = Mortal(self.store, after=after, landed=landed)

    def reopen(self) -> None:
        """Continue with a new store object, like another process after the death of this one."""
        store = self.store
        if isinstance(store, (MemoryStore, SqliteStore)):
            self.store = opened_again(store)
        elif isinstance(store, EncryptedStore):
            assert isinstance(store.store, SqliteStore)
            abandon(store.store)
            self.store = self.another()
        else:
            assert isinstance(store, PostgresStore)
            pid, _ = store._owner._identity
            store._owner.close()  # its backend is gone, and so are the claims
            store._link.close()
            self.places.open_postgres = None
            self.places.buried(pid)
            self.store = self.first()
        self.mortal = Mortal(self.store)

    def close(self) -> None:
        """Remove all leftovers."""
        if isinstance(self.store, PostgresStore):
            for head in self.store.query(ThreadFilter()):
                self.store.delete(head.thread)
        else:
            self.store.close()

    def plain(self, state: Any) -> dict[str, Any]:
        return to_plain(self.graph, state)


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """The result of a call: ("ok", value), or an error by its class and, for invalid calls, its code."""
    try:
        return "ok", call()
    except InputError as error:
        return type(error).__name__, error.code
    except GraphrtError as error:
        return type(error).__name__, None
    except PowerCutError:
        return "dead", None


def places(config: pytest.Config, folder: Path) -> Places:
    """Places for a test; the server is started if necessary."""
    from stores import postgres_server

    url = postgres_server.fresh_url(config, options=FASTER, unsafe="true")
    return Places(folder, url)


def forget(made: Places) -> None:
    """Remove the server's schema."""
    from stores import postgres_server

    made.close()
    if made.postgres is not None:
        postgres_server.drop(made.postgres)
