"""A PostgreSQL store satisfies every clause of the store protocol."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

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
def test_postgres_store_satisfies_each_clause(clause: conformance.Clause, make: Callable[[], Store]):
    clause(make)


@pytest.fixture
def database_with_pgvector(request):
    """The URL of a database that has the extension, in a schema that is not on the search path."""
    base = postgres_server.base_url(request.config)
    if not postgres_server.run(base, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        pytest.skip("needs a PostgreSQL server with pgvector")
    name = f"pgvector_{secrets.token_hex(4)}"
    postgres_server.run(base, f"CREATE DATABASE {name}")
    url = urlunsplit(urlsplit(base)._replace(path=f"/{name}"))
    postgres_server.run(url, 'CREATE SCHEMA "of vectors"')
    postgres_server.run(url, 'CREATE EXTENSION vector SCHEMA "of vectors"')
    yield url
    postgres_server.run(base, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.needs("psycopg")
def test_store_with_pgvector_satisfies_the_clauses_about_similarity(database_with_pgvector: str):
    from graphrt.stores.postgres import PostgresStore

    for clause in conformance.CLAUSES:
        if clause.name in ("memory.items_are_found_by_their_meaning", "memory.vectors_of_another_length_are_refused"):
            schema = f"s{secrets.token_hex(4)}"
            url = postgres_server.with_options(database_with_pgvector, schema=schema)
            clause(lambda url=url: PostgresStore(url, busy_timeout_s=5.0))
