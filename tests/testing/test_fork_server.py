"""The process that forks a run of pytest for each mutant: mutants do not pay for startup and imports."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphrt.testing.mutate.fork_server import CAN_FORK, ForkServer, preloadable
from graphrt.testing.mutate.pytest_runs import kill_group

pytestmark = [pytest.mark.skipif(not CAN_FORK, reason="this platform does not fork safely"), pytest.mark.slow]


@pytest.fixture
def server() -> Iterator[ForkServer]:
    """A server that has imported pytest and graphrt."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GRAPHRT_"))}
    made = ForkServer(["pytest", "graphrt.graph"], env)
    yield made
    made.close()


def test_each_run_is_a_separate_process_with_its_arguments_environment_and_exit_code(
    server: ForkServer, tmp_path: Path
) -> None:
    test, output = tmp_path / "test_it.py", tmp_path / "output.txt"
    test.write_text(
        "import os\nseen = []\ndef test_it():\n    seen.append(1)\n    assert (os.environ['IT'], seen) == ('1', [1])\n"
    )
    codes: list[int] = []
    pids: list[int] = []
    for value in ("1", "1", "0"):
        output.touch()
        env = {**os.environ, "IT": value, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        pids.append(server.start(["-q", "-p", "no:cacheprovider", str(test)], env, output))
        codes.append(server.wait())

    assert server.usable
    assert codes == [0, 0, 1]
    assert len(set(pids)) == 3
    assert "1 failed" in output.read_text()


def test_killed_run_does_not_stop_the_server(server: ForkServer, tmp_path: Path) -> None:
    test, output = tmp_path / "test_it.py", tmp_path / "output.txt"
    test.write_text("import time\ndef test_it():\n    time.sleep(600)\n")
    output.touch()
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    kill_group(server.start([str(test)], env, output))

    assert server.wait() == -signal.SIGKILL
    assert server.start(["--version"], env, output) > 0
    assert server.wait() == 0


@pytest.mark.parametrize(
    "source", ["import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()", "x = 1"]
)
def test_server_refuses_modules_that_a_fork_would_not_copy_or_that_belong_to_the_project(
    tmp_path: Path, source: str
) -> None:
    (tmp_path / "planted.py").write_text(source)
    server = ForkServer(["planted"], {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    server.close()

    assert not server.usable


def test_modules_of_the_project_and_the_plugin_are_not_imported_ahead() -> None:
    names = preloadable()

    assert {"pytest", "graphrt.graph"} <= set(names)
    assert __name__ not in names
    assert "graphrt.testing.mutate._plugin" not in names
