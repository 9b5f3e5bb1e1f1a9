"""Worker threads that nobody has to wait for: daemons, as many as there is work, a few kept for what comes next.

Threads only; what they do and who waits for it is told elsewhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

_MOST_IDLE: Final = 8
_idle: Final[list[tuple[int, SimpleQueue[Callable[[], None]]]]] = []
"""Where threads that have nothing to do are waiting, with the process that they belong to."""


def in_a_worker_thread(work: Callable[[], None]) -> None:
    """Let *work*, which raises nothing, be done by a thread that is idle, or by a new one."""
    while True:
        try:
            process, inbox = _idle.pop()
        except IndexError:
            break
        if process == os.getpid():  # threads do not survive a fork
            inbox.put(work)
            return
    fresh: SimpleQueue[Callable[[], None]] = SimpleQueue()
    fresh.put(work)
    threading.Thread(target=_serve, args=(fresh,), name="graphrt-tool", daemon=True).start()


def _serve(inbox: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        inbox.get()()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append((os.getpid(), inbox))
