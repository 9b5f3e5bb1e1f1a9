"""Many clients that hardly read: the server's memory stays bounded, and neither the run nor other readers wait."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from graphrt import Runtime

from .graphs import large
from .process_support import ROOT

CLIENTS = 100 if os.environ.get("GRAPHRT_FULL") else 20
STEPS = 30
"""Entries of 200 kB: 6 MB for each client, and with live items 12 MB."""
MOST_GROWN_MB = 20 + 2 * CLIENTS
"""Upper bound of the growth of the server's memory: for each client, about a page of entries and the buffer of the
connection, and 20 MB that vary between runs (it grew by 26 to 43 MB for 20 clients). Unread entries would take 6 MB for each.
"""
LIMIT_S = 90.0

pytestmark = [pytest.mark.slow, pytest.mark.needs("uvicorn")]


def connected(port: int, after: int = 0) -> socket.socket:
    """A client that has sent its request, with a small buffer for what comes."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(LIMIT_S)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET / HTTP/1.1\r\nHost: here\r\nLast-Event-ID: {after}\r\n\r\n".encode())
    return client


def ids(client: socket.socket) -> list[int]:
    """The ids of all events that are still unread."""
    text = b""
    while not text.endswith(b"\r\n0\r\n\r\n") and (piece := client.recv(2**20)):
        text += piece
    return [int(number) for number in re.findall(rb"^id: (\d+)\n", text, re.MULTILINE)]


def memory_mb(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def server(url: str) -> Iterator[tuple[int, int]]:
    """Pid and port of a server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.workers.slow_readers_server", url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.pid, int(process.stdout.readline())
    process.kill()
    process.communicate()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the memory of a process")
def test_clients_that_do_not_read_block_neither_the_run_nor_other_readers(url: str, server: tuple[int, int]) -> None:
    pid, port = server
    with Runtime(large(), store=url) as runtime, ExitStack() as stack:
        runtime.start({"most": STEPS}, thread="t")
        began = time.process_time()
        runtime.start({"most": STEPS}, thread="alone")
        runtime.drive("alone")
        alone_s = time.process_time() - began

        before = memory_mb(pid)
        slow = [stack.enter_context(connected(port)) for _ in range(CLIENTS)]
        for client in slow:
            assert client.recv(64).startswith(b"HTTP/1.1 200")
        began = time.process_time()
        runtime.drive("t")
        driven_s = time.process_time() - began
        last = list(runtime.entries("t"))[-1].seq
        quick = ids(stack.enter_context(connected(port)))
        most = max(memory_mb(pid) for _ in range(20) if not time.sleep(0.1))

        assert quick == list(range(1, last + 1))  # while the others have read next to nothing
        assert most - before < MOST_GROWN_MB, f"{before:.0f} MB, then {most:.0f} MB"
        assert driven_s < 5 * alone_s + 1.0  # its own work; the server's has the other processor
        for client in slow[::50]:  # and those that begin to read late miss no entry
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
            assert ids(client) == list(range(1, last + 1))
