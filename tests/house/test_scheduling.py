"""`make test` continues if one of its processes dies: the running test fails, and all others run once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = """
def pytest_xdist_make_scheduler(config, log):
    from tests.scheduling import FileByFile
    return FileByFile(config, log)
"""
TESTS = """
import os, threading
import pytest

@pytest.mark.parametrize("number", range(6))
def test(number):
    with open("ran", "a") as ran:
        ran.write(f"{__name__} {number}\\n")
    if (__name__, number) == ("test_dies", 2):
        os._exit(1)
    if (__name__, number) == ("test_hangs", 5):
        threading.Event().wait()
"""


@pytest.mark.slow
def test_test_that_dies_or_hangs_fails_and_all_others_run_once(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(HOOKS)
    names = ["test_a", "test_dies", "test_hangs", "test_b"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(TESTS)
    limits = ["faulthandler_timeout=5", "faulthandler_exit_on_timeout=true"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "2",
            "-p",
            "xdist",
            *(word for limit in limits for word in ("-o", limit)),
        ],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert "2 failed, 22 passed" in done.stdout, done.stdout
    assert "crashed while running 'test_dies.py::test[2]'" in done.stdout
    assert "crashed while running 'test_hangs.py::test[5]'" in done.stdout
    assert "in test\n" in done.stderr, "it says where the thread was that hung"
    ran = Counter((tmp_path / "ran").read_text().splitlines())
    assert ran == {f"{name} {number}": 1 for name in names for number in range(6)}
