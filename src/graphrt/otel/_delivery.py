"""Delivers telemetry from runs to a tracer: a bounded queue, and one worker thread that processes it.

A run only appends to the queue. So an exporter that hangs, raises or is slow can lose spans but never harms a run. A
warning reports the first loss. The caller defines the work.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from graphrt._forks import FreshLock

__all__ = ["Delivery"]

MOST_WAITING: Final = 16_384
"""Maximum number of items in the queue: the entries of some 5,000 steps. More are dropped."""
PAUSE_S: Final = 0.05
"""Seconds for which items are collected before the worker thread wakes up. It competes with the run for the
interpreter, so it should wake rarely."""
AT_EXIT_S: Final = 5.0
"""Seconds that process exit waits for the queue."""


class Delivery:
    """A queue of function calls for a worker thread, which starts on the first call and again after a fork."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._work = threading.Event()
        """Set while there may be work."""
        self._hurry = threading.Event()
        """Set while `flush` waits."""
        self._starting: Final = FreshLock()
        self._pid = 0
        self._warned = False
        self.dropped = 0
        """Number of items that did not fit into the queue."""
        atexit.register(_flush_at_exit, weakref.ref(self))

    def start(self) -> None:
        """Start the worker thread, if this process has none."""
        if self._pid == os.getpid():
            return
        with self._starting:
            if self._pid != os.getpid():
                if self._pid:  # after a fork: the parent delivers the items that it had queued
                    self._queue, self._work, self._hurry = deque(), threading.Event(), threading.Event()
                threading.Thread(target=_serve, args=(weakref.ref(self),), name="graphrt-otel", daemon=True).start()
                self._pid = os.getpid()  # set last: if the thread cannot start now, the next run tries again

    def put(self, call: Callable[..., None], *args: Any) -> None:
        """Queue a call. It never waits and never raises."""
        queue = self._queue
        if len(queue) >= MOST_WAITING:
            self.dropped += 1
            self.warn(f"more than {MOST_WAITING} pieces of telemetry wait and later ones are dropped")
            return
        queue.append((call, args))
        if not self._work.is_set():
            self._work.set()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued so far is delivered; return False after the timeout."""
        # The mark goes through the queue even if it is empty, because the last item may still be in progress.
        if self._pid != os.getpid():
            return True
        done = threading.Event()
        self._queue.append((done.set, ()))
        self._hurry.set()
        self._work.set()
        try:
            return done.wait(timeout_s)
        finally:
            self._hurry.clear()

    def flush_with(self, provider: Any) -> None:
        """Make `force_flush` of a tracer *provider* also deliver this queue, if the provider takes processors."""
        add = getattr(provider, "add_span_processor", None)  # the SDK's provider has it; the API does not define it
        if add is not None:
            add(_Flusher(provider, self))

    def warn(self, problem: str) -> None:
        """Warn once that telemetry is lost; later problems have the same cause, or follow from it."""
        if not self._warned:
            self._warned = True
            text = f"graphrt.otel: {problem}. Runs are not affected; this is said once."
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            except RuntimeWarning:  # warnings are errors here, and must not fail a run
                import sys

                print(text, file=sys.stderr)  # noqa: T201 - the only place left where a person may see it

    def _drain(self) -> None:
        queue = self._queue
        while queue:
            call, args = queue.popleft()
            try:
                call(*args)
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the next span may succeed
                self.warn(f"telemetry is lost: {type(error).__name__}: {error}")


class _Flusher:
    """A span processor that ignores spans, and delivers the queue of a `Delivery` when its provider is flushed.

    It was added after the exporters' processors, which are flushed before it. So it flushes the provider again.
    """

    def __init__(self, provider: Any, delivery: Delivery) -> None:
        self._provider = provider
        self._delivery = weakref.ref(delivery)  # the provider outlives the delivery
        self._again = False

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Do nothing."""

    def _on_ending(self, span: Any) -> None:
        """Do nothing; the SDK calls this on every processor."""

    def on_end(self, span: Any) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        """Do nothing: `Delivery` flushes when the process ends."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Deliver the queue, and make the provider send it; return False if that takes longer than the timeout."""
        delivery = self._delivery()
        if delivery is None or self._again:
            return True
        began = time.monotonic()
        if not delivery.flush(timeout_millis / 1000):
            return False
        remaining_ms = timeout_millis - round((time.monotonic() - began) * 1000)
        self._again = True
        try:
            sent: bool = self._provider.force_flush(max(remaining_ms, 1))
        finally:
            self._again = False
        return sent


def _serve(delivery_ref: weakref.ref[Delivery]) -> None:
    """Process the queue until its owner is collected."""
    while (delivery := delivery_ref()) is not None:
        work, hurry = delivery._work, delivery._hurry
        del delivery  # so that the owner can be collected while this waits
        if not work.wait(5.0):
            continue
        hurry.wait(PAUSE_S)
        delivery = delivery_ref()
        if delivery is None:
            return
        work.clear()  # first: items that are queued from here on set it again
        delivery._drain()
        del delivery


def _flush_at_exit(delivery_ref: weakref.ref[Delivery]) -> None:
    delivery = delivery_ref()
    if delivery is None:
        return
    started = time.monotonic()
    if not delivery.flush(AT_EXIT_S):
        waited = time.monotonic() - started
        delivery.warn(f"the process ends with telemetry undelivered after {waited:.0f} s, as an exporter hangs")
