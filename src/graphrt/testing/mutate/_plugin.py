"""The pytest plugin of a test run of `mutate`: runs the tests that the job names, and records their outcomes.

`mutate` loads it with `-p`. It is not for users.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from graphrt._observers import ENVIRONMENT
from graphrt.testing.mutate import installing
from graphrt.testing.mutate.fork_server import preloadable

_CURRENT: Final = "PYTEST_CURRENT_TEST"
"""Environment variable with pytest's current test; route coverage reads it."""

installing.start()  # before the first conftest, which may compile graphs


def pytest_configure() -> None:
    os.environ[ENVIRONMENT] = installing.START  # `pytest --graphrt-cov` has set its own observer


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    job = installing.job()
    return True if job is not None and str(collection_path) in job.ignored else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    job = installing.job()
    if job is None:
        return
    if job.tests is None:
        for item in items:
            installing.write(job.folder, {"fixtures": [item.nodeid, *_fixtures(item)]})
        return
    chosen = job.tests
    others = [item for item in items if item.nodeid not in chosen]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.nodeid in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Attribute the actions of a shared fixture to all tests that share it, not only to the first."""
    if request.scope == "function" or _CURRENT not in os.environ:
        return (yield)
    before = os.environ[_CURRENT]
    scope = cast("Any", request).node
    known = request.fixturename in _fixtures(getattr(request, "_pyfuncitem", None))
    shared = f"{installing.FIXTURE}{request.fixturename}" if known else ""  # a test may request a fixture while it runs
    os.environ[_CURRENT] = f"{scope.nodeid}{shared} (setup)"
    try:
        return (yield)
    finally:
        os.environ[_CURRENT] = before


def _fixtures(item: Any) -> list[str]:
    """Return the names of the fixtures that a test needs, directly or through other fixtures."""
    return list(getattr(item, "fixturenames", ()))


class _Teller:
    """Writes the reports. It is registered in the process that pytest was started in, not in workers of xdist."""

    def __init__(self, job: installing.FirstRun | installing.MutantRun) -> None:
        self._job = job
        self._folder = job.folder

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        installing.write(
            self._folder,
            {
                "test": report.nodeid,
                "when": report.when,
                "outcome": report.outcome,
                "duration": report.duration,
                "error": _last_line(report),
            },
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            installing.write(self._folder, {"uncollected": report.nodeid, "error": _last_line(report)})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if isinstance(self._job, installing.FirstRun):
            self._job.name_graphs()
        root = str(session.config.rootpath)
        installing.write(self._folder, {"finished": int(exitstatus), "root": root})


def _last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the last non-empty line of an error; empty if there is none."""
    lines = [line.removeprefix("E ").strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return (lines or report.longreprtext.strip().splitlines()[-1:] or [""])[0] if report.failed else ""


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    job = installing.job()
    if job is None:
        return
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Teller(job), "graphrt-mutate-teller")
        if isinstance(job, installing.FirstRun):
            # At the very end, because plugins import more for their summaries: hypothesis, which takes a second.
            session.config.add_cleanup(lambda: installing.write(job.folder, {"modules": preloadable()}))
    elif isinstance(job, installing.FirstRun):
        session.config.add_cleanup(job.flush)
