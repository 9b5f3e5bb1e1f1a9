"""What the tests of faults share: the end that every run comes to, and a folder without a slow disk below it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from .scenario import reference


@pytest.fixture(scope="session")
def expected():
    """The state at the end of a run that nothing disturbed."""
    return reference()


@pytest.fixture
def folder(tmp_path):
    """In memory where that can be had: these tests write many files, and break them themselves."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="graphrt-", dir=shared))
    yield made
    shutil.rmtree(made)
