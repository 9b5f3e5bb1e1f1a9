"""The summary of unused items: replies of doubles, recordings of cassettes, and rows of routing tables.

A test that passes although its double was never called proves less than it seems to. graphrt records its doubles during
the session (`graphrt.harness._doubles.unused`); this module imports nothing from graphrt unless a test did.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeGuard, final

import pytest

from pytest_graphrt._routes import ARGUMENT

_ENVIRONMENT: Final = "GRAPHRT_UNUSED_DOUBLES"
_MODULE: Final = "graphrt.harness._doubles.unused"
_OUTPUT: Final = "graphrt_unused"
"""Key of the data that an xdist worker sends."""
_SHOWN: Final = 12
"""Maximum number of lines of the summary."""


def configure(config: pytest.Config) -> None:
    """Take part in the session."""
    unused = _Unused(config)
    config.pluginmanager.register(unused, "graphrt-unused")
    if _ENVIRONMENT not in os.environ:
        os.environ[_ENVIRONMENT] = "1"
        config.add_cleanup(_end)


def _end() -> None:
    os.environ.pop(_ENVIRONMENT, None)


@final
class _Unused:
    """Collects, in each process of the session, items that its tests left unused; the main process writes a summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._modules: list[pytest.Module] = []
        self._marks: set[int] = set()
        """The identities of the marks of routing tables that tests have."""
        self._rows: dict[str, str] = {}
        """Maps the test ids of selected rows to the location of their tables."""
        self._skipped_rows: Counter[str] = Counter()
        """The number of skipped rows by the location of their tables."""
        self._failed: set[str] = set()
        self._tables: set[str] = set()
        """Tables without a test."""
        self._by_name = any("::" in str(argument) for argument in config.args)
        """Whether tests were selected by their names."""
        self._part = self._by_name
        """Whether a test was left out, was skipped or failed, so that it may use the remaining items."""
        self._doubles: dict[str, list[Any]] = {}
        """Maps kind and place of a double to the first test that made it, a text about the unused items, and the number
        of tests that left some: the tests of a table make their doubles on the same line."""
        self._kept = 0
        """Number of recorded doubles that had unused items after the last test."""
        self._cassettes: dict[str, dict[int, str]] = {}
        """Maps paths of cassettes to the recordings that no test has used so far."""

    @pytest.hookimpl(wrapper=True, trylast=True)  # inside the wrapper of --lf, which drops tests from the report
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if isinstance(collector, pytest.Module):
            self._modules.append(collector)
        tests = [node for node in report.result or () if isinstance(node, pytest.Item)]
        self._marks.update(id(mark) for test in tests for mark in test.iter_markers("routes"))
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._part = self._part or not report.passed

    def pytest_collection_modifyitems(self) -> None:
        for module in () if self._by_name else self._modules:
            for name, mark in _tables_of(vars(module).get("_obj")):
                if id(mark) not in self._marks:
                    self._tables.add(f"{module.nodeid}: the routing table at {name} belongs to no test")
        self._modules.clear()

    def pytest_deselected(self) -> None:
        self._part = True  # also if the list is empty, as --lf gives it

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            params: dict[str, Any] = vars(item)["callspec"].params if "callspec" in vars(item) else {}
            if ARGUMENT in params:
                self._rows[item.nodeid] = item.nodeid.rpartition("[")[0]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and report.nodeid in self._rows:
            self._skipped_rows[self._rows[report.nodeid]] += 1
        if report.failed:
            self._failed.add(report.nodeid)
        self._part = self._part or report.failed or report.skipped
        if report.when == "teardown" and (module := sys.modules.get(_MODULE)) is not None:
            self._kept = module.forget_used(self._kept)

    def pytest_sessionfinish(self) -> None:
        module = sys.modules.get(_MODULE)
        if module is not None:
            self._take(module)
        if hasattr(self._config, "workeroutput"):
            output: Any = vars(self._config)["workeroutput"]
            cassettes = {path: list(found.items()) for path, found in self._cassettes.items()}
            output[_OUTPUT] = [self._doubles, sorted(self._tables), cassettes, self._part]

    def _take(self, module: Any) -> None:
        for noted in module.NOTED:
            left: list[str] = [] if noted.checked or noted.test in self._failed else noted.left()
            if left:
                self._add(f"{noted.name} at {_short(noted.where, self._config)}", noted.test, "; ".join(left[:3]), 1)
        for path, unused in module.CASSETTES:
            if Path(path).is_relative_to(self._config.rootpath):  # skips temporary cassettes
                self._unused_in(path, unused())

    def _add(self, double: str, test: str, left: str, times: int) -> None:
        self._doubles.setdefault(double, [test, left, 0])[2] += times

    def _unused_in(self, path: str, unused: dict[int, str]) -> None:
        known = self._cassettes.get(path)
        self._cassettes[path] = unused if known is None else {k: v for k, v in known.items() if k in unused}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        doubles, tables, cassettes, part = getattr(node, "workeroutput", {}).get(_OUTPUT, ({}, [], {}, False))
        for double, found in doubles.items():
            self._add(double, *found)
        self._tables.update(tables)
        self._part = self._part or part
        for path, found in cassettes.items():
            self._unused_in(path, dict(found))

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        # If a test did not run, or not to its end, it may use the recordings and the doubles outside tests.
        whole = exitstatus == pytest.ExitCode.OK and not self._part
        lines = [_line(double, *found) for double, found in self._doubles.items() if found[0] or whole]
        lines += sorted(self._tables)
        if whole:
            lines += [
                f"{_short(path, self._config)}, line {line}: the recording of {text!r}"
                for path, found in sorted(self._cassettes.items())
                for line, text in sorted(found.items())
            ]
        lines += [
            f"{table}: {number} rows of its routing table were not checked"
            for table, number in self._skipped_rows.items()
        ]
        if not lines:
            return
        terminalreporter.write_sep("=", "unused by any test")
        for line in lines[:_SHOWN]:
            terminalreporter.write_line(line)
        if len(lines) > _SHOWN:
            terminalreporter.write_line(f"and {len(lines) - _SHOWN} more")


def _line(double: str, test: str, left: str, times: int) -> str:
    of = f", made in {test}" if test else ""
    more = f" and {times - 1} more" if times > 1 else ""
    return f"{double}{of}{more}: {left}"


def _tables_of(module: ModuleType | None) -> Iterator[tuple[str, pytest.Mark]]:
    """Yield the routing tables on a module, its functions and classes: the location and the mark."""
    if module is None:
        return
    inside: dict[str, Any] = dict(vars(module))
    holders: list[tuple[str, Any]] = [("pytestmark", module), *inside.items()]
    for name, value in inside.items():
        if isinstance(value, type) and value.__module__ == module.__name__:
            holders += [(f"{name}.{member}", one) for member, one in vars(value).items()]
    for name, value in holders:
        if value is not module and getattr(value, "__module__", None) != module.__name__:
            continue
        given: Any = getattr(value, "__dict__", {}).get("pytestmark", [])
        marks = given if _is_list(given) else [given]
        for mark in marks:
            found: Any = getattr(mark, "mark", mark)
            if isinstance(found, pytest.Mark) and found.name == "routes":
                yield name, found


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _short(path: str, config: pytest.Config) -> str:
    """Return *path* relative to the root of the tests, if it is below it."""
    root = str(config.rootpath)
    return str(Path(path[len(root) + 1 :])) if path.startswith(root + os.sep) else path
