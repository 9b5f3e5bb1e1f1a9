"""Waiting for a lock of SQLite's: by many short, jittered tries.

SQLite's own way to wait sleeps up to 100 ms between two tries. Where several processes write all the time, the one that
has just written is there first, and others wait for seconds (`benchmarks.crowd`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, TypeVar

from graphrt.stores._sqlite_errors import BUSY, primary

T = TypeVar("T")

_FIRST_S: Final = 0.0002
_MOST_S: Final = 0.002


def patiently(step: Callable[[], T], timeout_s: float) -> T:
    """What *step* returns, which is tried until nobody else is in its way.

    Args:
        timeout_s: Seconds after which it is not tried again.

    Raises:
        sqlite3.Error: What it raised last.
    """
    until = pause_s = 0.0
    while True:
        try:
            return step()
        except Exception as error:
            if primary(error) != BUSY:
                raise
            now = monotonic()
            if not until:
                until, pause_s = now + timeout_s, _FIRST_S
            if now >= until:
                raise
        sleep(pause_s * (0.5 + random.random()))  # noqa: S311 - so that two do not try in step
        pause_s = min(_MOST_S, pause_s * 1.5)
