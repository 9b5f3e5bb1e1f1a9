"""`graphrt serve` stops its workers together."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

FLOW = """
from typing import TypedDict

from graphrt import END, START, GraphBuilder
class State(TypedDict):
    topic: str

def flow(name):
    return GraphBuilder(State, name=name).add_node("work", lambda _: None).add_sequence([START, "work", END])

one, other = flow("one").compile(), flow("other").compile()
"""


@pytest.mark.needs("uvicorn", "starlette", "httpx")
def test_workers_of_several_graphs_stop_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has one grace period: each worker waits here until the other one stops too."""
    import graphrt.serve
    from graphrt.cli import main
    from graphrt.workers import Worker

    meeting = threading.Barrier(2, timeout=30)
    stop = Worker.stop

    def stop_with_the_other(worker: Worker, *, grace_s: float) -> int:
        meeting.wait()
        return stop(worker, grace_s=grace_s)

    def served(*_arguments: object, **_options: object) -> None:
        """Serve no request, and stop."""

    monkeypatch.setattr(Worker, "stop", stop_with_the_other)
    monkeypatch.setattr(graphrt.serve, "serve", served)
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(["serve", "flow.py:one", "flow.py:other", "--store", "runs.db"]) == 0
    assert not meeting.broken


@pytest.mark.needs("uvicorn", "starlette", "httpx")
def test_port_in_use_is_refused_before_a_worker_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from graphrt.cli import main
    from graphrt.workers import Worker

    begun: list[Worker] = []
    monkeypatch.setattr(Worker, "start", begun.append)
    (tmp_path / "flows.py").write_text(FLOW, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code = main(["serve", "flows.py:one", "--store", "runs.db", "--port", str(port)])
    err = capsys.readouterr().err

    assert (code, begun) == (2, [])
    assert f"cannot listen at 127.0.0.1:{port}" in err
    assert "--port" in err
    assert "sys.exit" not in err
