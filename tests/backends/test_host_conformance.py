"""Every kind of host satisfies every clause; faulty hosts do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import with_more_time
from tests.stores import postgres_support

from graphrt.stores import open_store
from graphrt.testing import FaultyHost
from graphrt.testing.host_conformance import CLAUSES, TASK_CLAUSES, BrokenClauseError, HostClause, check
from graphrt.workers import Host, Worker

from . import planted

pytestmark = pytest.mark.slow
LOOK_S = 0.2
"""All hosts here poll at least every 0.1 s. Half of the default halves the tests: most of them wait for a poll."""


def in_process(*runtimes: Any, **options: Any) -> Host:
    return FaultyHost(*runtimes, **options)


def disturbed(*runtimes: Any, **options: Any) -> Host:
    return FaultyHost(*runtimes, **options, seed=16, drop=0.4, duplicate=0.5, delay_s=0.1)


def worker(*runtimes: Any, **options: Any) -> Host:
    return Worker(*runtimes, **options, poll_s=0.02)


@pytest.mark.parametrize("make", [in_process, disturbed, worker])
@pytest.mark.parametrize("clause", [*CLAUSES, *TASK_CLAUSES], ids=str)
def test_hosts_of_this_process_satisfy_the_clause(
    clause: HostClause, make: Callable[..., Host], tmp_path: Path
) -> None:
    clause(make, lambda: open_store(f"sqlite:///{tmp_path}/runs.db"), look_s=LOOK_S)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from postgres_support.fresh(request.config)


@pytest.mark.needs("psycopg")
@pytest.mark.parametrize("clause", [*CLAUSES, *TASK_CLAUSES], ids=str)
def test_workers_on_postgresql_satisfy_the_clause(clause: HostClause, url: str) -> None:
    clause(worker, lambda: open_store(url), look_s=LOOK_S)


def test_report_lists_checked_clauses_and_unsupported_features(tmp_path: Path) -> None:
    folders = iter(range(9))

    def storage() -> Callable[[], Any]:
        url = f"sqlite:///{tmp_path}/{next(folders)}.db"
        return lambda: open_store(url)

    report = check(in_process, storage, (CLAUSES[0], TASK_CLAUSES[0]), queues=False, look_s=LOOK_S)

    assert report.ok
    assert report.checked == (CLAUSES[0],)
    assert [(each.clause, each.needs) for each in report.not_offered] == [
        (TASK_CLAUSES[0], "a host that serves queues")
    ]
    assert "tasks" in str(report).splitlines()[-1]


@pytest.mark.parametrize("wrong", planted.HOSTS, ids=lambda wrong: wrong.__name__)
def test_faulty_host_breaks_the_clause_about_it(wrong: type[planted.Planted], tmp_path: Path) -> None:
    (clause,) = [clause for clause in CLAUSES if clause.name == wrong.breaks]
    clause(planted.Planted, lambda: open_store(f"sqlite:///{tmp_path}/right.db"), look_s=LOOK_S)

    def trial(look_s: float) -> None:
        url = f"sqlite:///{tmp_path}/wrong-{look_s}.db"
        with pytest.raises(BrokenClauseError):
            clause(wrong, lambda: open_store(url), look_s=look_s, patience_s=1.5)

    with_more_time(trial, 1.0, 10.0)  # a busy machine may take seconds to show the bug
