"""Schedules in a SQLite file: the methods of `SqliteStore`, and their SQL.

A schedule starts threads at certain times. Its row says when it is due next. Of several workers, the one that moves it
to the time after that starts the thread: the statement changes the row only if it still has the old time. Each
definition of a schedule has a random *version*, so that a worker cannot move one that was replaced meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphrt.stores.sqlite._ownership import Holding
from graphrt.stores.values import StoredSchedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection

_COLUMNS: Final = "name, graph, version, due_at, body"
_INSERT: Final = f"INSERT INTO schedule({_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT(name) DO NOTHING"  # noqa: S608
_REPLACE: Final = "UPDATE schedule SET graph = ?, version = ?, due_at = ?, body = ? WHERE name = ? AND version = ?"
_MOVE: Final = "UPDATE schedule SET due_at = ? WHERE name = ? AND version = ? AND due_at = ?"
_DELETE: Final = "DELETE FROM schedule WHERE name = ?"
_ONE: Final = "SELECT version, due_at FROM schedule WHERE name = ?"


class Scheduling(Holding):
    """The base class of `SqliteStore` with the methods for schedules."""

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        """Keep *schedule*, in place of the version *replaces*; with None, only if there is none of this name.

        Returns:
            Whether it is kept; False if another version, or none, is stored under its name.
        """
        name, graph, version, due_at, body = schedule
        stands = (version, due_at)  # what the row then has; see `_changed`
        if replaces is None:
            return self._changed(_INSERT, schedule, name, lambda row: row == stands, size=len(body))
        values = (graph, version, due_at, body, name, replaces)
        return self._changed(_REPLACE, values, name, lambda row: row == stands, size=len(body))

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at*.

        Returns:
            Whether this call moved it. Times are in seconds since the epoch.
        """
        return self._changed(_MOVE, (to, name, version, due_at), name, lambda row: row == (version, to))

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none."""
        return self._changed(_DELETE, (name,), name, lambda row: row is None)

    def _changed(self, text: str, values: Any, name: str, stands: Callable[[Any], bool], *, size: int = 0) -> bool:
        """Return whether a statement changed a row.

        Args:
            text: The statement, which changes at most one row.
            values: Its parameters.
            name: Name of the schedule.
            stands: Returns whether the change is stored, from the row (version, time) or None if there is no row.
                Called if the COMMIT failed and its outcome is unknown.
            size: Bytes that are written, about.
        """

        # `Database.write` calls `work` in a transaction, which is repeated if it was rolled back.
        def work(db: Connection) -> bool:
            return db.execute(text, values).rowcount > 0

        def landed(db: Connection, changed: bool) -> bool:  # noqa: FBT001 - `Database.write` says so
            # A statement that changed nothing needs no certainty.
            return not changed or stands(db.execute(_ONE, (name,)).fetchone())

        # `kept` ends the text of an error with what is stored then. `thread` stands there where a thread's id would.
        return self._file.write(
            work, landed=landed, kept=lambda: f"schedule {name!r} is as it was", thread=f"of schedule {name}", size=size
        )
