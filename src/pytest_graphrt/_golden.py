"""Golden traces in pytest: locating, comparing and writing their files, and the summary of written files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import pytest

if TYPE_CHECKING:
    from graphrt.events import Entry
    from graphrt.harness import ModelRequest
    from graphrt.testing import RecordedRun

_UPDATE: Final = "--graphrt-update"
_FOLDER: Final = "goldens"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.,=+@\[\]-]")
_NAME: Final = re.compile(r"[A-Za-z0-9_.=+@-]{1,60}")
_LONGEST: Final = 100
_TRACE: Final = ".json"
_WIRE: Final = ".txt"
"""Suffixes of the files."""
_USES: Final = pytest.StashKey["_Uses"]()
_ATTRIBUTE: Final = "graphrt_golden"
"""Attribute of reports by which xdist workers report to the main process."""


class CheckGolden(Protocol):
    """Type of the fixture `graphrt_golden`."""

    def __call__(
        self,
        run: RecordedRun[Any] | Iterable[Entry],
        name: str | None = None,
        /,
        *,
        requests: Iterable[ModelRequest] | Mapping[str, Iterable[ModelRequest]] | None = None,
        wire: Literal["ai-sdk", "ag-ui"] | None = None,
        shows: Collection[str] = (),
    ) -> None:
        """Compare *run* with the golden trace of the test, or with its golden *wire*.

        Args:
            run: The recorded run.
            name: Distinguishes the golden traces of one test.
            requests: The model requests of the run, as for `golden_trace`.
            wire: The protocol of a golden wire, as for `golden_wire`. Such a file ends in `.txt`.
            shows: As for `golden_wire`.
        """
        ...


@dataclass
class _Uses:
    """The golden traces of one test."""

    asked: list[str] = field(default_factory=list[str])
    written: list[str] = field(default_factory=list[str])


@pytest.fixture
def graphrt_golden(request: pytest.FixtureRequest) -> CheckGolden:
    """Compares a recorded run with the golden trace of the test, a file in the folder `goldens` beside the test file.

    With `--graphrt-update`, the file is written instead.
    """
    uses = _Uses()
    request.node.stash[_USES] = uses

    def check(run: Any, name: str | None = None, /, *, requests: Any = None, wire: Any = None, shows: Any = ()) -> None:
        __tracebackhide__ = True
        from graphrt.testing import golden_trace, golden_wire

        found = golden_trace(run, requests=requests) if wire is None else golden_wire(run, wire, shows=shows)
        path = _path(request.node, name, _TRACE if wire is None else _WIRE)
        if str(path).lower() in map(str.lower, uses.asked):
            pytest.fail(
                f"The test compares two runs with one golden trace, {_shown(request.config, path)}.\n"
                "  Fix: give each a name: graphrt_golden(run, 'name')."
            )
        uses.asked.append(str(path))
        if not request.config.getoption(_UPDATE):
            _compare(request, path, found)
        elif _differs(path, found):
            problem = _write(path, found)
            if problem is not None:
                uses.asked.remove(str(path))  # it is neither written nor unchanged
                pytest.fail(f"The golden trace {_shown(request.config, path)} cannot be written: {problem}")
            uses.written.append(str(path))

    return check


def _path(item: pytest.Item, name: str | None, ending: str) -> Path:
    """Return the file of a golden trace or wire of *item*, with the suffix *ending*.

    Different tests get different file names. Names that differ only in unsafe characters, or only in case, which some
    file systems ignore, get a digest.
    """
    __tracebackhide__ = True
    if name is not None and not _NAME.fullmatch(str(name)):
        pytest.fail(f"{name!r} cannot be the name of a golden trace; known: 1 to 60 of A-Z a-z 0-9 _ . = + @ -")
    names, bracket, parameters = item.nodeid.partition("::")[2].partition("[")
    test = names.replace("::", ".") + bracket + parameters
    safe = _UNSAFE.sub("_", test)[:_LONGEST]
    if safe != test or parameters != parameters.lower():
        safe += f"~{sha256(test.encode()).hexdigest()[:8]}"
    return item.path.parent / _FOLDER / item.path.stem / f"{safe}{f'-{name}' if name else ''}{ending}"


def _compare(request: pytest.FixtureRequest, path: Path, found: str) -> None:
    __tracebackhide__ = True
    from graphrt.errors import InputError

    file = _shown(request.config, path)
    command = f"pytest {shlex.quote(request.node.nodeid)} {_UPDATE}"
    problem: str | None = None
    difference: str | None = None
    try:
        difference = _difference(path, found)
    except FileNotFoundError:
        problem = f"There is no golden trace {file}.\n  Fix: write it with {command}, review it, and commit it."
    except InputError as error:
        problem = (
            f"The golden trace {file} cannot be used. {error.what}\n  Fix: restore it, or write it again: {command}"
        )
    except (OSError, ValueError) as error:
        problem = f"The golden trace {file} cannot be read: {error}"
    if problem is not None:  # outside the handlers, so that pytest shows no other error
        pytest.fail(problem)
    if difference is not None:
        raise AssertionError(
            f"The run differs from its golden trace.\n{difference}\n"
            f"If this is intended: {command}\nReview the change of {file} before you commit it."
        )


def _difference(path: Path, found: str) -> str | None:
    """Describe the first difference from the text in the file."""
    from graphrt.testing import golden_divergence
    from graphrt.testing.golden.wire import wire_divergence

    differs = wire_divergence if path.suffix == _WIRE else golden_divergence
    return differs(path.read_text(encoding="utf-8"), found)


def _differs(path: Path, found: str) -> bool:
    """Return whether the file differs from *found* in more than formatting."""
    from graphrt.errors import InputError

    try:
        return _difference(path, found) is not None
    except (OSError, ValueError, InputError):  # there is no file, or it is invalid
        return True


def _write(path: Path, text: str) -> OSError | None:
    """Write the file; return the reason if that was not possible."""
    from graphrt.testing.written_tests import write_whole

    try:
        write_whole(path, text)
    except OSError as error:
        return error
    return None


def _shown(config: pytest.Config, path: Path) -> str:
    return path.relative_to(config.rootpath).as_posix() if path.is_relative_to(config.rootpath) else str(path)


# -- the summary of an update ------------------------------------------------------------------------------------


def configure(config: pytest.Config) -> None:
    """With `--graphrt-update`, collect the files that tests write, and show them at the end."""
    if config.getoption(_UPDATE):
        config.pluginmanager.register(_Summary(config), "graphrt-golden-summary")


class _Summary:
    """Hooks that report written files, and files that no test requested."""

    def __init__(self, config: pytest.Config) -> None:
        # If only a part of a module runs, the files of its other tests do not count as unused.
        self._partial: bool = any("::" in arg for arg in config.args)
        self._config: Final = config
        self._asked: Final[set[str]] = set()
        self._written: Final[set[str]] = set()
        self._modules: Final[dict[str, bool]] = {}
        """Maps test files to whether all their tests passed so far."""

    def pytest_deselected(self) -> None:
        self._partial = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        uses = item.stash.get(_USES, None) or _Uses()
        said = {"asked": uses.asked, "written": uses.written, "file": str(item.path), "partial": self._partial}
        setattr(report, _ATTRIBUTE, said)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said: dict[str, Any] | None = getattr(report, _ATTRIBUTE, None)
        if said is None:  # for instance, from a worker that died
            self._partial = True
            return
        self._asked.update(said["asked"])
        self._written.update(said["written"])
        self._partial = self._partial or said["partial"]
        self._modules[said["file"]] = self._modules.get(said["file"], True) and report.passed

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not ended or session.shouldfail or session.shouldstop:  # interrupted, or -x: not all tests ran
            self._partial = True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        unused = self._unused()
        if not self._asked and not unused:
            return
        terminalreporter.section("golden traces")
        for written in sorted(self._written):
            terminalreporter.write_line(f"written: {_shown(self._config, Path(written))}")
        terminalreporter.write_line(f"{len(self._written)} written, {len(self._asked - self._written)} unchanged")
        for path in unused:
            terminalreporter.write_line(
                f"no test asked for {_shown(self._config, path)}: delete it if it is not needed"
            )

    def _unused(self) -> list[Path]:
        """Return files that no test requested, for modules whose tests all ran and passed."""
        if self._partial:
            return []
        folders = [Path(file).parent / _FOLDER / Path(file).stem for file, passed in self._modules.items() if passed]
        files = [path for folder in folders for path in folder.glob("*") if path.suffix in (_TRACE, _WIRE)]
        return sorted(path for path in files if str(path) not in self._asked)
