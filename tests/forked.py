"""Processes for tests without import times: a warmed-up process forks them.

A forked process is like a new one, except for its imports: the warmed-up one opens no store and runs nothing. Each
process of pytest has one; it is the fork server of `multiprocessing`, which takes its list of modules once.
"""

from __future__ import annotations

import atexit
import contextlib
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
    "pytest",
    "graphrt._drivers.aio",
    "graphrt._drivers.async_parallel_tasks",
    "graphrt._drivers.loop_thread",
    "graphrt.harness",
    "graphrt.stores.sqlite",
    "tests.stores.support",
    "tests.races.log_worker",
    "tests.races.worker",
    "tests.workers.process",
    "tests.workers.child_process",
    "tests.workers.rolling",
]


def context() -> ForkServerContext:
    """The multiprocessing context whose processes have imported all of `PRELOADED`."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    _end_with_us()
    return made


@functools.cache
def _end_with_us() -> None:
    """Wait for the fork server at the end: the processor time of its processes then counts for the tests."""
    atexit.register(forkserver._forkserver._stop)  # type: ignore[attr-defined]


class Forked:
    """`python -m module *arguments` in a forked process, which calls `main(*arguments)` of the module.

    It has the methods of `subprocess.Popen` that tests use; its output, including errors, is read from `stdout`. The
    fork server is its parent, and reaps it.
    """

    def __init__(self, module: str, *arguments: object, env: Mapping[str, str]) -> None:
        made = context()
        its_in, ours_in = made.Pipe(duplex=False)
        ours_out, its_out = made.Pipe(duplex=False)
        self._process = made.Process(target=_become, args=(module, arguments, dict(env), its_in, its_out), daemon=True)
        self._process.start()
        its_in.close()
        its_out.close()
        self.stdin = os.fdopen(os.dup(ours_in.fileno()), "w", encoding="utf-8")
        self.stdout = os.fdopen(os.dup(ours_out.fileno()), encoding="utf-8", errors="replace")
        ours_in.close()
        ours_out.close()

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
        with contextlib.suppress(BrokenPipeError):  # what it did not read
            self.stdin.close()
        return code

    def communicate(self, input: str = "", timeout: float | None = None) -> tuple[str, None]:
        """Write *input*, wait for its end, and read its output; at most a full pipe, otherwise it would never end."""
        if not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError), self.stdin:  # it may have ended
                self.stdin.write(input)
        self.wait(timeout)
        if self.stdout.closed:
            return "", None
        with self.stdout:
            return self.stdout.read(), None


def _become(
    module: str, arguments: tuple[object, ...], env: Mapping[str, str], reads: Connection, writes: Connection
) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    os.dup2(reads.fileno(), 0)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    for number in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(writes.fileno(), number)
    reads.close()
    writes.close()
    importlib.import_module(module).main(*arguments)
