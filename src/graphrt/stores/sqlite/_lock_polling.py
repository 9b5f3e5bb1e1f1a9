"""Waiting for one of SQLite's locks by short polls with jitter.

SQLite's busy handler sleeps up to 100 ms between two attempts. When several processes write continuously, the one that
has just committed gets the lock again, and others wait for seconds (decision 0063; measured by `benchmarks.crowd`).
The store therefore opens its connections with a timeout of 0, and repeats by itself what SQLite refuses with BUSY.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from graphrt.stores.sqlite._errors import BUSY, primary

T = TypeVar("T")

_FIRST_S: Final = 0.0002
"""Seconds of the first pause, before jitter."""
_MOST_S: Final = 0.002
"""Seconds of the longest pause, before jitter."""


def with_polling(step: Callable[[], T], timeout_s: float) -> T:
    """Call *step* until it no longer raises SQLITE_BUSY, and return its result.

    Args:
        step: A call that takes a lock, such as BEGIN IMMEDIATE. It has no effect if it raises SQLITE_BUSY.
        timeout_s: Seconds after the first SQLITE_BUSY after which *step* is not called again.

    Raises:
        sqlite3.Error: The error of the last call.
    """
    until = pause_s = 0.0  # set after the first SQLITE_BUSY, so that the usual call reads no clock
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
        sleep(pause_s * (0.5 + random.random()))  # noqa: S311 - jitter, so that two processes do not poll in step
        pause_s = min(_MOST_S, pause_s * 1.5)


def held_twice(lock: Any) -> bool:
    """Return whether this thread holds *lock*, a `threading.RLock`, twice: whether it was interrupted inside a call.

    A transaction that is open although the lock is held once was left behind by Ctrl-C; the next BEGIN ends it.
    """
    lock.release()
    try:
        return bool(lock._is_owned())  # as `threading.Condition` asks
    finally:
        lock.acquire()
