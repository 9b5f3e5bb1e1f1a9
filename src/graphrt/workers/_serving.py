"""Serving: a host works until the process gets SIGTERM or SIGINT, and then stops in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from graphrt.errors._codes.workers import SERVE_OUTSIDE_MAIN_THREAD
from graphrt.workers._checks import checked_number
from graphrt.workers._host import Host


def serve(host: Host, grace_s: float, stopped: Callable[[], bool]) -> None:
    """Start *host*, and stop it at the first signal; a second signal gives the open supersteps no more time.

    Args:
        host: A host that was not started yet.
        grace_s: As for `Host.stop`.
        stopped: Whether another thread has stopped the host meanwhile.

    Raises:
        InputError: *grace_s* is not seconds from 0, or this is not the main thread. Nothing was started.
    """
    checked_number("grace_s", grace_s, whole=False)  # here, since `stop` runs where nobody catches its error
    if threading.current_thread() is not threading.main_thread():
        raise SERVE_OUTSIDE_MAIN_THREAD(thread=threading.current_thread().name)
    asked = threading.Event()
    hurried: list[int] = []

    def ask(number: int, _frame: object) -> None:
        hurried.append(number)
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        host.start()
        # `wait` without a limit would not let the handler run on Windows.
        while not asked.wait(1.0):
            if stopped():
                return
        stopping = threading.Thread(target=host.stop, kwargs={"grace_s": grace_s})
        stopping.start()
        while stopping.is_alive():
            stopping.join(0.1)
            if len(hurried) > 1:
                host.stop(grace_s=0.0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
