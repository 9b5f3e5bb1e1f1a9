"""Answers about a file that need no query while it does not change.

Readers of many threads poll for news, and most threads have none. Workers poll for due threads just as often, and runs
for mail. On an idle processor, such a query costs four times as much as in a loop. At the cost of a lock, SQLite's
`data_version` shows whether another connection has written the file; this connection counts its own writes. Together
they form the *stamp* of the file (https://www.sqlite.org/pragma.html#pragma_data_version).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, final

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

Known: TypeAlias = Mapping[str, tuple[int, int]]
"""Maps a thread to the last entry and the place of the last batch that its reader knows."""
Stamp: TypeAlias = tuple[int, int]
"""Number of times that this object opened or wrote the file, and the `data_version` of its connection."""


_MOST_ANSWERS: Final = 32
"""Number of cached answers: a process usually has one worker with a few graphs."""


def stamp(db: Connection, changes: int) -> Stamp:
    """Return the stamp of a file, in a transaction. *changes* counts how often the caller opened or wrote it."""
    return changes, db.execute("PRAGMA data_version").fetchall()[0][0]


@final
class Unchanged:
    """The threads without news under the current stamp of a file, each with the knowledge of its reader."""

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._quiet: Known = {}
        self._lock = Lock()

    def look(self, stamp: Stamp, known: Known, is_new: Callable[[str, int, int], bool]) -> set[str]:
        """Return the threads of *known* that have something new.

        Args:
            stamp: The stamp of the file, in the transaction in which *is_new* reads.
            known: What the readers of the threads know; see `Store.news`.
            is_new: Reads whether a thread has something new. It is not called for threads known to have nothing new.
        """
        with self._lock:
            quiet: Known = self._quiet if stamp == self._stamp else {}
            if known.items() <= quiet.items():
                return set()
            moved = {thread for thread, at in known.items() if quiet.get(thread) != at and is_new(thread, *at)}
            self._stamp = stamp
            self._quiet = {**quiet, **{thread: at for thread, at in known.items() if thread not in moved}}
        return moved


@final
class Answers(Generic[T]):
    """Cached rows of threads under the current stamp of a file, by query. Used under the lock of the file.

    Whether the owner of a thread lives is not in its row, so the caller looks that up each time.
    """

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._kept: dict[Hashable, tuple[float, float, list[T]]] = {}
        """Maps a question to the start and end of the answer's validity, in seconds since the epoch, and the answer."""

    def rows(self, stamp: Stamp, question: Hashable, now: float, read: Callable[[], tuple[list[T], float]]) -> list[T]:
        """Return the answer to *question* at the time *now*.

        Args:
            stamp: The stamp of the file, in the transaction in which *read* reads.
            question: The query.
            now: The time that the answer depends on.
            read: Returns the answer, and the time until which it holds unless the file changes.
        """
        if stamp != self._stamp or len(self._kept) >= _MOST_ANSWERS:
            self._stamp = stamp
            self._kept.clear()
        since, until, rows = self._kept.get(question, (0.0, 0.0, []))
        if not since <= now < until:
            rows, until = read()
            self._kept[question] = now, until, rows
        return rows
