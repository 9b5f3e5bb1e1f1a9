"""Logs a warning, once per call of `Runtime.wait`, if nothing drives the awaited thread.

Whether a thread is due depends on its questions (`answers_itself`) and its mail (`moves`). For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from time import monotonic
from typing import Final, final

from graphrt._runs.loading import the_store
from graphrt._runs.mail import moves
from graphrt._runs.run_config import RunConfig
from graphrt._runs.run_log import LOGGER
from graphrt._runs.watching import answers_itself
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head

AFTER_S: Final = 5.0
"""Seconds for which a thread must have been due without an owner. Workers poll every 0.1 seconds, so after this time
either no worker has a free slot or no worker is running."""
LOOK_S: Final = 1.0
"""Seconds between two checks. `wait` itself polls for the result more often."""


@final
class Undriven:
    """Checks from time to time whether a process drives the awaited thread."""

    __slots__ = ("_config", "_look_at", "_seq", "_since", "_thread", "_told")

    def __init__(self, config: RunConfig, thread: str) -> None:
        self._config = config
        self._thread = thread
        self._look_at = monotonic() + LOOK_S
        self._since: float | None = None
        """Monotonic time since which it was found to be due, at the entry `_seq`; None if it is not."""
        self._seq = 0
        """Number of the thread's last entry at that time. A new entry means that a process has driven it since."""
        self._told = False
        """Whether the warning was logged."""

    def look(self) -> None:
        """Warn if no process has driven the thread for a while. Called at each poll by `wait`; usually does nothing."""
        now = monotonic()
        if self._told or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        store = the_store(self._config)
        head = store.head(self._thread)
        if not self._is_due(store, head):
            self._since = None
        elif self._since is None or head.seq != self._seq:
            self._since, self._seq = now, head.seq
        elif now - self._since >= AFTER_S:
            import logging  # imported late, so that a process without logging does not load it

            self._told = True
            logging.getLogger(LOGGER).warning(
                "Nobody drives thread %r of graph %r, which has been due for %.0f s: is a Worker of this store with this"
                " graph running, and has it a free place? Start one, or call drive(%r).",
                *(self._thread, head.graph, now - self._since, self._thread),
            )

    def _is_due(self, store: Store, head: Head) -> bool:
        """Return whether the thread of *head* is due, by the runtime's clock."""
        if head.owned:
            return False
        now = self._config.clock()
        return head.status == "running" or answers_itself(store, head, by=now) or moves(store, head)
