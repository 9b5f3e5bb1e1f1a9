"""Shared fixtures of the tests of faults: the expected end of every run, and a folder that is not on a slow disk."""

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
    """Each of many runs waits until its threads have ended; the one that polls for mail ends half a second after it."""
    monkeypatch.setattr(mail_watch, "IDLE_S", 0.0)
    monkeypatch.setattr(mail_watch, "POLL_S", 0.01)


@pytest.fixture(scope="session")
def expected():
    """The state at the end of an undisturbed run."""
    return reference()


@pytest.fixture
def folder(tmp_path):
    """In memory if possible: these tests write many files, and break them themselves."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="graphrt-", dir=shared))
    yield made
    shutil.rmtree(made)
