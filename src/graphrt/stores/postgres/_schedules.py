"""Schedules in a PostgreSQL schema: the methods of `PostgresStore`, and their SQL.

A schedule starts threads of one graph at set times. A worker that starts its thread moves it to the next time. Several
workers may try at once, so a change names what it expects, and only one of them succeeds. `version` is new with each
definition of a schedule. Times are in seconds since the epoch. A schedule's name has the form of a thread's id and is
stored as text. The name of its graph may have characters that PostgreSQL's text refuses, and is stored as bytes.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.postgres._texts import to_bytes
from graphrt.stores.values import StoredSchedule

_INSERT: Final = (
    "INSERT INTO {s}.schedule (name, graph, version, due_at, body) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (name) DO NOTHING"
)
_REPLACE: Final = (
    "UPDATE {s}.schedule SET graph = %s, version = %s, due_at = %s, body = %s WHERE name = %s AND version = %s"
)
_MOVE: Final = "UPDATE {s}.schedule SET due_at = %s WHERE name = %s AND version = %s AND due_at = %s"
_DELETE: Final = "DELETE FROM {s}.schedule WHERE name = %s"


class Scheduling:
    """The base class of `PostgresStore` with the methods for schedules."""

    _calls: Calls

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        """Keep *schedule*; return False if the store has another version than *replaces*."""
        name, graph, version, due_at, body = schedule
        if replaces is None:
            return self._changed(_INSERT, [name, to_bytes(graph), version, due_at, body], schedule.name)
        return self._changed(_REPLACE, [to_bytes(graph), version, due_at, body, name, replaces], schedule.name)

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Move a schedule from *due_at* to *to*; return False if version or time differ."""
        return self._changed(_MOVE, [to, name, version, due_at], name)

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule; return False if there was none."""
        return self._changed(_DELETE, [name], name)

    def _changed(self, text: str, values: list[Any], name: str) -> bool:
        """Run the statement *text*, which changes the schedule *name*; return whether it changed a row."""

        def work(connection: Connection, _: bool) -> bool:  # noqa: FBT001 - Calls.call says so
            """Run the statement once; the second argument, whether this is a repetition, makes no difference."""
            return self._calls.run(connection, text, values).rowcount > 0

        # Repeated after a lost connection it may find its own change, and then says that another process was faster.
        # Callers look at the schedule again in that case.
        return self._calls.call(work, f"write schedule {name!r}", unknown="List the schedules to see whether it was.")
