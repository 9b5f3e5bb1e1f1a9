"""`graphrt serve`: a server on loopback with a token and a worker, until it is stopped."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from tests.testing.warm_python import WarmProcess

from .conftest import start

pytestmark = [pytest.mark.needs("uvicorn", "starlette", "httpx"), pytest.mark.slow]

FLOW = """
from typing import TypedDict
from graphrt import END, START, GraphBuilder
from graphrt.serve import Caller

class State(TypedDict):
    topic: str

def work(state: State) -> State:
    return {"topic": state["topic"].upper()}

def who(request):
    return Caller(user="ada") if request.headers.get("x-user") == "ada" else None

graph = GraphBuilder(State, name="flow").add_node("work", work).add_sequence([START, "work", END]).compile()
"""


@pytest.fixture
def started(tmp_path: Path):
    """Start `graphrt serve` with options, and return the process, its URL and its output."""
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    processes = []

    def serve(*options: str) -> tuple[WarmProcess, str, str]:
        command = ["-m", "graphrt", "serve", "flow.py:graph", "--store", "runs.db", "--port", "0"]
        process = start([*command, *options], cwd=tmp_path)
        processes.append(process)
        assert process.stderr is not None
        told = ""
        while "http://" not in told or not ("Bearer" in told or "--authorize" in options):
            line = process.stderr.readline()
            assert line, told
            told += line
        url = re.search(r"http://[\d.:]+", told)
        assert url is not None
        return process, url[0], told

    yield serve
    for one in processes:
        one.kill()
        one.communicate()


def ended(process: WarmProcess) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    return process.wait()


def test_server_drives_the_threads_of_callers_with_the_token(started, monkeypatch):
    import httpx

    # Like a deployment that sets a variable without a value: it names no token
    monkeypatch.setenv("GRAPHRT_SERVE_TOKEN", "")
    process, url, told = started()
    token = re.search(r"Bearer (\S+)", told)
    assert token is not None

    with httpx.Client(base_url=url, timeout=30) as client:
        path, body = "/graphs/flow/threads?wait_s=20", {"input": {"topic": "tea"}}
        refused = client.post(path, json=body)
        done = client.post(path, json=body, headers={"authorization": f"Bearer {token[1]}"})
        ready = client.get("/ready")

    assert (refused.status_code, ready.status_code) == (401, 200)
    assert (done.status_code, done.json()["state"]) == (200, {"topic": "TEA"})
    assert ended(process) == 0


def test_function_authorizes_and_without_a_worker_no_thread_is_driven(started):
    import httpx

    process, url, told = started("--no-worker", "--authorize", "flow.py:who")

    with httpx.Client(base_url=url, timeout=30, headers={"x-user": "ada"}) as client:
        begun = client.post("/graphs/flow/threads?wait_s=0.2", json={"input": {"topic": "tea"}})
        assert client.get("/graphs", headers={"x-user": "eve"}).status_code == 401

    assert "Bearer" not in told
    assert (begun.status_code, begun.json()["status"]) == (202, "running")
    assert ended(process) == 0


def test_server_listens_beyond_loopback_only_with_a_function_that_authorizes(tmp_path: Path):
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    words = ["serve", "flow.py:graph", "--store", "runs.db", "--host", "0.0.0.0"]
    process = start(["-m", "graphrt", *words], cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"})
    _, errors = process.communicate(timeout=60)

    assert process.wait() == 2
    assert "--authorize" in errors
