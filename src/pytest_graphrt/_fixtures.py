"""Fixtures. They are sync, so that they work with every plugin for async tests, and import graphrt on use."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from graphrt import CompiledGraph, Runtime
    from graphrt.harness import ScriptedModel
    from graphrt.stores import Store
    from graphrt.testing import VirtualClock

_POSTGRES = "GRAPHRT_TEST_POSTGRES"


class MakeRuntime(Protocol):
    """Type of the fixture `graphrt_runtime`."""

    def __call__(self, graph: CompiledGraph[Any, Any, Any], /, **options: Any) -> Runtime[Any, Any]:
        """Return a runtime of *graph*; *options* are those of `Runtime`."""
        ...


class MakeModel(Protocol):
    """Type of the fixture `graphrt_model`."""

    def __call__(self, script: Any, /) -> ScriptedModel:
        """Return a model that answers from *script*."""
        ...


@pytest.fixture
def graphrt_clock() -> VirtualClock:
    """A clock on which waits take no time."""
    from graphrt.testing import VirtualClock

    return VirtualClock()


@pytest.fixture
def graphrt_sleep(graphrt_clock: VirtualClock) -> Callable[[float], None]:
    """A function for `sleep=` that advances `graphrt_clock`; the waits are in `graphrt_clock.slept`."""
    return graphrt_clock.sleep


@pytest.fixture
def graphrt_ids() -> Callable[[], str]:
    """A function for `ids=` that returns "id-1", "id-2" and so on, the same in every run of the test."""
    numbers = count(1)
    return lambda: f"id-{next(numbers)}"


@pytest.fixture
def graphrt_model() -> Iterator[MakeModel]:
    """Makes scripted models; each must have used its whole script at the end of the test."""
    from graphrt.harness import ScriptedModel

    made: list[ScriptedModel] = []

    def make(script: Any, /) -> ScriptedModel:
        made.append(model := ScriptedModel(script))
        return model

    yield make
    for model in made:
        model.assert_done()


@pytest.fixture
def graphrt_runtime(
    graphrt_clock: VirtualClock, graphrt_sleep: Callable[[float], None], graphrt_ids: Callable[[], str]
) -> Iterator[MakeRuntime]:
    """Makes runtimes with a virtual clock, waits that take no time, and fixed ids and random numbers.

    The options of the call take precedence. Without `store=`, threads are kept in memory. The runtimes are closed at
    the end of the test.
    """
    from graphrt import Runtime

    made: list[Runtime[Any, Any]] = []
    defaults: dict[str, Any] = {
        "store": "memory:",
        "clock": graphrt_clock,
        "sleep": graphrt_sleep,
        "ids": graphrt_ids,
        "seed": 0,
    }

    def make(graph: CompiledGraph[Any, Any, Any], /, **options: Any) -> Runtime[Any, Any]:
        made.append(runtime := Runtime(graph, **{**defaults, **options}))
        return runtime

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def graphrt_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty SQLite store in a temporary folder; with `indirect` parametrisation, "memory" or "postgresql"."""
    with _opened(getattr(request, "param", "sqlite"), tmp_path) as store:
        yield store


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def graphrt_each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind in turn; PostgreSQL only if GRAPHRT_TEST_POSTGRES has the URL of a database."""
    with _opened(request.param, tmp_path) as store:
        yield store


@contextmanager
def _opened(kind: str, folder: Path) -> Generator[Store]:
    from graphrt.stores import open_store

    match kind:
        case "memory":
            store = open_store("memory:")
        case "sqlite":
            store = open_store(f"sqlite:///{folder / 'graphrt.db'}")
        case "postgresql":
            with _schema() as url, open_store(url) as store:
                yield store
            return
        case _:
            pytest.fail(f"graphrt_store has no kind {kind!r}; known: memory, sqlite, postgresql", pytrace=False)
    with store:
        yield store


@contextmanager
def _schema() -> Generator[str]:
    """Yield the URL of a new schema of the PostgreSQL database for tests, which is dropped at the end."""
    address = os.environ.get(_POSTGRES)
    if not address:
        pytest.skip(f"{_POSTGRES} does not have the URL of a PostgreSQL database")
    psycopg = pytest.importorskip("psycopg", reason='pip install "graphrt[postgres]"')
    name = f"graphrt_test_{uuid4().hex[:12]}"
    try:
        yield f"{address}{'&' if '?' in address else '?'}schema={name}"
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
