"""The overhead of tracing and the log for a durable step, on its own thread: a bounded number of calls, and no entries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt._journal.fast_step_bytes import FastStepBytes
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite import _files
from graphrt.stores.sqlite._journal_modes import Pragmas

from . import graphs
from .counting import CALLS, PYTHON, calls_per_unit

pytestmark = pytest.mark.needs("opentelemetry")


@pytest.fixture
def tracing() -> Any:
    """A `Tracing` whose worker thread never starts: only the thread of the run is counted."""
    from opentelemetry.trace import NoOpTracerProvider

    from graphrt.otel import Tracing

    made = Tracing(tracer_provider=NoOpTracerProvider())
    made._delivery.start = lambda: None  # type: ignore[method-assign]  # see above
    return made


@pytest.fixture
def info_log() -> Iterator[None]:
    logger = logging.getLogger("graphrt.runs")
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield
    logger.setLevel(before[0])
    logger.propagate = before[1]


def steps(folder: Path, sinks: list[Any], kinds: frozenset[str]) -> float:
    """Calls of a step of a new thread, in a file without contention."""
    store = SqliteStore(folder / "runs.db", _pragmas=Pragmas("wal", "OFF"))

    def prepare(n: int) -> graphs.Run:
        runtime = Runtime(graphs.talk_graph(n), store=store, sinks=sinks)
        return lambda: runtime.run({"count": 0, "messages": []})

    try:
        return calls_per_unit(prepare, 100, kinds)
    finally:
        store.close()


def test_tracing_adds_at_most_a_bounded_number_of_calls_to_a_durable_step(
    tmp_path: Path, tracing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_SETTLED_NS", -1e18)  # as if the folder had not changed for seconds

    assert steps(tmp_path, [tracing], PYTHON) - steps(tmp_path, [], PYTHON) <= 33
    assert steps(tmp_path, [tracing], CALLS) - steps(tmp_path, [], CALLS) <= 70


def test_traced_and_logged_run_builds_no_entries_for_its_plain_steps(
    tmp_path: Path, tracing: Any, info_log: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    entries = FastStepBytes.entries
    monkeypatch.setattr(FastStepBytes, "entries", lambda self, *args: made.append(1) or entries(self, *args))
    with Runtime(graphs.talk_graph(20), store=f"sqlite:///{tmp_path}/runs.db", sinks=[tracing]) as runtime:
        runtime.run({"count": 0, "messages": []}, thread="t")
        waiting = [call for call, _ in tracing._delivery._queue]

        assert made == []
        assert sum(call.__name__ == "_take_step" for call in waiting) > 10  # they are built on the worker thread
        assert len(list(runtime.entries("t"))) > 20
