"""Time limits of tests: a loaded machine may suspend a thread for a moment, wherever it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
PATIENCE_S = 30.0
"""Seconds that a test waits before it fails; never reached if graphrt is correct."""


def eventually(condition: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """Wait until *condition* returns something true, and return it. The test fails after *seconds*."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.005)
    return found


def with_more_time(trial: Callable[[float], None], *limits_s: float) -> None:
    """Call *trial* with the first of *limits_s*, and with the next one if it fails.

    For a time limit that one part of a test has to exceed while another part must not. A failure that is not due to a
    loaded machine occurs with each limit.
    """
    for limit_s in limits_s[:-1]:
        try:
            trial(limit_s)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the last trial raises its own
            continue
        else:
            return
    trial(limits_s[-1])
