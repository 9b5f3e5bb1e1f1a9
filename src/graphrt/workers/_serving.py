"""Serving: a host works until the process gets SIGTERM or SIGINT, and then stops in order."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from graphrt.errors._codes.workers import SERVE_OUTSIDE_MAIN_THREAD
from graphrt.runtime import Runtime
from graphrt.workers._checks import checked_number
from graphrt.workers._host import Host

_OPENING_S: Final = 60.0
"""Maximum time for opening a run, in seconds: it waits for locks, and for a server that does not answer."""
_OVERDUE_S: Final = 1.0
"""Seconds after the grace period until work that has not ended is logged. A run that was opening needs some of them."""

log: Final = logging.getLogger("graphrt.workers")


def serve(host: Host, grace_s: float, stopped: Callable[[], bool]) -> None:
    """Start *host*, and stop it at the first signal; a second signal ends the grace period of open supersteps.

    Args:
        host: A host that has not been started.
        grace_s: As for `Host.stop`.
        stopped: Whether another thread has stopped the host in the meantime.

    Raises:
        InputError: *grace_s* is not a number of seconds of 0 or more, or this is not the main thread. Nothing was
            started.
    """
    checked_number("grace_s", grace_s, whole=False)  # checked here, since errors of `stop` would not be caught
    if threading.current_thread() is not threading.main_thread():
        raise SERVE_OUTSIDE_MAIN_THREAD(thread=threading.current_thread().name)
    stop_requested = threading.Event()
    hurried: list[int] = []

    def ask(number: int, _frame: object) -> None:
        hurried.append(number)
        stop_requested.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        host.start()
        # On Windows, `wait` without a limit would block the signal handler.
        while not stop_requested.wait(1.0):
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


def drain(
    runtimes: Iterable[Runtime[Any, Any]], reason: str, grace_s: float, driving: Callable[[], int]
) -> list[threading.Thread]:
    """Hand over the runs of all *runtimes* concurrently, and return the worker threads that do it.

    Args:
        runtimes: Each waits for its own runs.
        reason: As for `Runtime.hand_over`.
        grace_s: As for `Host.stop`.
        driving: Returns the number of threads that the host drives. A run that is still opening is not yet among those
            of its runtime, so handing over is repeated until nothing is driven.
    """
    until = time.monotonic() + grace_s
    overdue = threading.Event()

    def hand_over(runtime: Runtime[Any, Any]) -> None:
        while True:
            left_s = until - time.monotonic()
            runtime.hand_over(reason, grace_s=max(0.0, left_s))
            if not driving() or left_s < -_OPENING_S:
                return
            if left_s < -_OVERDUE_S and not overdue.is_set():
                overdue.set()
                text = "%d threads or tasks have not ended in time, and are waited for: sync nodes without a timeout_s"
                log.warning(text, driving())
            time.sleep(0.01)

    drains = [threading.Thread(target=hand_over, args=(runtime,)) for runtime in runtimes]
    for drain_thread in drains:
        drain_thread.start()
    return drains
