"""Route coverage in pytest: options, the environment that starts collectors in every process, and the reports."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from graphrt.testing.route_coverage import Summary

# The names that `graphrt._observers` and `graphrt.testing.route_coverage.collecting` read; importing them here would
# import graphrt in every run of pytest. A test compares them.
_OBSERVER: Final = "GRAPHRT_OBSERVER"
_FOLDER: Final = "GRAPHRT_COV_FOLDER"
_START: Final = "graphrt.testing.route_coverage.collecting:start"
_DATA: Final = ".graphrt_coverage.json"
_FILES: Final = {
    "json": "route_coverage.json",
    "lcov": "route_coverage.lcov",
    "cobertura": "route_coverage.xml",
}
"""Reports written to files, with their default names."""
_KINDS: Final = ("term", "term-missing", "none", *_FILES)
_STATE: Final = pytest.StashKey["_State"]()


class _State:
    """The route coverage of one run of pytest."""

    def __init__(self) -> None:
        self.summary: Summary | None = None
        self.problem: str | None = None
        """Reasons why there is no summary, or what it lacks."""
        self.lines: list[str] = []


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Add the options of route coverage, and the corresponding settings of a configuration file."""
    group.addoption(
        "--graphrt-cov",
        action="append",
        nargs="?",
        const="",
        default=None,
        metavar="TARGET",
        help="measure route coverage of a package, module, file, folder, module:variable or graph (repeatable); without "
        "a target, of every graph that is made outside of test files",
    )
    group.addoption(
        "--graphrt-cov-fail-under",
        type=float,
        default=None,
        metavar="PERCENT",
        help="fail if fewer of 100 arcs were taken",
    )
    group.addoption(
        "--graphrt-cov-report",
        action="append",
        default=None,
        metavar="KIND[:FILE]",
        help=f"reports: {', '.join(_KINDS)} (repeatable); term-missing by default",
    )
    group.addoption(
        "--graphrt-cov-append",
        action="store_true",
        help=f"add to the data of earlier runs in {_DATA} instead of replacing it",
    )
    parser.addini("graphrt_cov", "targets of route coverage, while --graphrt-cov is given", type="args", default=[])
    parser.addini("graphrt_cov_fail_under", "as --graphrt-cov-fail-under", type="string", default="")
    parser.addini("graphrt_cov_report", "reports, as --graphrt-cov-report", type="args", default=[])


def begin(config: pytest.Config) -> None:
    """Enable collection in every process of this run, if route coverage is requested."""
    if config.known_args_namespace.graphrt_cov is None or "PYTEST_XDIST_WORKER" in os.environ:
        return  # an xdist worker inherits the environment of its controller
    before = {name: os.environ.get(name) for name in (_OBSERVER, _FOLDER)}
    folder = tempfile.mkdtemp(prefix="graphrt-cov-")
    os.environ.update({_OBSERVER: _START, _FOLDER: folder})

    def end() -> None:
        flush()
        shutil.rmtree(folder, ignore_errors=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    config.add_cleanup(end)
    if "graphrt" in sys.modules:  # a plugin has already imported it, and it may have read the environment
        from graphrt.testing.route_coverage.collecting import start

        start()


def configure(config: pytest.Config) -> None:
    """Check the options.

    Raises:
        UsageError: An option is invalid.
    """
    _fail_under(config)
    for kind, _ in _reports(config):
        if kind not in _KINDS:
            raise pytest.UsageError(f"--graphrt-cov-report has no kind {kind!r}; known: {', '.join(_KINDS)}")
    if config.getoption("--graphrt-cov") is None:
        for option in ("--graphrt-cov-fail-under", "--graphrt-cov-report", "--graphrt-cov-append"):
            given = config.getoption(option)
            if given is not None and given is not False:
                raise pytest.UsageError(f"{option} needs --graphrt-cov, which names the targets")
        return
    config.stash[_STATE] = _State()
    config.pluginmanager.register(_EachTest(), "graphrt-cov-each-test")


class _EachTest:
    """A hook after each test that writes routers' answers from outside runs, in case a later test kills the process."""

    def pytest_runtest_logfinish(self) -> None:
        flush()


def flush() -> None:
    """Write the pending data of this process."""
    collecting: Any = sys.modules.get("graphrt.testing.route_coverage.collecting")
    if collecting is not None:
        collecting.flush()


def finish(session: pytest.Session) -> None:
    """Read the data of all processes, write the reports, and fail the session if the coverage is too low."""
    config = session.config
    state = config.stash.get(_STATE, None)
    if state is None or hasattr(config, "workerinput") or config.getoption("collectonly"):
        return
    flush()
    from graphrt.errors import GraphrtError

    try:
        _report(config, state)
    except GraphrtError as error:
        state.problem = str(error)
    under = _fail_under(config)
    if state.problem is None and under is not None and state.summary is not None and state.summary.percent < under:
        state.problem = f"Route coverage is {state.summary.percent:.2f}%, and {under:g}% is required."
    if state.problem is not None:
        session.testsfailed += 1  # like pytest-cov: the run fails, with and without xdist


def _report(config: pytest.Config, state: _State) -> None:
    from graphrt._overwriting import check_overwritable
    from graphrt.errors import InputError
    from graphrt.testing.route_coverage import load, reports, summarise

    root = Path(config.rootpath)
    data = load(Path(os.environ[_FOLDER]), root=root)
    saved = root / _DATA
    if config.getoption("--graphrt-cov-append") and saved.exists():
        earlier = load(saved)
        earlier.leave_out(old := earlier.outdated(data))
        state.lines += [
            f"route coverage: {graph.file} has changed, so what earlier runs took of its graph {graph.name!r} "
            f"(line {graph.line}) is left out"
            for graph in old
        ]
        earlier.merge(data)
        data = earlier
    try:
        data.save(saved)
    except OSError as error:  # in a read-only folder, the reports are still available
        state.lines.append(f"route coverage: the data of this run cannot be kept: {error}")
    targets = [target for target in config.getoption("--graphrt-cov") or () if target] or config.getini("graphrt_cov")
    state.summary = summary = summarise(data, targets, root=root)
    for file in summary.not_imported:
        state.lines.append(f"route coverage: no test imported {file}, so the graphs that it makes are not counted")
    if not summary.graphs:
        state.problem = "Route coverage was measured, and the tests compiled no graph outside of test files."
    for kind, file in _reports(config):
        if kind in _FILES:
            path = Path(config.invocation_params.dir) / (file or _FILES[kind])
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                check_overwritable(path, kind=f"a report of the kind {kind}", begins=reports.BEGINS[kind])
                path.write_text(reports.WRITERS[kind](summary), encoding="utf-8")
            except (OSError, InputError) as error:
                state.problem = f"The {kind} report of route coverage cannot be written: {error}"
            else:
                state.lines.append(f"route coverage: {kind} written to {path}")
        elif kind != "none" and summary.graphs:
            state.lines.insert(0, reports.terminal(summary, missing=kind == "term-missing"))


def show(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the reports for the terminal."""
    state = config.stash.get(_STATE, None)
    if state is None or hasattr(config, "workerinput"):
        return
    if state.lines or state.problem:
        reporter.section("route coverage")
    for text in state.lines:
        reporter.write_line(text)
    if state.problem:
        reporter.write_line(f"ERROR: {state.problem}", red=True, bold=True)


def _reports(config: pytest.Config) -> list[tuple[str, str]]:
    given = config.getoption("--graphrt-cov-report") or config.getini("graphrt_cov_report") or ["term-missing"]
    return [(kind, file) for kind, _, file in (item.partition(":") for item in given)]


def _fail_under(config: pytest.Config) -> float | None:
    given: float | None = config.getoption("--graphrt-cov-fail-under")
    text: str = config.getini("graphrt_cov_fail_under")
    if given is None and not text:
        return None
    try:
        value = float(text) if given is None else given
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise pytest.UsageError(
            f"route coverage cannot be required to be {text if given is None else given}; name a percentage, 0 to 100"
        )
    return value
