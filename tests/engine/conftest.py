"""The engine needs no event loop and no worker thread: starting one here is an error."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a test of the engine started a thread or an event loop")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
