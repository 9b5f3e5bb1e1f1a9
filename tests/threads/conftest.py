"""Thread verbs, with a clock and ids of the test's own: over the in-memory store, and over SQLite where files matter.

The behaviour of a verb does not depend on the store, which conformance (tests/stores) checks. GRAPHRT_FULL=1 tests them
on all.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from tests.stores import postgres_server

from .support import World
from .ways import Way

POSTGRES = pytest.param("postgres", marks=[pytest.mark.needs("psycopg"), pytest.mark.full])
SQLITE = pytest.param("sqlite", marks=pytest.mark.full)


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest):
    """A PostgreSQL store that the tests of this process share; each test starts with an empty one."""
    from graphrt.stores import open_store

    url = postgres_server.fresh_url(request.config, connect_timeout_s="5", busy_timeout_s="5", pool_size="2")
    store = open_store(url)
    yield store
    store.close()
    postgres_server.drop(url)


@pytest.fixture
def folder():
    """A folder in memory where the system has one: these tests do not test power loss, and syncing takes most of the
    time.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def the_world(kind, folder, request):
    world = World(kind, folder, request.getfixturevalue("postgres") if kind == "postgres" else None)
    yield world
    world.close()


@pytest.fixture(params=["memory", SQLITE, POSTGRES])
def world(request: pytest.FixtureRequest, folder):
    """A store of each kind, and runtimes on it."""
    yield from the_world(request.param, folder, request)


@pytest.fixture(params=["sqlite", POSTGRES])
def durable(request: pytest.FixtureRequest, folder):
    """A durable store of each kind."""
    yield from the_world(request.param, folder, request)


@pytest.fixture(params=["memory", SQLITE])
def local(request: pytest.FixtureRequest, folder):
    """A store in memory and a durable one, for tests in which they must behave alike."""
    yield from the_world(request.param, folder, request)


@pytest.fixture
def lite(request: pytest.FixtureRequest, folder):
    """Only SQLite, for tests that do not depend on the store."""
    yield from the_world("sqlite", folder, request)


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest):
    """How steps and streams are read."""
    return Way(request.param)
