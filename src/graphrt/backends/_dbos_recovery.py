"""Recovery of messages that DBOS lists as `PENDING`, taken by an executor, although no executor works on them.

Such a message holds a slot of its queue's limits, and a second message with its deduplication id is refused. There are
two causes, which `Recovery` distinguishes by the executor that DBOS names:

- Another executor died. `Liveness` knows which are alive; DBOS itself leaves that to its Conductor.
- This executor is alive, but does not work on the message. The server committed that it takes the message, and the
  answer was lost, as when the server restarts at that moment. DBOS treats the claim as failed and never looks again.

The message goes back into its queue. A wrong suspicion costs a second delivery, which the claim on the thread makes
harmless.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Final, final

from graphrt.backends._liveness import Liveness

LOST_AFTER_S: Final = 5.0
"""Seconds after which a message that this executor took but has not started counts as lost. DBOS normally starts within
moments; the delay allows for starved processes."""


@final
class Recovery:
    """One host's view of taken messages.

    Args:
        dbos: The class `DBOS`.
    """

    def __init__(self, dbos: Any) -> None:
        self._dbos = dbos
        self._executor = ""
        """The executor id of this process, from `begin` on."""
        self._liveness: Liveness | None = None
        self._lock = threading.Lock()
        self._working: set[str] = set()
        """Ids of the messages that this process works on. Guarded by the lock, as is `_since`."""
        self._since: dict[str, float] = {}
        """Messages that this executor took but does not work on, with the time at which that was first seen."""
        self._suspects: set[str] = set()
        """Executors without a sign of life at the last check. They are dead if the next check finds none either."""

    def begin(self, executor: str, liveness: Liveness | None) -> None:
        """Show that this process is alive. The host calls this before it may get a message.

        Args:
            executor: The executor id of this process.
            liveness: Says which executors are alive; None leaves dead ones to DBOS Conductor.
        """
        self._executor, self._liveness = executor, liveness
        self.beat()

    @contextmanager
    def working(self) -> Generator[None]:
        """Record that this thread works on the message for which DBOS called it."""
        message: str = self._dbos.workflow_id
        with self._lock:
            self._working.add(message)
        try:
            yield
        finally:
            with self._lock:
                self._working.discard(message)

    def beat(self) -> None:
        """Show that this executor is alive."""
        if self._liveness is not None:
            self._liveness.beat()

    def put_back(self, rows: Iterable[Any]) -> None:
        """Put back into their queues those messages of *rows* that no executor works on.

        Args:
            rows: All messages that wait or are taken, as DBOS lists them.
        """
        taken = [row for row in rows if row.status == "PENDING" and row.executor_id]
        dead, lost = self._dead({row.executor_id for row in taken}), self._lost(taken)
        for row in taken:
            if row.executor_id in dead or row.workflow_id in lost:
                Context().run(self._dbos.resume_workflow, row.workflow_id, queue_name=row.queue_name)

    def _dead(self, executors: set[str]) -> set[str]:
        """Return which of *executors* showed no sign of life at this check and the previous one."""
        if self._liveness is None:
            return set()
        without_life = self._liveness.dead(executors)
        dead, self._suspects = without_life & self._suspects, without_life
        return dead

    def _lost(self, taken: Iterable[Any]) -> set[str]:
        """Return the messages that this executor took some time ago but does not work on."""
        own, now = self._executor, time.monotonic()
        with self._lock:
            idle = [row.workflow_id for row in taken if row.executor_id == own and row.workflow_id not in self._working]
            self._since = {message: self._since.get(message, now) for message in idle}
            lost = {message for message, since in self._since.items() if now - since >= LOST_AFTER_S}
            for message in lost:  # put back now, so its next delivery gets the full time
                del self._since[message]
        return lost

    def close(self) -> None:
        """End the session that shows that this executor is alive."""
        if self._liveness is not None:
            self._liveness.close()
