"""One run of pytest in a process group of its own, with a job, a time limit, and what its processes wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt._observers import ENVIRONMENT
from graphrt.testing.mutate import installing
from graphrt.testing.route_coverage.collecting import FOLDER

PLUGIN: Final = "graphrt.testing.mutate._plugin"
_NOT_OURS: Final = (FOLDER, "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
"""Variables of a run of pytest that `mutate` itself may be part of."""


@final
@dataclass
class Ended:
    """How one test ended."""

    test: str
    failed: bool = False
    seconds: float = 0.0
    error: str = ""
    """The error's last line, if it failed."""


@final
@dataclass
class PytestResult:
    """What one run of pytest said, and what its processes wrote."""

    exit_code: int | None
    """Negative if a signal killed it; None if it took too long."""
    finished: bool
    """True if pytest came to the end of its session."""
    output: str
    seconds: float
    root: Path | None = None
    """The folder that node ids are relative to."""
    tests: dict[str, Ended] = field(default_factory=dict[str, Ended])
    """In the order in which they ended."""
    uncollected: dict[str, str] = field(default_factory=dict[str, str])
    """Files that could not be collected, with the error."""
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The other lines of the processes."""

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
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, folder: Path, job: Mapping[str, Any], *, first: bool, timeout_s: float | None) -> PytestResult:
        """Run pytest with *job* in the working directory.

        Args:
            folder: A new folder for the files of the run.
            job: What `installing` reads, without the folder.
            first: True for the run of all tests; otherwise pytest stops at the first failure.
            timeout_s: Seconds after which the processes are killed; None for no limit.
        """
        (folder / "arcs").mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({**job, "folder": str(folder)}, default=str), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", *self._arguments, "-p", PLUGIN, "-p", "no:cacheprovider"]
        # Runs at the same time must not share a folder of temporary files, which pytest cleans up.
        command += [f"--basetemp={folder / 'tmp'}", *([] if first else ["-x"])]
        env = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        env |= {ENVIRONMENT: installing.START, installing.JOB: str(folder / "job.json")}
        output = folder / "output.txt"
        begun = time.monotonic()
        with output.open("wb") as file:
            with self._lock:
                if self._stopped:
                    raise KeyboardInterrupt
                process = subprocess.Popen(  # noqa: S603 - the user's own pytest
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=env,
                    start_new_session=True,
                )  # fmt: skip
                self._running.add(process)
            try:
                code: int | None = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                kill(process)
                with self._lock:
                    self._running.discard(process)
        text = output.read_text(encoding="utf-8", errors="replace")
        return _read(folder, PytestResult(code, finished=False, output=text, seconds=time.monotonic() - begun))

    def stop(self) -> None:
        """Kill all runs, and begin no other one."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill *process* and what it started, such as workers of xdist that are left."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # the process leads its group
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


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
