"""Processes of tests without the time of their imports: a warmed-up process forks them.

A forked process is as new as one that was started, but for what is imported: the warmed-up one opens no store and runs
nothing. Each process of pytest has one; it is the fork server of `multiprocessing`, which takes its list of modules once.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELOADED = [
    "graphrt._drivers.aio",
    "graphrt._drivers.async_parallel_tasks",
    "graphrt._drivers.loop_thread",
    "graphrt.stores.sqlite",
    "tests.races.log_worker",
    "tests.workers.process",
    "tests.workers.child_process",
    "tests.workers.rolling",
]


def context() -> ForkServerContext:
    """What makes processes that have imported all of `PRELOADED`."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    _end_with_us()
    return made


@functools.cache
def _end_with_us() -> None:
    """Wait for the fork server at the end: what its processes used then counts as used by the tests."""
    atexit.register(forkserver._forkserver._stop)  # type: ignore[attr-defined]


class Forked:
    """`python -m module *arguments` in a forked process, which calls `main(*arguments)` of the module.

    It has the methods of `subprocess.Popen` that tests use; what it prints, errors included, is read from `stdout`.
    """

    def __init__(self, module: str, *arguments: object, env: Mapping[str, str]) -> None:
        made = context()
        reads, writes = made.Pipe(duplex=False)
        self._process = made.Process(target=_become, args=(module, arguments, dict(env), writes), daemon=True)
        self._process.start()
        writes.close()
        self.stdout = os.fdopen(os.dup(reads.fileno()), encoding="utf-8", errors="replace")
        reads.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise TimeoutError(f"process {self.pid} runs after {timeout} s")
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for its end, and read what it printed; at most a pipe full, else it would never end."""
        self.wait(timeout)
        if self.stdout.closed:
            return "", None
        with self.stdout:
            return self.stdout.read(), None


def _become(module: str, arguments: tuple[object, ...], env: Mapping[str, str], writes: Connection) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    for number in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(writes.fileno(), number)
    writes.close()
    importlib.import_module(module).main(*arguments)
