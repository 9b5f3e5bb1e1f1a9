"""DBOS's message records: lists waiting and running messages, and removes delivered ones."""

from __future__ import annotations

import threading
import time
from contextvars import Context
from datetime import UTC, datetime
from typing import Any, Final, final

TIDY_S: Final = 60.0
"""Seconds between two removals of delivered messages."""
_TIDIED_AT_ONCE: Final = 1000
_ENDED: Final[list[str]] = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


@final
class Records:
    """The records of the messages of one host.

    Args:
        dbos: The class `DBOS`.
        names: Names of the messages.
        queues: Names of the queues that they go through.
        keep_s: Seconds for which records of delivered messages are kept.
        stopping: Set when the host stops.
    """

    def __init__(
        self, dbos: Any, names: list[str], queues: list[str], keep_s: float, stopping: threading.Event
    ) -> None:
        self._dbos = dbos
        self._names = names
        self._queues = queues
        self._keep_s = keep_s
        self._stopping = stopping
        self._tidied_at = time.monotonic()

    def with_status(self, *status: str, **which: Any) -> list[Any]:
        """Return the messages with one of these statuses, without their content."""
        messages: list[Any] = self._dbos.list_workflows(
            name=self._names, status=[*status], queue_name=self._queues, load_input=False, load_output=False, **which
        )
        return messages

    def tidy(self) -> None:
        """From time to time, remove the records of messages that were delivered more than `keep_s` ago."""
        if time.monotonic() - self._tidied_at < TIDY_S:
            return
        self._tidied_at = time.monotonic()
        before = datetime.fromtimestamp(time.time() - self._keep_s, UTC).isoformat()
        while not self._stopping.is_set():
            old = self.with_status(*_ENDED, completed_before=before, limit=_TIDIED_AT_ONCE)
            if old:
                Context().run(self._dbos.delete_workflows, [row.workflow_id for row in old])
            if len(old) < _TIDIED_AT_ONCE:
                return
