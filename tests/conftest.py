"""What holds for every test: Hypothesis profiles, no outside network, `needs`, which CI may not skip, `slow`, `full`."""

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
    max_examples=50,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a shared machine is slow at times
)
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.load_profile(PROFILE)
if PROFILE != "thorough" and hasattr(providers, "_get_local_constants"):
    # Hypothesis draws some values from the constants of all local modules that are imported. To find them takes each
    # process a second, and which values a test draws would depend on the files that are collected beside it.
    providers._get_local_constants = lambda: providers._local_constants

FULL: Final = os.environ.get("GRAPHRT_FULL") == "1"
"""Whether searches run in full, the marker `full` is obeyed, and verbs are tested on every store."""
MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 2 * 1024**3
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
    # A commit waits for the disk: 2 ms here, 20 beside other work, 0.002 in memory. What a disk loses with the power is
    # tested by models of disks (tests/faults). pytest and tests/stores/postgres_server.py read this variable.
    _there = os.statvfs(MEMORY)
    if _there.f_bavail * _there.f_frsize > ROOM_BYTES and not _there.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs in the background so
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose `needs` are not there; under CI they have to be."""
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = [name for name in names if shutil.which(name) is None and importlib.util.find_spec(name) is None]
    if not missing:
        return
    message = f"needs {', '.join(missing)}"
    if os.environ.get("CI"):
        pytest.fail(f"{message}: CI runs every test", pytrace=False)
    pytest.skip(message)


# ------------------------------------------------------------------------------------------------------- slow tests

SLOW: Final = (
    # They kill processes, wait for locks and leases, or search for counterexamples for a while.
    "tests/audit",
    "tests/crash",
    "tests/faults",
    "tests/machine",
    "tests/races",
    "tests/laws/test_duplicate.py",
    "tests/laws/test_order.py",
    "tests/laws/test_parity.py",
    "tests/laws/test_planted.py",
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
    # Every clause on every store, every kind of thread, every stream left at every place: long products.
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
    "tests/stores/test_planted.py",
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
    # They talk over HTTP, wait for timers, or explore many routes.
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
    # They start programs, type checkers among them, or import litellm.
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
    # They measure.
    "tests/perf",
    "tests/plan/test_scale.py",
    "tests/runtime/test_memory.py",
)
"""Files and folders whose tests are slow, all of them; a single one says so itself, by its mark."""
INTERPRETER: Final = (
    # How asyncio cancels and times out; which objects nobody else refers to, so that they are changed in place; memory.
    "tests/drivers",
    "tests/laws/test_reference.py",
    "tests/runtime/test_memory.py",
)
"""Files and folders whose outcome may depend on the interpreter: the gate runs them on each, also the slow ones."""
_COSTLY: Final = {"litellm", "psycopg"}
"""What takes a process seconds before its first test: an import, and a server that is started."""
_ROOT: Final = Path(__file__).parents[1]


@functools.cache  # of 19,000 tests in 700 files, three times each: this took a tenth of the collection
def is_in(path: Path, places: tuple[str, ...]) -> bool:
    """Whether the file *path* is one of these files, or in one of these folders."""
    name = path.relative_to(_ROOT).as_posix()
    return any(name == place or name.startswith(f"{place}/") for place in places)


def is_slow(item: pytest.Item) -> bool:
    """Whether *item* is in a slow file, or needs something that is slow to start."""
    return is_in(item.path, SLOW) or any(not _COSTLY.isdisjoint(mark.args) for mark in item.iter_markers("needs"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests themselves, which live to the end, out of every garbage collection: it takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Keep what the tests of a file leave behind out of later collections too.

    Reports, caches and litellm make a heap through which each full collection took half a second in the end; a test that
    makes 50,000 objects paid for several.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `make quick` would leave out as a whole: its processes import all the rest each."""
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
    """Tells at the end which slow tests did not run: pytest-xdist says nothing of those that its workers deselect."""

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
    """Keeps reports that say nothing in the process of pytest-xdist that made them.

    For each test xdist sends that it began, and how its setup, call and teardown ended. To write, send, read and handle
    these takes three times as long as a small test; a setup or teardown that passed and printed nothing shows nowhere but
    in lists of times and in files.
    """

    @staticmethod
    def pytest_sessionstart(session: pytest.Session) -> None:
        option = session.config.option
        if option.verbose > 0 or option.durations is not None or option.xmlpath is not None:
            return
        for plugin in session.config.pluginmanager.get_plugins():
            if type(plugin).__module__ == "xdist.remote" and hasattr(plugin, "sendevent"):
                plugin.sendevent = functools.partial(_send, plugin.sendevent)


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
    if isinstance(address, tuple):  # else the path of a Unix socket
        _at_home(address[0])
    _connect(self, address)


def _try_at_home(self: socket.socket, address: Any) -> int:
    if isinstance(address, tuple):
        _at_home(address[0])
    return _try_to_connect(self, address)


# An audit hook would do the same, but is called for each `id()` too: a hundredth of the processor time of all tests.
socket.getaddrinfo = _resolve_at_home
socket.socket.connect = _connect_at_home  # type: ignore[method-assign]
socket.socket.connect_ex = _try_at_home  # type: ignore[method-assign]
