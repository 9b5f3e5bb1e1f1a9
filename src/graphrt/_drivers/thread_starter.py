"""One parked thread per process that starts helper threads for `ParallelTasks`, so that the caller need not wait.

`threading.Thread.start` blocks until the new thread runs (decision 0011). Here the caller of a fan-out only releases a
lock, and the parked thread starts the helper. If the caller has drained its queue before the parked thread gets the
interpreter, no helper is started.

The parked thread runs no user code. It is never ended: it is started once per process, and holds no run while parked.
"""

from __future__ import annotations

import _thread
import os
from collections import deque
from typing import Any

_waiting: deque[Any] = deque()
"""Instances of `ParallelTasks` that may need a helper."""
_wake = _thread.allocate_lock()
"""Used as a binary semaphore: held while the parked thread has nothing to do."""
_wake.acquire()
_started = False


def start_soon(parallel: Any) -> None:
    """Ask the parked thread to call `parallel.reinforce()`, which starts a helper if work is still queued then."""
    global _started
    _waiting.append(parallel)
    if not _started:
        _started = True
        _thread.start_new_thread(_serve, ())  # unlike threading.Thread.start, it returns at once
    try:
        _wake.release()
    except RuntimeError:  # not held: the thread is awake, and will find what was appended
        return


def _serve() -> None:
    while True:
        _wake.acquire()
        while _waiting:
            try:
                parallel = _waiting.popleft()
            except IndexError:
                break
            parallel.reinforce()
            del parallel  # the parked thread must not keep a finished run alive


def _after_fork() -> None:
    """Forget the parked thread and its work in the child of a fork, which has neither."""
    global _started, _wake
    _started = False
    _wake = _thread.allocate_lock()
    _wake.acquire()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
