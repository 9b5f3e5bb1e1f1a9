"""The schedules of a `MemoryStore`: the methods of the protocol `Schedulable` over a dictionary.

A schedule starts threads of one graph at set times. A worker that starts its thread moves it to the next time. Several
workers may try at once, so a change names what it expects, and only one of them succeeds. `version` is new with each
definition of a schedule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from graphrt._forks import Home, OwnLock
from graphrt.stores import _refusals
from graphrt.stores.schedules import Scheduled


@final
class ScheduleTable:
    """Schedules by their names, of the store with *home*. Several threads may use it."""

    __slots__ = ("_lock", "_rows")

    def __init__(self, home: Home) -> None:
        self._rows: dict[str, Scheduled] = {}
        self._lock = OwnLock(home)

    def put(self, schedule: Scheduled, replaces: str | None) -> bool:
        """Keep *schedule* in place of the version *replaces*, None for a new name; False if the table has another."""
        with self._lock:
            known = self._rows.get(schedule.name)
            if (None if known is None else known.version) != replaces:
                return False
            self._rows[schedule.name] = schedule
            return True

    def move(self, name: str, version: str, due_at: float, to: float) -> bool:
        """Move the schedule from the time *due_at* to the time *to*; False if its version or time is another."""
        with self._lock:
            known = self._rows.get(name)
            if known is None or (known.version, known.due_at) != (version, due_at):
                return False
            self._rows[name] = known._replace(due_at=to)
            return True

    def listed(self, graph: str | None, due_by: float | None) -> list[Scheduled]:
        """Return the schedules in the order of their names; of *graph* only, or due at *due_by* or before, if given."""
        with self._lock:
            rows = sorted(self._rows.values())  # the name is their first field, and unique
        return [
            row for row in rows if (graph is None or row.graph == graph) and (due_by is None or row.due_at <= due_by)
        ]

    def delete(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none."""
        with self._lock:
            return self._rows.pop(name, None) is not None


class Scheduling(ABC):
    """The base class of `MemoryStore` with the methods of `Schedulable`. Times are in seconds since the epoch."""

    @property
    @abstractmethod
    def _table(self) -> ScheduleTable:
        """Does the work.

        Raises:
            StoreError: The store is closed.
        """
        ...

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        """Keep *schedule* if the store has the version *replaces* of its name, or none for None; else return False."""
        return self._table.put(schedule, replaces)

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at*; else False."""
        return self._table.move(name, version, due_at, to)

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        """Return the schedules in the order of their names: those of *graph*, and those that are due by *due_by*."""
        _refusals.check_times(due_by=due_by)
        return self._table.listed(graph, due_by)

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none."""
        return self._table.delete(name)
