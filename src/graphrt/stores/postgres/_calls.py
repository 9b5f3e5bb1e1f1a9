"""One call to a PostgreSQL server, repeated where that is safe and worth while.

When to try again, and how long; what is asked comes from the callers, who write it so that doing it twice does no harm.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from graphrt.errors import StoreError
from graphrt.stores.postgres import _errors
from graphrt.stores.postgres._connection import Link
from graphrt.stores.postgres._driver import Connection, Cursor, driver

T = TypeVar("T")
_TRIES: Final = 5
"""How often a call is begun, at most."""


class Calls:
    """Runs statements on connections that a `Link` lends."""

    def __init__(self, link: Link) -> None:
        self._link: Final = link

    @staticmethod
    def token() -> int:
        """A number that no other change of a row carries: it tells, after a lost connection, whose change is there."""
        return int.from_bytes(os.urandom(8), "big") >> 1

    def call(self, work: Callable[[Connection, bool], T], doing: str, *, kept: str = "", unknown: str = "") -> T:
        """Do *work*, which is given a connection, and whether it may have been done before.

        Args:
            doing: What is tried, for an error, as in "load thread 't'".
            kept: What an error says is stored, as a sentence.
            unknown: The same where the connection was lost, so that nobody knows.

        Raises:
            StoreError: It failed, or the server did not come back within `connect_timeout_s`.
        """
        patience: Patience | None = None
        failure: StoreError | None = None
        lost = entered = False
        tries = 0
        while True:
            try:
                with self._link.lend() as connection:
                    entered = True
                    try:
                        return work(connection, lost)
                    except driver().Error as error:
                        gone = _errors.is_lost(error, connection)
                        lost = lost or gone
                        failure = self._link.failure(error, doing=doing, kept=unknown if lost else kept)
                        if gone:
                            connection.close()
                        elif error.sqlstate not in _errors.AGAIN:
                            raise failure from error
            except StoreError as error:
                # A server that answered before, or is about to, is waited for; one that never did is told of at once.
                passing = lost or self._link.met or _errors.is_starting(error)
                error.known = error.known or (unknown if lost else kept)
                if entered or not passing or error.code != "store-unavailable":
                    raise
                failure = failure or error
            tries += entered
            entered = False
            patience = patience or Patience(self._link.connect_timeout_s)
            if tries == _TRIES or not patience.wait():
                raise failure

    def run(self, connection: Connection, text: str, values: Any = None) -> Cursor:
        """Run one statement."""
        return connection.execute(self._link.named(text), values, binary=True)

    def ask(self, doing: str, text: str, values: Any = None) -> Cursor:
        """Run one statement that only reads; its rows have arrived when this returns."""
        return self.call(lambda connection, _: self.run(connection, text, values), doing)


class Patience:
    """How long, and with which pauses, a call goes on after it lost its connection or its transaction."""

    def __init__(self, timeout_s: float) -> None:
        self._end: Final = time.monotonic() + timeout_s
        self._pause_s = 0.01

    def wait(self) -> bool:
        """Pause; False if it is time to give up instead."""
        if time.monotonic() + self._pause_s > self._end:
            return False
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, 0.25)
        return True
