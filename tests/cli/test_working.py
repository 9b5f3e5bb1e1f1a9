"""Runs that are started here and driven by a worker process, with their traces and erased values."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from graphrt import Runtime
from graphrt.cli import main, threads, watching
from graphrt.cli.targets import graph_of
from graphrt.workers import Worker

from .conftest import start

GRAPH = """
from pydantic import BaseModel
from graphrt import END, START, GraphBuilder

class State(BaseModel):
    topic: str = ""
    said: str = ""

g = GraphBuilder(State, name="work")
g.add_node("say", lambda state: {"said": f"about {state.topic}"})
g.add_edge(START, "say")
g.add_edge("say", END)
graph = g.compile()

def provider():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    import sys
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    return made
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "working_graph.py").write_text(GRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_started_run_is_driven_by_a_worker_until_sigterm(call, work: Path) -> None:
    target, store = "working_graph.py:graph", "sqlite:///runs.db"
    started = call("start", target, "--set", "topic=tea", "--thread", "t", "--store", store, "--tag", "new").result
    assert started == {"thread": "t", "status": "running"}
    assert call("start", target, "--thread", "t", "--if-exists", "return", "--store", store).result["thread"] == "t"
    worker = start(["-m", "graphrt", "worker", target, "--store", store, "--poll", "0.02"])
    try:
        until = time.monotonic() + 60
        while call("show", target, "t", "--store", store).result["status"] != "completed":
            assert time.monotonic() < until
            time.sleep(0.05)
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=20)
    finally:
        worker.kill()
    assert worker.returncode == 0
    assert "1 ended" in out


def test_values_are_erased_and_the_remaining_ones_reported(call, work: Path) -> None:
    target, store = "working_graph.py:graph", "sqlite:///runs.db"
    call("run", target, "--set", "topic=Anna", "--thread", "t", "--store", store)
    dry = call("audit", "erase", target, "--containing", "Anna", "--dry-run", "--store", store).result
    assert (dry["threads"], dry["lines"]) == (["t"], 2)
    done = call("audit", "erase", target, "--containing", "Anna", "--reason", "request 1", "--store", store)
    assert (done.code, done.result["lines"]) == (0, 2)
    assert b"Anna" not in b"".join(path.read_bytes() for path in work.glob("runs.db*"))
    assert main(["audit", "erase", target, "--store", store]) == 2


def test_stored_thread_is_traced(call, work: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    target, store = "working_graph.py:graph", "sqlite:///runs.db"
    call("run", target, "--set", "topic=tea", "--thread", "t", "--store", store)
    found = call("trace", target, "t", "--store", store, "--provider", "working_graph.py:provider")
    assert found.code == 0, found
    assert len(found.result["trace"]) == 32


def test_trace_is_sent_only_to_the_configured_provider_of_the_api(call, work: Path) -> None:
    (work / "tracers.py").write_text(
        "from opentelemetry.trace import NoOpTracerProvider\nplain = NoOpTracerProvider()\nnumber = 5\n"
    )
    call("run", "working_graph.py:graph", "--thread", "t", "--store", "runs.db")
    words = ["trace", "working_graph.py:graph", "t", "--store", "runs.db", "--provider"]

    assert call(*words, "tracers.py:plain").code == 0
    wrong = call(*words, "tracers.py:number")
    assert (wrong.code, wrong.document["error"]["code"]) == (2, "input")
    assert "--provider cannot be 'tracers.py:number'" in wrong.err


RUNTIMES = """
from graphrt import Runtime
from working_graph import graph

def without():
    return Runtime(graph, deps="mine")

with_own = Runtime(graph, store="sqlite:///own.db")
"""


def test_runtime_without_a_store_takes_that_of_the_command(call, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "runtimes.py").write_text(RUNTIMES)
    monkeypatch.setattr("graphrt.workers.Worker.serve", _serve_until_idle)

    call("start", "runtimes.py:without", "--thread", "a", "--store", "runs.db")
    worked = call("worker", "runtimes.py:without", "--store", "runs.db", "--poll", "0.01")
    assert (worked.code, worked.result["ended"]) == (0, 1)
    monkeypatch.setenv("GRAPHRT_STORE", "runs.db")
    call("start", "runtimes.py:without", "--thread", "b")
    assert call("worker", "runtimes.py:without", "--poll", "0.01").result["ended"] == 1
    assert call("show", "working_graph.py:graph", "b").result["status"] == "completed"


def test_a_runtime_with_a_store_keeps_it(call, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "runtimes.py").write_text(RUNTIMES)

    refused = call("worker", "runtimes.py:with_own", "--store", "runs.db")
    assert (refused.code, refused.document["error"]["code"]) == (2, "input")
    assert "a store of its own, a SqliteStore" in refused.err
    assert not (work / "runs.db").exists()
    monkeypatch.setenv("GRAPHRT_STORE", "runs.db")
    call("start", "runtimes.py:with_own", "--thread", "t")
    assert (work / "own.db").exists()
    assert not (work / "runs.db").exists()


def test_worker_refuses_a_store_in_memory(call, work: Path) -> None:
    (work / "runtimes.py").write_text(RUNTIMES)
    for target in ("working_graph.py:graph", "runtimes.py:without"):
        refused = call("worker", target, "--store", "memory:")
        assert (refused.code, refused.document["error"]["code"]) == (2, "no-such-database")
        assert "in memory, which no other process reaches" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("start",),
        ("schedules", "add"),
        pytest.param(("serve", "--no-worker"), marks=pytest.mark.needs("uvicorn", "starlette", "httpx")),
    ],
)
def test_work_for_other_processes_is_not_left_in_memory(call, work: Path, words: tuple[str, ...]) -> None:
    more = ("daily", "0 9 * * *") if words[0] == "schedules" else ()

    refused = call(*words, "working_graph.py:graph", *more, "--store", "memory:")

    assert (refused.code, refused.document["error"]["code"]) == (2, "no-such-database")


def test_node_that_exits_does_not_set_the_exit_code(call, work: Path) -> None:
    (work / "exits.py").write_text(GRAPH.replace('{"said": f"about {state.topic}"}', "exit(0)"))

    done = call("run", "exits.py:graph", "--store", "runs.db", "--thread", "t")

    assert (done.code, done.document["exit_code"]) == (1, 1)
    assert "called sys.exit(0)" in done.err
    assert call("show", "exits.py:graph", "t", "--store", "runs.db").result["status"] == "cancelled"


def test_cancel_says_that_a_run_goes_on_until_its_node_returns(
    call, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_ASKED_S", 0.01)
    began, returns = threading.Event(), threading.Event()

    def say(_state: object) -> None:
        began.set()
        returns.wait(30)

    graph = graph_of("working_graph.py:graph")[0].with_nodes({"say": say})
    with Runtime(graph, store="sqlite:///runs.db") as runtime, Worker(runtime, poll_s=0.01):
        runtime.start({}, thread="t")
        assert began.wait(30)
        done = call("cancel", "working_graph.py:graph", "t", "--store", "runs.db")
        returns.set()
        runtime.wait("t", timeout_s=30)

    assert (done.code, done.result["status"]) == (0, "running")
    assert "The run of t ends when its open nodes have ended" in done.err


def _serve_until_idle(worker: Worker, *, grace_s: float) -> None:
    """Work like `serve` does, until no thread is due, instead of a signal."""
    with worker:
        until = time.monotonic() + 30
        while worker.health().ended + worker.health().failed == 0 and time.monotonic() < until:
            time.sleep(0.01)


@pytest.mark.parametrize("time_", ["x", "30", "", "nand", "-1s"])
def test_time_without_a_number_or_unit_is_refused_with_the_name_of_its_option(call, work: Path, time_: str) -> None:
    refused = call("worker", "working_graph.py:graph", "--store", "runs.db", "--delete-older-than", time_)
    assert refused.code == 2
    assert "--delete-older-than cannot be read as a time" in refused.err


@pytest.mark.slow
def test_worker_process_can_be_watched(call, work: Path) -> None:
    (work / "failing.py").write_text(GRAPH.replace('{"said": f"about {state.topic}"}', '{"said": 1 // 0}'))
    call("start", "failing.py:graph", "--thread", "t", "--store", "runs.db")
    words = ["--poll", "0.02", "--health-file", "health.json", "--lease", "7", "--per-graph", "work=1"]
    worker = start(["-m", "graphrt", "worker", "failing.py:graph", "--store", "runs.db", *words])
    try:
        until = time.monotonic() + 60
        while not (work / "health.json").exists() or json.loads((work / "health.json").read_text())["failed"] != 1:
            assert time.monotonic() < until
            time.sleep(0.05)
        report = json.loads((work / "health.json").read_text())
        assert (report["ok"], report["state"], report["trouble"]) == (True, "working", None)
        assert abs(time.time() - report["written_at"]) < 20
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=20)
    finally:
        worker.kill()
    assert json.loads((work / "health.json").read_text())["state"] == "stopped"
    assert [path.name for path in work.glob("health.json*")] == ["health.json"]
    line = r"^\d{4}-\d\d-\d\d \S+ WARNING graphrt.workers: Thread t of graph 'work' failed in node 'say': ZeroDivisionError"
    assert re.search(line, err, re.MULTILINE), err


def test_health_file_of_an_earlier_worker_is_replaced(call, work: Path) -> None:
    with Runtime(graph_of("working_graph.py:graph")[0], store="memory:") as runtime:
        for poll_s in (0.1, 0.2):
            with watching.health_file("health.json", Worker(runtime, poll_s=poll_s).health):
                pass

    assert json.loads((work / "health.json").read_text())["state"] == "new"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--health-file", "none/health.json"], "none/health.json"),
        (["--per-graph", "word=3"], "per_graph= names 'word'"),
        (["--per-graph", "work"], "--per-graph cannot be read"),
        (["--per-graph", "work=1", "--per-graph", "work=2"], "--per-graph has two values for 'work'"),
        (["--per-graph", "work=0"], "per_graph['work']= cannot be 0"),
    ],
)
def test_conflicting_options_of_a_worker_are_refused(call, work: Path, words: list[str], told: str) -> None:
    refused = call("worker", "working_graph.py:graph", "--store", "runs.db", *words)
    assert refused.code == 2
    assert told in refused.err


def test_lease_option_applies_to_a_runtime_that_the_command_creates(call, work: Path) -> None:
    (work / "runtimes.py").write_text(RUNTIMES)
    refused = call("worker", "runtimes.py:without", "--store", "runs.db", "--lease", "7")
    assert (refused.code, refused.document["error"]["code"]) == (2, "input")
    assert "--lease" in refused.err
