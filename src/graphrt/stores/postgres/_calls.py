"""Calls to a PostgreSQL server, with retries after a lost connection or an aborted transaction.

This module decides when to retry, and for how long. Callers pass idempotent work, so that a retry is harmless. A `Link`
is a pool of connections, each lent to one call at a time.
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
"""Maximum number of times that the work of a call is started."""


class Calls:
    """Runs statements on connections from a `Link`, and retries them where that can help."""

    def __init__(self, link: Link) -> None:
        self._link: Final = link

    @staticmethod
    def token() -> int:
        """Return a random number that identifies one change of a thread's row.

        After a lost connection, the number in the row shows whether this change was the last one.
        """
        return int.from_bytes(os.urandom(8), "big") >> 1  # bigint is signed: 63 bits

    def call(self, work: Callable[[Connection, bool], T], doing: str, *, kept: str = "", unknown: str = "") -> T:
        """Return the result of *work*, retrying after transient errors.

        Args:
            work: Called with a connection, and with whether an earlier call may already have done the work because its
                connection was lost.
            doing: The attempted operation, for an error, as in "load thread 't'".
            kept: A sentence about the stored data, for an error.
            unknown: The same if the connection was lost, so that the outcome is unknown.

        Raises:
            StoreError: The work failed, or the server did not come back within `connect_timeout_s`.
        """
        end, pause_s = (
            0.0,
            0.01,
        )  # the deadline, counted from the first failure; the pause, doubled up to 0.25 s
        failure: StoreError | None = None  # the latest error, raised when the tries or the time are used up
        lost = entered = False  # whether a connection was lost; whether this round got one
        tries = 0  # rounds that got a connection and began the work
        while True:
            try:
                with self._link.lend() as connection:
                    entered = True
                    try:
                        return work(connection, lost)
                    except driver().Error as error:
                        is_lost = _errors.is_lost(error, connection)  # otherwise the outcome is known
                        lost = lost or is_lost
                        failure = self._link.failure(error, doing=doing, kept=unknown if lost else kept)
                        if is_lost:
                            connection.close()  # so that the pool does not lend it again
                        elif error.sqlstate not in _errors.AGAIN:  # neither a deadlock nor a serialization failure
                            raise failure from error
            except StoreError as error:  # from `lend` or *work*, or the failure raised above
                # Only an error of `lend` may be transient. Wait for a server that answered before (`met`) or is
                # starting. Report a server that never answered at once, because the address may be wrong.
                passing = lost or self._link.met or _errors.is_starting(error)
                error.known = error.known or (unknown if lost else kept)  # the stored data, for the error text
                if entered or not passing or error.code != "store-unavailable":
                    raise
                failure = failure or error
            tries += entered
            entered = False
            end = end or time.monotonic() + self._link.connect_timeout_s
            if tries == _TRIES or time.monotonic() + pause_s > end:
                raise failure
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.25)

    def run(self, connection: Connection, text: str, values: Any = None) -> Cursor:
        """Run one statement with its parameters *values*, once; results are in binary format.

        For use in the *work* of a `call`, which retries it. *text* has `{s}` in place of the schema's name.
        """
        return connection.execute(self._link.named(text), values, binary=True)

    def ask(self, doing: str, text: str, values: Any = None) -> Cursor:
        """Run one statement, which may run twice after a lost connection, with retries. All rows have arrived when this returns.

        *doing* names the attempted operation for an error, as in `call`.
        """
        return self.call(lambda connection, _: self.run(connection, text, values), doing)
