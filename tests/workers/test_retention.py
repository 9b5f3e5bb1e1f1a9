"""Retention: a worker deletes old threads by rules, without harm to live ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import Runtime
from graphrt.errors import InputError
from graphrt.stores import MemoryStore, Store, open_store
from graphrt.testing import Fault, FlakyStore
from graphrt.workers import Retention, Worker

from .graphs import asking, loop

DAY_S = 86_400.0


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with MemoryStore() if request.param == "memory" else open_store(f"sqlite:///{tmp_path}/runs.db") as made:
        yield made


def aged(store: Store, days: float, *threads: str, graph: Any = None, **options: Any) -> None:
    """Run *threads* with a clock that is *days* behind."""
    runtime = Runtime(graph or loop(), store=store, clock=lambda: time.time() - days * DAY_S)
    for thread in threads:
        runtime.run({}, thread=thread, **options)


def left(store: Store) -> set[str]:
    return {info.thread for info in Runtime(loop(), store=store).threads()}


def test_a_worker_deletes_ended_threads_that_are_old(store: Store) -> None:
    aged(store, 40, "old", "older")
    aged(store, 1, "young")
    aged(store, 40, "asks", graph=asking())
    runtime = Runtime(loop(), store=store)
    with Worker(runtime, poll_s=0.01, retention=[Retention(older_than=timedelta(days=30))]) as worker:
        eventually(lambda: worker.health().deleted == 2)
        thread = runtime.start({})
        assert runtime.wait(thread, timeout_s=30).status == "completed"
    assert left(store) == {"young", "asks", thread}


def test_rules_match_status_graph_and_tags(store: Store) -> None:
    aged(store, 3, "asks", graph=asking())
    aged(store, 3, "kept")
    aged(store, 3, "test-run", tags={"test", "mine"})
    rules = [
        Retention(older_than=2 * DAY_S, status="interrupted", graph="asking"),
        Retention(older_than=2 * DAY_S, tags={"test"}),
    ]
    with Worker(Runtime(loop(), store=store), poll_s=0.01, retention=rules) as worker:
        eventually(lambda: worker.health().deleted == 2)
    assert left(store) == {"kept"}


def test_worker_sweeps_repeatedly(store: Store) -> None:
    rules = [Retention(older_than=30 * DAY_S)]
    with Worker(Runtime(loop(), store=store), poll_s=0.01, retention=rules, retention_every_s=0.02) as worker:
        for number in range(3):
            aged(store, 31, f"t{number}")
            eventually(lambda number=number: worker.health().deleted == number + 1)  # type: ignore[misc]


def test_several_workers_delete_each_thread_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with open_store(url) as one, open_store(url) as other:
        aged(one, 31, *(f"t{number}" for number in range(120)))
        workers = [
            Worker(Runtime(loop(), store=store), retention=[Retention(older_than=DAY_S)]) for store in (one, other)
        ]
        with workers[0], workers[1]:
            eventually(lambda: sum(worker.health().deleted for worker in workers) == 120)
            time.sleep(0.05)
        assert sum(worker.health().deleted for worker in workers) == 120
        assert left(one) == set()


def test_failed_sweep_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    inner = MemoryStore()
    aged(inner, 31, "old")
    with FlakyStore(inner, [Fault("delete_many", 1)]) as store:
        rules = [Retention(older_than=DAY_S)]
        with (
            caplog.at_level(logging.WARNING, "graphrt.workers"),
            Worker(Runtime(loop(), store=store), retention=rules, retention_every_s=0.02) as worker,
        ):
            eventually(lambda: worker.health().deleted == 1)
        assert "Old threads were not deleted" in caplog.text


def test_worker_starts_although_its_store_is_unavailable_at_first() -> None:
    inner = MemoryStore()
    aged(inner, 31, "old")
    with FlakyStore(inner, [Fault("query", 1, times=2)]) as store:
        rules = [Retention(older_than=DAY_S)]
        with Worker(Runtime(loop(), store=store), retention=rules, retention_every_s=0.02) as worker:
            eventually(lambda: worker.health().deleted == 1)


@pytest.mark.parametrize("age", [0, -1, True, "30d", float("inf"), float("nan"), timedelta(0)])
def test_invalid_age_is_refused(age: Any) -> None:
    with pytest.raises(InputError, match="older_than") as caught:
        Retention(older_than=age)
    assert caught.value.code == "input"


def test_rules_are_validated_when_the_worker_starts(store: Store) -> None:
    with pytest.raises(InputError, match="retention"):
        Worker(Runtime(loop(), store=store), retention=[{"older_than": 3}])  # type: ignore[list-item]
    wrong = Retention(older_than=1, tags={""})
    worker = Worker(Runtime(loop(), store=store), retention=[wrong])
    with pytest.raises(InputError) as caught:
        worker.start()
    assert caught.value.code == "bad-label"
    assert worker.health().state == "stopped"
