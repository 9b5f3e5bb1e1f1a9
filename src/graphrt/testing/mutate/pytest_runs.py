"""Runs of pytest in separate process groups, each with a job, a time limit, and the output of its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt._observers import ENVIRONMENT
from graphrt.testing.mutate import installing
from graphrt.testing.mutate.fork_server import CAN_FORK, ForkServer
from graphrt.testing.route_coverage.collecting import FOLDER

PLUGIN: Final = "graphrt.testing.mutate._plugin"
_NOT_OURS: Final = (FOLDER, "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
"""Environment variables of an outer run of pytest that may have started `mutate`."""


@final
@dataclass
class Ended:
    """The outcome of one test."""

    test: str
    failed: bool = False
    seconds: float = 0.0
    error: str = ""
    """The error's last line, if it failed."""


@final
@dataclass
class PytestResult:
    """The output of one run of pytest, and of its processes."""

    exit_code: int | None
    """Negative if a signal killed it; None if it took too long."""
    finished: bool
    """True if pytest reached the end of its session."""
    output: str
    seconds: float
    root: Path | None = None
    """The folder that node ids are relative to."""
    tests: dict[str, Ended] = field(default_factory=dict[str, Ended])
    """Outcomes of tests, in the order in which they ended."""
    uncollected: dict[str, str] = field(default_factory=dict[str, str])
    """Files that could not be collected, with their errors."""
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """All other lines written by the processes."""

    @property
    def failed(self) -> list[Ended]:
        """The tests that failed."""
        return [ended for ended in self.tests.values() if ended.failed]

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the output, indented."""
        return "\n".join(f"    {line}" for line in self.output.rstrip().splitlines()[-lines:])


@final
class PytestRuns:
    """Runs pytest, from several worker threads at once, and can stop all of its runs.

    Args:
        arguments: Arguments of pytest.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        self._lock = threading.Lock()
        self._running: set[int] = set()
        """Ids of the processes of pytest that are running."""
        self._stopped = False
        self._modules: list[str] = []
        """Modules that servers import; empty if each run gets a new process."""
        self._servers: list[ForkServer] = []
        self._idle: list[ForkServer] = []

    def run(self, folder: Path, job: Mapping[str, Any], *, first: bool, timeout_s: float | None) -> PytestResult:
        """Run pytest with *job* in the working directory.

        Args:
            folder: A new folder for the files of the run.
            job: The job for `installing`, without the folder.
            first: True for the run of all tests; otherwise pytest stops at the first failure.
            timeout_s: Seconds after which the processes are killed; None for no limit.
        """
        (folder / "arcs").mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({**job, "folder": str(folder)}, default=str), encoding="utf-8")
        arguments = [*self._arguments, "-p", PLUGIN, "-p", "no:cacheprovider"]
        # Concurrent runs must not share a folder of temporary files, because pytest cleans it up.
        arguments += [f"--basetemp={folder / 'tmp'}", *([] if first else ["-x"])]
        env = {**_environment(), ENVIRONMENT: installing.START, installing.JOB: str(folder / "job.json")}
        output = folder / "output.txt"
        output.touch()
        begun = time.monotonic()
        server = self._server()
        if server is None:
            code = self._new_process(arguments, env, output, timeout_s)
        else:
            code = self._fork(server, arguments, env, output, timeout_s)
        text = output.read_text(encoding="utf-8", errors="replace")
        return _read(folder, PytestResult(code, finished=False, output=text, seconds=time.monotonic() - begun))

    def preload(self, modules: Sequence[str]) -> None:
        """From now on, fork runs from processes that have imported *modules*, where possible."""
        self._modules = list(modules) if CAN_FORK else []

    def _server(self) -> ForkServer | None:
        """Return an idle server or a new one; None if runs need new processes."""
        with self._lock:
            if not self._modules:
                return None
            if self._idle:
                return self._idle.pop()
            server = ForkServer(self._modules, _environment())  # under the lock, so that the others wait for the result
            if server.usable:
                self._servers.append(server)
                return server
            server.close()
            self._modules = []
        return None

    def _fork(
        self, server: ForkServer, arguments: list[str], env: Mapping[str, str], output: Path, timeout_s: float | None
    ) -> int | None:
        """Run pytest in a fork of *server*; return its exit code, or None if it took too long."""
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            pid = server.start(arguments, env, output)
            self._running.add(pid)
        late = threading.Event()

        def end() -> None:
            late.set()
            kill_group(pid)

        timer = threading.Timer(timeout_s, end) if timeout_s is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            code = server.wait()
        finally:
            if timer is not None:
                timer.cancel()
            kill_group(pid)  # its remaining children, such as workers of xdist
            with self._lock:
                self._running.discard(pid)
        with self._lock:
            self._idle.append(server)
        return None if late.is_set() else code

    def _new_process(
        self, arguments: list[str], env: Mapping[str, str], output: Path, timeout_s: float | None
    ) -> int | None:
        """Run pytest in a new interpreter; return its exit code, or None if it took too long."""
        with output.open("wb") as file:
            with self._lock:
                if self._stopped:
                    raise KeyboardInterrupt
                process = subprocess.Popen(  # noqa: S603 - the user's own pytest
                    [sys.executable, "-m", "pytest", *arguments], stdin=subprocess.DEVNULL, stdout=file,
                    stderr=subprocess.STDOUT, env=env, start_new_session=True,
                )  # fmt: skip
                self._running.add(process.pid)
            try:
                return process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                kill_group(process.pid)
                if process.poll() is None and not hasattr(os, "killpg"):
                    process.kill()
                process.wait()
                with self._lock:
                    self._running.discard(process.pid)

    def stop(self) -> None:
        """Kill all runs and servers, and start no more."""
        with self._lock:
            self._stopped = True
            for pid in self._running:
                kill_group(pid)
            servers, self._servers, self._idle = self._servers, [], []
        for server in servers:
            server.close()


def _environment() -> dict[str, str]:
    """Return the environment of runs and servers, without variables of an outer run of pytest."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS}


def kill_group(pid: int) -> None:
    """Kill the process *pid*, which leads its group, with its children."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _read(folder: Path, result: PytestResult) -> PytestResult:
    for line in _lines(folder):
        if "test" in line:
            ended = result.tests.setdefault(line["test"], Ended(line["test"]))
            ended.seconds += line["duration"]
            if line["outcome"] == "failed":
                ended.failed, ended.error = True, line["error"]
        elif "uncollected" in line:
            result.uncollected[line["uncollected"]] = line["error"]
        elif "finished" in line:
            result.finished, result.root = True, Path(line["root"])
        else:
            result.told.append(line)
    return result


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("told.*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # the process was killed while it wrote
