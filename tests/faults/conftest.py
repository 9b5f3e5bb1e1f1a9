"""What the tests of faults share: the end that every run comes to, and a folder without a slow disk below it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from graphrt._journal import mail_watch

from .scenario import reference


@pytest.fixture(autouse=True)
def _mail_is_not_waited_for(monkeypatch):
    """Each of many runs waits until its threads have ended; the one that looks for mail ends half a second after it."""
    monkeypatch.setattr(mail_watch, "IDLE_S", 0.0)
    monkeypatch.setattr(mail_watch, "POLL_S", 0.01)


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
