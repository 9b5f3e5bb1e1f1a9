"""The schedules of a `MemoryStore`: the methods of `Schedulable` over a dictionary."""

from __future__ import annotations

from threading import Lock
from typing import final

from graphrt.stores.schedules import Scheduled


@final
class ScheduleTable:
    """Schedules by their names. Several threads may use it."""

    __slots__ = ("_lock", "_rows")

    def __init__(self) -> None:
        self._rows: dict[str, Scheduled] = {}
        self._lock = Lock()

    def put(self, schedule: Scheduled, replaces: str | None) -> bool:
        """See `Schedulable.put_schedule`."""
        with self._lock:
            known = self._rows.get(schedule.name)
            if (None if known is None else known.version) != replaces:
                return False
            self._rows[schedule.name] = schedule
            return True

    def move(self, name: str, version: str, due_at: float, to: float) -> bool:
        """See `Schedulable.move_schedule`."""
        with self._lock:
            known = self._rows.get(name)
            if known is None or (known.version, known.due_at) != (version, due_at):
                return False
            self._rows[name] = known._replace(due_at=to)
            return True

    def listed(self, graph: str | None, due_by: float | None) -> list[Scheduled]:
        """See `Schedulable.schedules`."""
        with self._lock:
            rows = sorted(self._rows.values())
        return [
            row for row in rows if (graph is None or row.graph == graph) and (due_by is None or row.due_at <= due_by)
        ]

    def delete(self, name: str) -> bool:
        """See `Schedulable.delete_schedule`."""
        with self._lock:
            return self._rows.pop(name, None) is not None


class Scheduling:
    """The base class of `MemoryStore` with the methods of `Schedulable`."""

    _table: ScheduleTable

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        """Keep *schedule*. See `Schedulable.put_schedule`."""
        return self._table.put(schedule, replaces)

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next. See `Schedulable.move_schedule`."""
        return self._table.move(name, version, due_at, to)

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        """Return the schedules in the order of their names. See `Schedulable.schedules`."""
        return self._table.listed(graph, due_by)

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. See `Schedulable.delete_schedule`."""
        return self._table.delete(name)
