"""Worker processes of one store, for the tests that kill and stop them. No tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Workers:
    """Worker processes of one store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.processes: list[subprocess.Popen[str]] = []

    def add(
        self, lease_s: float = 5.0, *, module: str = "tests.workers.process", **environment: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, self.url, str(lease_s)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "working\n", line + process.stdout.read()
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
