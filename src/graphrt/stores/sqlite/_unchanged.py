"""Questions about a file that need no query while it does not change.

Readers of many threads ask again and again whether a thread has something new, and most have nothing. SQLite's
`data_version` shows for the price of a lock whether another connection has written the file; what this connection
writes is counted. Both make the *stamp* of the file (https://www.sqlite.org/pragma.html#pragma_data_version).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from sqlite3 import Connection

Known: TypeAlias = Mapping[str, tuple[int, int]]
"""Thread to the last entry and the place of the last batch that its reader knows."""
Stamp: TypeAlias = tuple[int, int]
"""How often this object has opened or written the file, and the `data_version` of its connection."""


def stamp(db: Connection, changes: int) -> Stamp:
    """Return the stamp of a file, in a transaction. *changes*: how often the caller has opened or written it."""
    return changes, db.execute("PRAGMA data_version").fetchall()[0][0]


@final
class Unchanged:
    """The threads that had nothing new while a file has one stamp, each with what its reader knew."""

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._quiet: Known = {}
        self._lock = Lock()

    def look(self, stamp: Stamp, known: Known, is_new: Callable[[str, int, int], bool]) -> set[str]:
        """Return the threads of *known* that have something new.

        Args:
            stamp: The stamp of the file, in the transaction in which *is_new* reads.
            known: What the readers of the threads know; see `Store.news`.
            is_new: Reads whether a thread has something new. It is not called for what had nothing.
        """
        with self._lock:
            quiet: Known = self._quiet if stamp == self._stamp else {}
            if known.items() <= quiet.items():
                return set()
            found = {thread for thread, at in known.items() if quiet.get(thread) != at and is_new(thread, *at)}
            self._stamp = stamp
            self._quiet = {**quiet, **{thread: at for thread, at in known.items() if thread not in found}}
        return found
