"""The official clients, installed from the lock file; a server for them, and a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("starlette") is not None:
    from tests.serve.conftest import running, serve  # noqa: F401 - fixtures
    from tests.serve.test_chat_page import page  # noqa: F401 - a fixture
else:
    collect_ignore_glob = ["test_*.py"]  # an interpreter with only the extra `test` has no server

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the clients."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs node and npm: the official clients read the wires there")
        pytest.skip("no npm: the official clients are not asked")
    folder = tmp_path_factory.mktemp("clients")
    for name in ("package.json", "package-lock.json", "check.mjs", "use_chat.mjs"):
        shutil.copy(HERE / name, folder / name)
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm could not install the official clients: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder
