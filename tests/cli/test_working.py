"""Runs that are started here and driven by a worker process; their traces; values that are erased."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphrt.cli import main

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


def test_a_started_run_is_driven_by_a_worker_until_sigterm(call, work: Path) -> None:
    target, store = "working_graph.py:graph", "sqlite:///runs.db"
    started = call("start", target, "--set", "topic=tea", "--thread", "t", "--store", store, "--tag", "new").result
    assert started == {"thread": "t", "status": "running"}
    assert call("start", target, "--thread", "t", "--only-if-new", "--store", store).result["thread"] == "t"
    src = Path(__file__).parents[2] / "src"
    worker = subprocess.Popen(
        [sys.executable, "-m", "graphrt", "worker", target, "--store", store, "--poll", "0.02"],
        env={**os.environ, "PYTHONPATH": str(src)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 30
        while call("show", target, "t", "--store", store).result["status"] != "completed":
            assert time.monotonic() < until
            time.sleep(0.05)
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=20)
    finally:
        worker.kill()
    assert worker.returncode == 0
    assert '"ended": 1' in out


def test_values_are_erased_and_what_is_left_is_said(call, work: Path) -> None:
    target, store = "working_graph.py:graph", "sqlite:///runs.db"
    call("run", target, "--set", "topic=Anna", "--thread", "t", "--store", store)
    dry = call("audit", "erase", target, "--containing", "Anna", "--dry-run", "--store", store).result
    assert (dry["threads"], dry["lines"]) == (["t"], 2)
    done = call("audit", "erase", target, "--containing", "Anna", "--reason", "request 1", "--store", store)
    assert (done.code, done.result["lines"]) == (0, 2)
    assert b"Anna" not in b"".join(path.read_bytes() for path in work.glob("runs.db*"))
    assert main(["audit", "erase", target, "--store", store]) == 2


def test_a_stored_thread_is_traced(call, work: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    target, store = "working_graph.py:graph", "sqlite:///runs.db"
    call("run", target, "--set", "topic=tea", "--thread", "t", "--store", store)
    found = call("trace", target, "t", "--store", store, "--provider", "working_graph.py:provider")
    assert found.code == 0, found
    assert len(found.result["trace"]) == 32


def test_a_trace_goes_to_any_provider_of_the_api_and_to_nothing_else(call, work: Path) -> None:
    (work / "tracers.py").write_text(
        "from opentelemetry.trace import NoOpTracerProvider\nplain = NoOpTracerProvider()\nnumber = 5\n"
    )
    call("run", "working_graph.py:graph", "--thread", "t", "--store", "runs.db")
    words = ["trace", "working_graph.py:graph", "t", "--store", "runs.db", "--provider"]

    assert call(*words, "tracers.py:plain").code == 0
    wrong = call(*words, "tracers.py:number")
    assert (wrong.code, wrong.document["error"]["code"]) == (2, "bad-target")
    assert "does not name a tracer provider" in wrong.err
