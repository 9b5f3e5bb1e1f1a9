"""Every test of drivers checks for worker threads that outlive it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from graphrt._journal import mail_watch

from .support import PATIENCE_S


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> str:
    """`run` or `arun`."""
    return request.param


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Sync or async nodes."""
    return request.param


@pytest.fixture(autouse=True)
def _no_worker_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All worker threads of a run have ended; abandoned sync nodes get a moment to notice."""
    # The thread that polls for mail ends half a second after the last run. 240 tests would wait for it.
    monkeypatch.setattr(mail_watch, "IDLE_S", 0.0)
    monkeypatch.setattr(mail_watch, "POLL_S", 0.01)
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + PATIENCE_S
    while (left := [t for t in threading.enumerate() if t not in before]) and time.monotonic() < until:
        time.sleep(0.005)
    assert not left, f"worker threads were left: {left}"
