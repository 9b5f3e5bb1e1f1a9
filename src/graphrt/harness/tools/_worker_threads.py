"""Daemon worker threads for sync tools: one for each call in flight, and up to eight idle ones kept for the next calls.

There is no upper bound, and the interpreter does not wait for daemons when it exits. So a tool that hangs blocks
neither other tools nor the end of the program. `_invoke` passes the result back to the event loop.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

_MOST_IDLE: Final = 8
"""Idle threads that are kept. The check takes no lock, so a few more may stay."""
_idle: Final[list[tuple[int, SimpleQueue[Callable[[], None]]]]] = []
"""Inboxes of the idle threads, each with the pid of its process. `append` and `pop` of a list are atomic in CPython."""


def in_a_worker_thread(work: Callable[[], None]) -> None:
    """Run *work*, which must not raise, in an idle worker thread or in a new one."""
    while True:
        try:
            process, inbox = _idle.pop()
        except IndexError:
            break
        if process == os.getpid():  # threads do not survive a fork, and an inbox without a thread would never be read
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
