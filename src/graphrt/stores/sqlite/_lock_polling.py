"""Waiting for a lock of SQLite's by short, jittered polls.

SQLite's busy handler sleeps up to 100 ms between two attempts. When several processes write continuously, the one that
has just committed gets the lock again, and others wait for seconds (`benchmarks.crowd`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, TypeVar

from graphrt.stores.sqlite._errors import BUSY, primary

T = TypeVar("T")

_FIRST_S: Final = 0.0002
_MOST_S: Final = 0.002


def patiently(step: Callable[[], T], timeout_s: float) -> T:
    """Call *step* until it no longer raises SQLITE_BUSY, and return its result.

    Args:
        timeout_s: Seconds after which it is not called again.

    Raises:
        sqlite3.Error: What the last call raised.
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
        sleep(pause_s * (0.5 + random.random()))  # noqa: S311 - so that two processes do not poll in step
        pause_s = min(_MOST_S, pause_s * 1.5)
