"""Both type checkers accept what is right and refuse what is wrong; README.md says how the files work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.needs("mypy")
def test_mypy_agrees_with_every_line() -> None:
    assert check("mypy", "--cache-dir=.mypy_cache/tests", "tests/typing") == ""


@pytest.mark.needs("pyright")
def test_pyright_agrees_with_every_line() -> None:
    assert check("pyright", "--pythonpath", sys.executable, "tests/typing") == ""


@pytest.mark.needs("pyright")
def test_every_public_name_has_a_type() -> None:
    """What a user's checker sees depends on no inference of its own."""
    assert check("pyright", "--pythonpath", sys.executable, "--verifytypes", "graphrt", "--ignoreexternal") == ""
