"""Settings for every test: Hypothesis profiles, no outside network, `needs`, which CI may not skip, `slow`, `full`."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a shared machine is slow at times
)
settings.register_profile("dev", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.load_profile(PROFILE)
if PROFILE != "thorough" and hasattr(providers, "_get_local_constants"):
    # Hypothesis draws some values from the constants of all imported local modules. Collecting them takes each process
    # a second, and the drawn values would depend on the files that are collected beside a test.
    providers._get_local_constants = lambda: providers._local_constants

FULL: Final = os.environ.get("GRAPHRT_FULL") == "1"
"""Whether searches run in full, the marker `full` is obeyed, and verbs are tested on every store."""
MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 2 * 1024**3
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
    # A commit waits for the disk: 2 ms here, 20 ms beside other work, 0.002 ms in memory. Models of disks test the loss
    # of data at a power loss (tests/faults). pytest and tests/stores/postgres_server.py read this variable.
    _there = os.statvfs(MEMORY)
    if _there.f_bavail * _there.f_frsize > ROOM_BYTES and not _there.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores SIGINT in background processes
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if its `needs` are missing; under CI, fail it."""
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = [name for name in names if _is_missing(name)]
    if not missing:
        return
    message = f"needs {', '.join(missing)}"
    if os.environ.get("CI"):
        pytest.fail(f"{message}: CI runs every test", pytrace=False)
    pytest.skip(message)


@functools.cache  # thousands of tests need litellm or psycopg, and each look searches all folders of the path
def _is_missing(name: str) -> bool:
    return shutil.which(name) is None and importlib.util.find_spec(name) is None


# ------------------------------------------------------------------------------------------------------- slow tests

SLOW: Final = (
    # They kill processes, wait for locks and leases, or search for counterexamples.
    "tests/audit",
    "tests/crash",
    "tests/faults",
    "tests/machine",
    "tests/races",
    "tests/laws/test_duplicate.py",
    "tests/laws/test_order.py",
    "tests/laws/test_parity.py",
    "tests/laws/test_planted_mistake_is_a_finding.py",
    "tests/laws/test_reference.py",
    "tests/harness/agent/test_killed.py",
    "tests/harness/agent/test_restarts.py",
    "tests/harness/test_cassette_parallel.py",
    "tests/journal/test_second_chain.py",
    "tests/house/test_owner_of_state.py",
    "tests/laws/test_queues.py",
    "tests/laws/test_state_reducer.py",
    "tests/nodes/recursive/test_crashes.py",
    "tests/nodes/recursive/test_needle_and_aggregate.py",
    "tests/nodes/test_adaptive_killed.py",
    "tests/nodes/test_crashes.py",
    "tests/testing/test_plugin_beside_others.py",
    "tests/workers/test_child_processes.py",
    "tests/workers/test_mail_processes.py",
    "tests/workers/test_processes.py",
    "tests/stores/test_forks.py",
    "tests/stores/test_sqlite_faults.py",
    "tests/stores/test_sqlite_owners.py",
    "tests/threads/test_damaged_rows.py",
    # Every clause on every store, every kind of thread, every stream abandoned at every point: large products.
    "tests/drivers/test_deadline.py",
    "tests/drivers/test_collected_streams.py",
    "tests/drivers/test_dropped_streams.py",
    "tests/drivers/test_max_concurrency.py",
    "tests/harness/agent/test_approvals.py",
    "tests/harness/agent/test_cancelled_in_graphs.py",
    "tests/harness/agent/test_in_graphs.py",
    "tests/harness/agent/test_output_of_harnesses.py",
    "tests/harness/budget",
    "tests/journal/test_snapshots.py",
    "tests/journal/test_wire_forms.py",
    "tests/stores/test_conformance.py",
    "tests/stores/test_encrypted_conformance.py",
    "tests/stores/test_moving.py",
    "tests/stores/test_planted_mistake_is_a_finding.py",
    "tests/stores/test_verify.py",
    "tests/threads/test_alike.py",
    "tests/threads/test_bad_files.py",
    "tests/threads/test_brief.py",
    "tests/threads/test_forged_rows.py",
    "tests/threads/test_forks.py",
    "tests/threads/test_going_on_watched.py",
    "tests/threads/test_history_pages.py",
    "tests/threads/test_large_values.py",
    "tests/threads/test_nested_questions.py",
    "tests/threads/test_changed_rows.py",
    "tests/threads/test_untracked.py",
    "tests/threads/test_values.py",
    # They use HTTP, wait for timers, or explore many routes.
    "tests/serve",
    "tests/drivers/test_ctrl_c.py",
    "tests/harness/test_chat_server_responses.py",
    "tests/harness/tools/test_results.py",
    "tests/nodes/test_adaptive.py",
    "tests/stores/test_sqlite_backup.py",
    "tests/stores/test_sqlite_versions.py",
    "tests/testing/test_cases.py",
    "tests/testing/test_explore_routes_bounds.py",
    "tests/testing/test_explore_routes_own.py",
    "tests/threads/test_erasing.py",
    "tests/workers/test_detached_runs.py",
    "tests/workers/test_timers.py",
    # They start programs, including type checkers, or import litellm.
    "tests/cli/test_terminal.py",
    "docs/how-to/call-a-model.md",
    "docs/how-to/tools.md",
    "tests/errors/test_command.py",
    "tests/examples",
    "tests/docs/test_public_signatures.py",
    "tests/docs/test_run_in_ci.py",
    "tests/house/test_circles.py",
    "tests/house/test_contracts.py",
    "tests/testing/test_golden_plugin.py",
    "tests/testing/test_pytest_plugin.py",
    "tests/testing/test_route_coverage_plugin.py",
    "tests/typing",
    "tests/harness/tools/test_mcp.py",
    "tests/harness/tools/test_mcp_death.py",
    # They measure performance.
    "tests/perf",
    "tests/plan/test_scale.py",
    "tests/runtime/test_memory.py",
)
"""Files and folders whose tests are all slow; a single slow test has the mark."""
INTERPRETER: Final = (
    # How asyncio cancels and times out; which objects have no other references, and are changed in place; memory.
    "tests/drivers",
    "tests/laws/test_reference.py",
    "tests/runtime/test_memory.py",
)
"""Files and folders whose outcome may depend on the interpreter: the gate runs them on each, including slow ones."""
_COSTLY: Final = {"litellm", "psycopg"}
"""Dependencies that take a process seconds before its first test: an import, and a server."""
_ROOT: Final = Path(__file__).parents[1]


@functools.cache  # 19,000 tests in 700 files, three times each: this took a tenth of the collection
def is_in(path: Path, places: tuple[str, ...]) -> bool:
    """Whether the file *path* is one of these files, or in one of these folders."""
    name = path.relative_to(_ROOT).as_posix()
    return any(name == place or name.startswith(f"{place}/") for place in places)


def is_slow(item: pytest.Item) -> bool:
    """Whether *item* is in a slow file, or needs a dependency that is slow to start."""
    return is_in(item.path, SLOW) or any(not _COSTLY.isdisjoint(mark.args) for mark in item.iter_markers("needs"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the tests themselves, which live to the end, from every garbage collection: it takes a quarter of the
    time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Exclude the garbage of the tests of a file from later collections too.

    With the heap of reports, caches and litellm, each full collection took half a second in the end; a test that
    creates 50,000 objects paid for several.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files that `make quick` leaves out as a whole: each of its processes imports all the rest."""
    if config.option.markexpr != "not slow" or not is_in(collection_path, SLOW):
        return None
    left_out: LeftOut = config.pluginmanager.get_plugin("left-out")
    left_out.add_files(collection_path)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, and those of the interpreter, before `-m` looks for them."""
    for item in items:
        if is_slow(item):
            item.add_marker("slow")
        if is_in(item.path, INTERPRETER):
            item.add_marker("interpreter")
    if not FULL:
        items[:] = [item for item in items if not item.get_closest_marker("full")]


class LeftOut:
    """Reports at the end which slow tests did not run: pytest-xdist does not report the tests that its workers
    deselect.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()

    def add_files(self, place: Path) -> None:
        """Count the files of *place*, which are not collected."""
        files = place.rglob("test_*.py") if place.is_dir() else [place]
        self._counts.update(f"files of {_room(file)}" for file in files)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        slow = [item for item in items if item.get_closest_marker("slow")]
        self._counts.update(f"tests of {_room(item.path)}" for item in slow)

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["left_out"] = dict(self._counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._counts = self._counts or Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._counts:
            where = ", ".join(f"{count} {what}" for what, count in self._counts.most_common())
            terminalreporter.write_line(f"What is slow was left out: {where}")


def _room(path: Path) -> str:
    return "/".join(path.relative_to(_ROOT).parts[:2])


class FewerReports:
    """Keeps empty reports in the process of pytest-xdist that created them.

    For each test xdist sends its start, and the results of its setup, call and teardown. Serializing and handling these
    takes three times as long as a small test. A setup or teardown that passed without output is only visible in lists
    of durations and in files.
    """

    @staticmethod
    def pytest_sessionstart(session: pytest.Session) -> None:
        option = session.config.option
        if option.verbose > 0 or option.durations is not None or option.xmlpath is not None:
            return
        # The class is looked for by its name: the process is sent the source of its module, so that `__module__` differs.
        plugins = session.config.pluginmanager.get_plugins()
        interactor: Any = next(plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor")
        interactor.sendevent = functools.partial(_send, interactor.sendevent)


def _send(send: Callable[..., None], name: str, **event: Any) -> None:
    report = event["data"] if name == "testreport" else {"when": "call"}
    silent = report["when"] != "call" and report["outcome"] == "passed" and not report["sections"]
    if not silent and name != "logstart":
        send(name, **event)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeftOut(config), "left-out")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(FewerReports(), "fewer-reports")


# ---------------------------------------------------------------------------------------------------------- network

HOME = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "", None}


def _at_home(host: Any) -> None:
    host = host.decode() if isinstance(host, bytes) else host
    if host not in HOME:
        raise RuntimeError(f"a test tried to reach {host!r}: tests talk to this machine only")


_resolve, _connect, _try_to_connect = socket.getaddrinfo, socket.socket.connect, socket.socket.connect_ex


def _resolve_at_home(host: Any, *args: Any, **options: Any) -> Any:
    _at_home(host)
    return _resolve(host, *args, **options)


def _connect_at_home(self: socket.socket, address: Any) -> None:
    if isinstance(address, tuple):  # otherwise the path of a Unix socket
        _at_home(address[0])
    _connect(self, address)


def _try_at_home(self: socket.socket, address: Any) -> int:
    if isinstance(address, tuple):
        _at_home(address[0])
    return _try_to_connect(self, address)


# An audit hook would do the same, but is also called for each `id()`: a hundredth of the processor time of all tests.
socket.getaddrinfo = _resolve_at_home
socket.socket.connect = _connect_at_home  # type: ignore[method-assign]
socket.socket.connect_ex = _try_at_home  # type: ignore[method-assign]
