"""Places of queues, in every store."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from graphrt._journal import leases
from graphrt._runs.queue_slots import admitted, held, place_of
from graphrt.limits import Queue

from .mail_support import Open
from .queue_support import alone, note


def test_full_queue_is_checked_without_a_claim(open_any: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim on an item with a live owner may wait, and a queue may have hundreds of places."""
    graph = alone(note)
    here, there = open_any(graph), open_any(graph)
    queue = Queue(concurrency=3, limiter=(4, 60.0))
    tried: list[str] = []
    taken = leases.take

    def take(store: Any, place: str, **options: Any) -> Any:
        tried.append(place)
        return taken(store, place, **options)

    monkeypatch.setattr(leases, "take", take)
    with ExitStack() as stack:
        for _ in range(3):
            assert stack.enter_context(admitted(here._config, _store(here), "gpu", queue))
        assert len(set(tried)) == len(tried) == 6
        with admitted(there._config, _store(there), "gpu", queue) as may_begin:
            assert not may_begin
        assert len(tried) == 6
    for began in (True, False):  # the fourth of the rate, and the first one over the limit
        with admitted(there._config, _store(there), "gpu", queue) as may_begin:
            assert may_begin is began
    assert len([place for place in tried if place.startswith(place_of("rate.gpu", "0").rpartition(".")[0])]) == 4


def test_task_that_runs_elsewhere_is_checked_without_a_claim(open_any: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = alone(note)
    here, there = open_any(graph), open_any(graph)
    place = place_of("task", "t/1.0:work")
    with held(here._config, _store(here), place) as mine:
        assert mine
        monkeypatch.setattr(leases, "take", _refused)
        with held(there._config, _store(there), place) as also:
            assert not also
    monkeypatch.undo()
    with held(there._config, _store(there), place) as after:
        assert after


def _refused(store: Any, place: str, **options: Any) -> Any:
    pytest.fail(f"{place} was claimed")


def _store(runtime: Any) -> Any:
    assert runtime.store is not None
    return runtime.store
