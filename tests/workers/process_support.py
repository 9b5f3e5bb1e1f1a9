"""Worker processes of one store, for the tests that kill and stop them. No tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.forked import Forked

ROOT = Path(__file__).parents[2]


class Workers:
    """Worker processes of one store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.processes: list[Forked] = []

    def add(self, lease_s: float = 5.0, *, module: str = "tests.workers.process", **environment: str) -> Forked:
        process = Forked(module, self.url, lease_s, env={**os.environ, **environment})
        line = process.stdout.readline()
        assert line == "working\n", line + process.stdout.read()
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
