"""The log of a worker: each cause once and then counted, and each failed and parked run."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import Runtime
from graphrt.stores import Store
from graphrt.workers import Worker, _repeated_log
from graphrt.workers._repeated_log import RepeatedLog

from .graphs import State, deadly, loop
from .process_support import ROOT
from .test_worker import store

__all__ = ["store"]


def changed() -> Any:
    """The graph `loop` without its node: no thread of `loop` can continue with it."""
    from graphrt import END, START, GraphBuilder

    g = GraphBuilder(State, name="loop")
    g.add_node("other", lambda _state: {})
    g.add_edge(START, "other").add_edge("other", END)
    return g.compile()


def test_threads_that_are_refused_for_one_reason_log_one_line_and_a_count(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(loop(), store=store)
    for _ in range(20):
        runtime.start({})
    with Worker(Runtime(changed(), store=store), poll_s=0.01) as worker:
        eventually(lambda: len(worker.health().refused) == 20 and not worker.health().driving)
        lines = [record.getMessage() for record in caplog.records if "left to others" in record.getMessage()]
        assert len(lines) == 1, lines
        monkeypatch.setattr(_repeated_log, "EVERY_S", 0.0)
        eventually(lambda: "(19 such since the last line)" in caplog.text)


def test_failed_run_logs_thread_node_and_class(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def count(_state: State) -> dict[str, Any]:
        raise ValueError("a secret of the state")

    runtime = Runtime(loop().with_nodes({"count": count}), store=store)
    with Worker(runtime, poll_s=0.01) as worker:
        runtime.start({}, thread="t-1")
        eventually(lambda: worker.health().failed == 1 and "t-1" in caplog.text)
    (record,) = [record for record in caplog.records if "t-1" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "Thread t-1 of graph 'loop' failed in node 'count': ValueError (node-failed)"


@pytest.mark.slow
def test_node_that_exits_is_logged_with_its_traceback(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def count(_state: State) -> dict[str, Any]:
        raise SystemExit(0)

    with Worker(Runtime(loop().with_nodes({"count": count}), store=store), poll_s=0.01) as worker:
        Runtime(loop(), store=store).start({}, thread="t-1")
        eventually(lambda: "Thread t-1 ended with an error that no run should raise" in caplog.text)
        assert worker.health().ended == 0
    assert "raise SystemExit(0)" in caplog.text


def test_parked_thread_logs_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "deadly").touch()
    url = f"sqlite:///{tmp_path}/runs.db"
    drive = "from graphrt import Runtime; from tests.workers.graphs import deadly; import sys;"
    drive += "Runtime(deadly(), store=sys.argv[1]).drive('t-1')"
    with Runtime(deadly(), store=url) as runtime:
        runtime.start({"folder": str(tmp_path)}, thread="t-1")
        for _ in range(2):
            killed = subprocess.run([sys.executable, "-c", drive, url], cwd=ROOT, check=False, timeout=60)
            assert killed.returncode == -9
        with Worker(runtime, poll_s=0.01, max_tries=2) as worker:
            eventually(lambda: worker.health().parked == 1 and "t-1" in caplog.text)
    assert "Thread t-1 of graph 'deadly' was parked: RunFailedError (parked)" in caplog.text


def test_causes_are_logged_again_after_a_while_and_evicted_when_there_are_too_many(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(_repeated_log.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(_repeated_log, "MOST", 2)
    repeated = RepeatedLog(logging.getLogger("graphrt.workers"))

    for number in range(5):
        repeated.say("a", logging.WARNING, "left %d", number)
    repeated.tell_more()
    assert [record.getMessage() for record in caplog.records] == ["left 0"]
    now[0] = 61.0
    repeated.tell_more()
    repeated.tell_more()
    assert [record.getMessage() for record in caplog.records][1:] == ["left 4 (4 such since the last line)"]
    for key in ("b", "c", "a"):  # "a" was evicted for "c", and is new again
        repeated.say(key, logging.WARNING, key)
    assert [record.getMessage() for record in caplog.records][2:] == ["b", "c", "a"]
