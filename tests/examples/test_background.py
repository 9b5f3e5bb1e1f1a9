"""The report service as deployed: a real server, real workers, a client that loses its connection."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import Port

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.needs("fastapi", "uvicorn"), pytest.mark.slow]


class Service:
    def __init__(self, folder: Path) -> None:
        self._port = Port()
        self.port = self._port.number
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self, *command: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "REPORTS_STORE": f"sqlite:///{self.folder}/reports.db",
            "REPORTS_CHAPTER_S": "1.0",  # a test has to stop the worker between two of them
        }
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment)
        self.processes.append(process)
        return process

    def server(self) -> subprocess.Popen[bytes]:
        options = ["--factory", "--port", str(self.port), "--log-level", "error"]
        process = self.begin("uvicorn", "examples.background.server:app", *options)
        until = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return process
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def events(self, thread: str, after: int = 0) -> Iterator[tuple[int, Any]]:
        """Pairs of id and data, like a browser receives them, until the stream ends or breaks."""
        headers = {"Last-Event-ID": str(after)} if after else {}
        request = urllib.request.Request(f"{self.url}/runs/{thread}/events", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                seen = 0
                for line in reply:
                    name, _, value = line.decode().strip().partition(": ")
                    if name == "id":
                        seen = int(value)
                    elif name == "data" and value != "{}":
                        yield seen, json.loads(value)
        except (OSError, ValueError):
            return

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.end()


def test_report_outlives_its_client_its_server_and_its_worker(service: Service) -> None:
    server, worker = service.server(), service.begin("examples.background.worker")
    order = {"id": "r1", "topic": "tea"}
    assert service.ask("/runs", order) == (202, {"id": "r1"})
    assert service.ask("/runs", order) == (202, {"id": "r1"})  # sent twice, started once

    seen: list[tuple[int, Any]] = []
    for event in service.events("r1"):
        seen.append(event)
        if sum("update" in data for _, data in seen) == 2:
            break  # the client disconnects
    server.kill()
    server.wait()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=20) == 0
    service.server()
    service.begin("examples.background.worker")
    seen += service.events("r1", after=seen[-1][0])

    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert [data["update"]["chapters"] for _, data in seen if "update" in data] == [
        [f"tea, chapter {number}"] for number in range(1, 6)
    ]
    assert [data["what"] for _, data in seen].count("RunHandedOver") == 2  # by the server, and by the worker
    assert service.ask("/runs/r1") == (200, {"status": "interrupted", "chapters": 5, "questions": [{"chapters": 5}]})

    assert service.ask("/runs/r1/answer", "perhaps")[0] == 400
    assert service.ask("/runs/r1/answer", body=True)[0] == 202
    last = [data["what"] for _, data in service.events("r1", after=seen[-1][0])][-1]
    assert last == "RunCompleted"


def test_unknown_thread_is_refused_before_the_stream_starts(service: Service) -> None:
    service.server()
    assert service.ask("/runs/none")[0] == 404
    assert service.ask("/runs/none/events")[0] == 404
    service.ask("/runs", {"id": "r1", "topic": "tea"})
    assert list(service.events("r1", after=1_000)) == []
    assert service.ask("/runs", {"id": "", "topic": "tea"})[0] == 400


def test_stream_starts_although_nothing_happens(service: Service) -> None:
    """No process drives the thread: the browser still gets its status, and no entry."""
    service.server()
    service.ask("/runs", {"id": "r1", "topic": "tea"})
    request = urllib.request.Request(f"{service.url}/runs/r1/events", headers={"Last-Event-ID": "2"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 200
