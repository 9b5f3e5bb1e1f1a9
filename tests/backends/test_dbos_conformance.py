"""DBOS satisfies every clause of a host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.stores import postgres_server, postgres_support

from graphrt.stores import open_store
from graphrt.testing.host_conformance import CLAUSES, TASK_CLAUSES, HostClause
from graphrt.workers import Host

pytestmark = [pytest.mark.slow, pytest.mark.needs("psycopg", "dbos")]


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from postgres_support.fresh(request.config)


# Half of a second for each: every other clause, and all of them in full runs.
@pytest.mark.parametrize(
    "clause",
    [
        pytest.param(clause, id=str(clause), marks=pytest.mark.full if number % 2 else ())
        for number, clause in enumerate([*CLAUSES, *TASK_CLAUSES])
    ],
)
def test_dbos_satisfies_the_clause(clause: HostClause, url: str, request: pytest.FixtureRequest) -> None:
    from graphrt.backends.dbos import DbosHost

    system, _ = postgres_server.plain(postgres_server.base_url(request.config))

    def make(*runtimes: Any, **options: Any) -> Host:
        return DbosHost(*runtimes, **options, system_database_url=system, sweep_s=0.2)

    clause(make, lambda: open_store(url), look_s=0.3)
