"""`RepeatedLog`: suppresses repeated lines of a host's log: each is written once and then counted."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any, Final, final

from graphrt.errors import StoreError

EVERY_S: Final = 60.0
"""Seconds between two lines about the same cause."""
MOST: Final = 1_000
"""Maximum number of remembered causes. The least recently written one is forgotten first."""


@dataclass(slots=True)
class _Cause:
    """The messages of one key: the time of the last written one, and the last suppressed one."""

    level: int
    written_at: float
    more: int = 0
    text: str = ""
    args: tuple[object, ...] = ()


@final
class RepeatedLog:
    """Writes the first message of a cause, and then at most once a minute the number of further ones.

    The key of a cause names no thread: ten thousand threads of a graph that is not deployed are one cause.

    Args:
        log: The logger for the lines.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._causes: dict[str, _Cause] = {}
        self._lock = threading.Lock()

    def say(self, key: str, level: int, text: str, *args: object) -> None:
        """Write *text* if it is the first message of the cause *key*; otherwise count it for `tell_more`."""
        with self._lock:
            cause = self._causes.get(key)
            if cause is not None:
                cause.more, cause.text, cause.args = cause.more + 1, text, args
                return
            if len(self._causes) >= MOST:
                del self._causes[next(iter(self._causes))]  # the order is that of `written_at`
            self._causes[key] = _Cause(level, time.monotonic())
        self._log.log(level, text, *args)

    def cannot_look(self, what: str, error: Exception) -> None:
        """Log that a host could not look for *what* and will retry; called while *error* is handled."""
        if isinstance(error, StoreError):
            self.say(f"{what} {error.code}", logging.WARNING, f"Cannot look for {what}: %s", error.what)
        else:
            text = f"Cannot look for {what}, and will try again:\n%s"
            self.say(f"{what} {type(error).__name__}", logging.ERROR, text, traceback.format_exc().rstrip())

    def tell_more(self) -> None:
        """Write the last message of each repeated cause, with the count, if its last line is old enough.

        A host calls this at every poll.
        """
        now = time.monotonic()
        lines: list[tuple[int, str, tuple[Any, ...]]] = []
        with self._lock:
            for key, cause in list(self._causes.items()):
                if now - cause.written_at < EVERY_S:
                    break
                if cause.more:
                    lines.append(
                        (cause.level, f"{cause.text} (%d such since the last line)", (*cause.args, cause.more))
                    )
                    cause.more, cause.written_at, cause.args = 0, now, ()
                    self._causes[key] = self._causes.pop(key)
        for level, text, args in lines:
            self._log.log(level, text, *args)
