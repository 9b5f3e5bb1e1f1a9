"""Runtimes and worker processes that share a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.stores import postgres_support

from graphrt import Runtime
from graphrt.graph import CompiledGraph
from graphrt.stores import MemoryStore

from .mail_support import Open
from .process_support import Workers


@pytest.fixture(params=["memory", "sqlite"])
def open_(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens runtimes on one store; on SQLite each has a connection of its own, as another process has."""
    with ExitStack() as stack:
        shared = stack.enter_context(MemoryStore())

        def opened(graph: CompiledGraph[Any, Any], **options: Any) -> Runtime[Any]:
            store: Any = shared if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
            return stack.enter_context(Runtime(graph, store=store, **options))

        yield opened


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("psycopg"))])
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
