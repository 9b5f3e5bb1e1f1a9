"""A PostgreSQL store keeps every clause of the store protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphrt.stores.protocol import Store
from graphrt.testing import conformance

from . import postgres_server


@pytest.fixture
def make(request):
    from graphrt.stores.postgres import PostgresStore

    url = postgres_server.fresh_url(request.config)
    yield lambda: PostgresStore(url, busy_timeout_s=5.0)
    postgres_server.drop(url)


@pytest.mark.needs("psycopg")
@pytest.mark.parametrize("clause", conformance.CLAUSES, ids=str)
def test_a_postgres_store_keeps(clause: conformance.Clause, make: Callable[[], Store]):
    clause(make)
