"""Processes to kill: a warmed-up process that forks for each job, and its handle in the test.

The forked process is as new as a fresh interpreter: it opens the store, reads, drives, and is killed by a real SIGKILL.
The warmed-up one never opens a store and starts no worker thread; it only saves the time of the imports.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import life

NEEDED = (
    "asyncio",
    "sqlite3",
    "concurrent.futures.thread",
    "graphrt._drivers.aio",
    "graphrt._drivers.async_parallel_tasks",
    "graphrt._drivers.loop_thread",
    "graphrt._journal.chain",
    "graphrt._plan.state_classes",
    "graphrt.stores.sqlite",
    "psycopg",
    "graphrt.stores.postgres",
)
"""Imports of a life: a third of its time, if each process made them."""
MAY_BE_MISSING = ("psycopg", "graphrt.stores.postgres")
HANGS_S = 90.0
"""Seconds after which a process counts as hanging."""


def serve() -> None:
    """Read jobs from standard input, fork for each, and report the outcome on standard output."""
    import importlib

    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            if name not in MAY_BE_MISSING:
                raise
    graphs = life.all_graphs()
    for graph in graphs.values():
        assert graph.__graphrt_plan__.codec
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        assert threading.active_count() == 1
        done = fork(life.Job(**json.loads(line)), graphs)
        sys.stdout.write(json.dumps(done) + "\n")
        sys.stdout.flush()


def fork(job: life.Job, graphs: dict[bool, Any]) -> dict[str, Any]:
    """Live *job* in a new process; `killed` reports that it did not reach its end."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reads)
        child(job, graphs, writes)
    os.close(writes)
    said = hear(reads, pid, job.delay_s)
    os.close(reads)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        if said is None:
            return {"error": f"no end within {HANGS_S} s"}
        return {"killed": True} if os.WTERMSIG(status) == signal.SIGKILL else {"error": f"status {status}"}
    found: dict[str, Any] = json.loads(said or b'{"error": "nothing was said"}')
    return found


def hear(reads: int, pid: int, delay_s: float | None) -> bytes | None:
    """The output of the process *pid* until it ends; it is killed after *delay_s*. None if it hung."""
    said = b""
    wait_s = HANGS_S if delay_s is None else delay_s
    hung = False
    while True:
        ready, _, _ = select.select([reads], [], [], wait_s)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            hung = delay_s is None
            wait_s = HANGS_S
            continue
        chunk = os.read(reads, 1 << 20)
        if not chunk:
            return None if hung else said
        said += chunk


def child(job: life.Job, graphs: dict[bool, Any], writes: int) -> None:
    """The forked process; it does not return."""
    code = 0
    try:
        found = life.live(job, graphs)
    except BaseException:  # noqa: BLE001 - reported to the test, which fails with it
        found = {"error": traceback.format_exc()}
        code = 1
    data = json.dumps(found, default=repr).encode()
    while data:
        data = data[os.write(writes, data) :]
    os._exit(code)


class Server:
    """The warmed-up process, seen from the test."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), *filter(None, sys.path)])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.server import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def live(self, job: life.Job) -> dict[str, Any]:
        """The outcome of a process with *job*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the server died"
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
