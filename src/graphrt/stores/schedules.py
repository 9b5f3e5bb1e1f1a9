"""Schedules, as stores keep them beside the threads that they start (R23).

A schedule is a row with the time at which it is due next. The worker that starts its thread moves it to the time
after that, in one compare-and-set, so that several workers do not move it twice. A store that has the methods of
`Schedulable` keeps schedules. What the body says is in `_runs.schedules`. Some stores wrap another one, to encrypt it
or to map its ids: their attribute `_wrapped` is the inner store.

Only the values and the protocol belong here.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from graphrt.errors._codes.labels import STORE_LACKS
from graphrt.stores.protocol import SCHEDULING

__all__ = ["Schedulable", "Scheduled"]


class Scheduled(NamedTuple):
    """A schedule as a store keeps it."""

    name: str
    """Unique in the store; of the form of a thread's id."""
    graph: str
    """Name of the graph that its threads run."""
    version: str
    """Made anew with each definition, so that a worker that knows an older definition cannot move the schedule."""
    due_at: float
    """When it is due next, in seconds since the epoch."""
    body: bytes
    """Its definition, in the form that the runtime chose."""


class Schedulable(Protocol):
    """The methods of a store that keeps schedules. They are not part of `Store`."""

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        """Keep *schedule*.

        Args:
            schedule: The new definition.
            replaces: Version of the schedule of this name that it replaces; None if there is none.

        Returns:
            Whether it is kept; False if the store has another version of this name, or none that could be replaced.
        """
        ...

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at*.

        Returns:
            Whether it was moved by this call. Of several workers, one gets True.
        """
        ...

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        """Return the schedules in the order of their names.

        Args:
            graph: Only schedules of the graph with exactly this name.
            due_by: Only schedules that are due at this time or before.
        """
        ...

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none."""
        ...


def keeps_schedules(store: Any) -> bool:
    """Return whether *store* has all methods of `Schedulable`, and so has the store that it wraps, if it wraps one."""
    inner = getattr(store, "_wrapped", None)
    return all(callable(getattr(store, name, None)) for name in SCHEDULING) and (
        inner is None or keeps_schedules(inner)
    )


def schedulable(store: Any) -> Schedulable:
    """Return *store* as a `Schedulable`, for a caller that is about to use its schedules.

    Raises:
        InputError: It has no methods for that (`store-lacks`).
    """
    if not keeps_schedules(store):
        raise STORE_LACKS(doing="keep schedules", store=store, protocol="Schedulable", methods=SCHEDULING)
    found: Schedulable = store
    return found
