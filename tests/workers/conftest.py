"""Runtimes and worker processes that share a store: memory in one process, SQLite for several.

The behaviour of workers does not depend on the store, which conformance (tests/stores) checks. GRAPHRT_FULL=1 tests
them on all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.stores import postgres_support

from graphrt import Runtime
from graphrt.graph import CompiledGraph
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore, TenantStore

from .mail_support import Open
from .process_support import Workers

SQLITE = pytest.param("sqlite", marks=pytest.mark.full)


@pytest.fixture(params=["memory", SQLITE])
def open_(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens runtimes on one store; on SQLite, each has its own connection, like another process."""
    with ExitStack() as stack:
        shared = stack.enter_context(MemoryStore())

        def opened(graph: CompiledGraph[Any, Any], **options: Any) -> Runtime[Any]:
            store: Any = shared if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
            return stack.enter_context(Runtime(graph, store=store, **options))

        yield opened


STORES = [
    "memory",
    SQLITE,
    pytest.param("encrypted", marks=[pytest.mark.needs("cryptography"), pytest.mark.full]),
    pytest.param("tenant", marks=pytest.mark.full),
    pytest.param("postgres", marks=[pytest.mark.needs("psycopg"), pytest.mark.slow, pytest.mark.full]),
]


@pytest.fixture(params=STORES)
def open_any(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens runtimes on one store of each kind."""
    path = tmp_path / "runs.db"
    with ExitStack() as stack:
        store: Any
        match request.param:
            case "memory":
                store = MemoryStore()
            case "encrypted":
                store = EncryptedStore(SqliteStore(path), {"k": bytes(range(32))})
            case "tenant":
                store = TenantStore(stack.enter_context(SqliteStore(path)), "acme")
            case "postgres":
                urls = postgres_support.fresh(request.config)
                from graphrt.stores import PostgresStore

                store = PostgresStore(next(urls))
                stack.callback(lambda: next(urls, None))
            case _:
                store = SqliteStore(path)
        stack.enter_context(store)
        yield lambda graph, **options: stack.enter_context(Runtime(graph, store=store, **options))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.needs("psycopg"), pytest.mark.full])])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    if request.param == "sqlite":
        made = Workers(f"sqlite:///{tmp_path}/runs.db")
        yield made
        made.end()
        return
    for url in postgres_support.fresh(request.config):
        made = Workers(url)
        yield made
        made.end()
