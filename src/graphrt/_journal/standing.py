"""The standing of a thread: data about the thread itself, besides its state, derived from its entries.

A single table applies each entry of the outermost graph, for readers (`thread_fold`), for the writer of a run
(`writer`), and for code without a graph (`audit._restore`, copies). So they agree on the meaning of events. Entries of
nested graphs do not affect the standing. Applying needs neither the engine nor the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt.events.status import Status

STATUS: Final[Mapping[Any, Status]] = {
    events.RunStarted: "running",
    events.RunResumed: "running",
    events.RunCompleted: "completed",
    events.RunInterrupted: "interrupted",
    events.RunFailed: "failed",
    events.RunCancelled: "cancelled",
}
"""Maps the class of each event that begins or ends a run to the resulting status of the thread."""


class ThreadStanding:
    """Position, status and run of a thread after some of its entries."""

    __slots__ = (
        "cause",
        "erasures",
        "error",
        "fingerprint",
        "graph",
        "left",
        "run",
        "seed",
        "seq",
        "status",
        "steps_at",
    )

    def __init__(self) -> None:
        self.seq: int = 0
        """Number of the last entry."""
        self.cause: int = 0
        """`seq` of the last start, resume or commit; the next entry names it as its cause."""
        self.status: Status = "new"
        self.error: str | None = None
        """Class and first line of the error with which the thread failed; None if it did not fail."""
        self.run: str = ""
        """Id of the last run."""
        self.seed: int | None = None
        """Seed of the last run; None before the first."""
        self.graph: str = ""
        """Name of the graph of the last run."""
        self.fingerprint: str = ""
        """Fingerprint of the graph that the thread was last driven with."""
        self.erasures: int = 0
        """Number of erasures among the entries, each of which replaced values in earlier entries."""
        self.steps_at: int = 0
        """Number of the last entry that changed the state; listings of snapshots read the values there."""
        self.left: bool = False
        """Whether the last entry released the thread deliberately (`RunHandedOver`), so that another process drives it.
        Otherwise, a running thread without an owner was lost in a crash."""

    def stand(self, saved: events.StateSaved, seq: int) -> None:
        """Set the standing from a snapshot of the entry *seq*, or from the initial state of a fork at that entry."""
        self.seq = self.steps_at = seq
        self.cause, self.run, self.seed, self.fingerprint = saved.cause, saved.run, saved.seed, saved.fingerprint
        self.status = saved.status  # type: ignore[assignment]  # a plain str in events

    def after(self, logged: Sequence[Logged], run: str) -> ThreadStanding:
        """Return the standing after the next entries, *logged*, which the *run* writes."""
        result = ThreadStanding()
        result.seq, result.cause, result.status, result.error = self.seq, self.cause, self.status, self.error
        result.run, result.seed, result.graph, result.fingerprint = self.run, self.seed, self.graph, self.fingerprint
        result.erasures, result.steps_at, result.left = self.erasures, self.steps_at, self.left
        result.apply(logged, self.seq + 1, run)
        return result

    def step(self, seq: int, run: str) -> None:
        """Apply the two events of a plain superstep, of which the second has the number *seq*; see `apply`."""
        self.seq = self.cause = self.steps_at = seq
        self.run, self.left = run, False

    def apply(self, logged: Iterable[Logged], first: int, run: str = "") -> None:
        """Apply events that are numbered from *first*.

        Args:
            logged: Pairs of path and event.
            first: Number of the first.
            run: Id of the run that wrote them; empty leaves the run as it is.
        """
        if run:
            self.run = run
        self.left = False
        seq = first
        for path, event in logged:
            if not path:
                apply = _APPLY.get(event.__class__)
                if apply is not None:
                    apply(self, event, seq)
            seq += 1
        self.seq = seq - 1


def _began(to: ThreadStanding, event: events.RunStarted, seq: int) -> None:
    """A run began; this entry is the cause of the next ones."""
    to.status, to.error, to.cause, to.steps_at = "running", None, seq, seq
    to.seed, to.graph, to.fingerprint = event.seed, event.graph, event.fingerprint


def _resumed(to: ThreadStanding, _event: events.RunResumed, seq: int) -> None:
    """A run continued."""
    to.status, to.error, to.cause = "running", None, seq


def _ended(
    to: ThreadStanding, event: events.RunCompleted | events.RunInterrupted | events.RunCancelled, _: int
) -> None:
    """A run ended or paused, and did not fail."""
    to.status, to.error = STATUS[event.__class__], None


def _failed(to: ThreadStanding, event: events.RunFailed, _: int) -> None:
    """A run failed."""
    to.status, to.error = "failed", f"{event.error}: {event.message}"


def _left(to: ThreadStanding, _event: events.RunHandedOver, _: int) -> None:
    """A run released its thread; this is the last entry of its commit."""
    to.left = True


def _committed(to: ThreadStanding, _event: events.SuperstepCommitted, seq: int) -> None:
    """A superstep ended; its entries are the cause of the next ones."""
    to.cause = to.steps_at = seq


def _updated(to: ThreadStanding, event: events.ThreadUpdated, seq: int) -> None:
    """The state was edited. Only an engine knows the remaining work, and therefore the status (`status_after`)."""
    to.steps_at = seq
    if event.fresh:  # the edit created the thread, which counts as completed before that
        to.status = "completed"


def _forked(to: ThreadStanding, event: events.ThreadForked, seq: int) -> None:
    """The thread began as a fork."""
    to.stand(event.state, seq)


def _migrated(to: ThreadStanding, event: events.ThreadMigrated, seq: int) -> None:
    """The thread was migrated to a changed graph."""
    to.fingerprint, to.steps_at = event.target, seq


def _erased(to: ThreadStanding, _event: events.ValuesErased, _: int) -> None:
    """Values of earlier entries were erased."""
    to.erasures += 1


_APPLY: Final[Mapping[Any, Callable[[ThreadStanding, Any, int], None]]] = {
    events.RunStarted: _began,
    events.RunResumed: _resumed,
    events.RunCompleted: _ended,
    events.RunInterrupted: _ended,
    events.RunCancelled: _ended,
    events.RunFailed: _failed,
    events.RunHandedOver: _left,
    events.SuperstepCommitted: _committed,
    events.ThreadUpdated: _updated,
    events.ThreadForked: _forked,
    events.ThreadMigrated: _migrated,
    events.ValuesErased: _erased,
}
"""The function that applies an event, by its class; other events say nothing about the thread."""
CHANGES: Final = frozenset(
    {events.RunStarted, events.SuperstepCommitted, events.ThreadUpdated, events.ThreadForked, events.ThreadMigrated}
)
"""Events that change the state. Listings of snapshots have one for each, and for the end of a run."""
