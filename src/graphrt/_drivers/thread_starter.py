"""One parked thread of the process that brings helpers to a crew, so that the caller never waits for a thread start.

It runs no user code. Starting a `threading.Thread` makes the starter wait for the new one; this thread waits instead,
and finds nothing to do if the caller has drained its queue before it gets the interpreter.
"""

from __future__ import annotations

import _thread
import os
from collections import deque
from typing import Any

_waiting: deque[Any] = deque()
_wake = _thread.allocate_lock()
_wake.acquire()
_started = False


def start_soon(parallel: Any) -> None:
    """Let *crew* be reinforced soon, if it still has work then."""
    global _started
    _waiting.append(parallel)
    if not _started:
        _started = True
        _thread.start_new_thread(_serve, ())
    try:
        _wake.release()
    except RuntimeError:  # awake already: it will see the crew
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
            del parallel


def _after_fork() -> None:
    global _started, _wake
    _started = False
    _wake = _thread.allocate_lock()
    _wake.acquire()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
