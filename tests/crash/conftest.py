"""Shared fixtures of the crash tests: the process that forks the victims, references, and the final statistics.

Stores and references live as long as the test process.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.stores import postgres_server

from .checks import Reference, reference
from .life import Job
from .server import Server
from .trial import Trials

FACES = {"run": False, "arun": True}


class Ground:
    """The folders and processes of the trials."""

    def __init__(self, config: pytest.Config, server: Server, folder: Path) -> None:
        self._config = config
        self._server = server
        self._folder = folder
        self._count = 0
        self._urls: dict[str, str] = {}
        self._references: dict[tuple[str, str], tuple[Reference, float]] = {}

    def trials(self, store: str, face: str, **told: Any) -> Trials:
        """New trials on a store of the kind `sqlite`, `postgres` (one schema for all), or `empty` (a schema for each)."""
        self._count += 1
        where = self._folder / str(self._count)
        job = Job(store="", log="", is_async=FACES[face], **told)
        match store:
            case "sqlite":
                return Trials(self._server, where, lambda folder: f"sqlite:///{folder}/threads.db", job)
            case "postgres":
                if store not in self._urls:
                    self._urls[store] = postgres_server.fresh_url(self._config)
                job = replace(job, thread=f"{face}-{self._count}-")
                return Trials(self._server, where, lambda _: self._urls[store], job, shared=True)
            case _:
                return Trials(self._server, where, lambda _: postgres_server.fresh_url(self._config), job)

    def reference(self, store: str, face: str) -> tuple[Reference, float]:
        """An undisturbed life, and its duration in seconds."""
        key = (store, face)
        if key not in self._references:
            trials = self.trials(*key)
            if store == "postgres":
                trials.live()  # the first life creates the tables
            found, taken_s = trials.live()
            self._references[key] = reference(found), taken_s
        return self._references[key]


@pytest.fixture(scope="session")
def crash_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def ground(request, crash_server, tmp_path_factory) -> Ground:
    return Ground(request.config, crash_server, tmp_path_factory.mktemp("crash"))


_sums: Counter[str] = Counter()
_began = time.monotonic()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the results of the trials of each test, from every process."""
    if report.when == "call":
        _sums.update({name: count for name, count in report.user_properties if name in _TOLD})


_TOLD = ("trials", "kills", "survived", "begun_again", "asked", "again", "failures")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _sums["kills"]:
        told = ", ".join(f"{name.replace('_', ' ')} {_sums[name]}" for name in _TOLD)
        terminalreporter.write_line(f"crash trials in {time.monotonic() - _began:.0f} s: {told}")
