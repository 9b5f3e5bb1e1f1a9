"""The entries of one commit together, before they are bytes and after. Values only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from graphrt._engine.emit_events import Logged
from graphrt.errors import InputError
from graphrt.events import (
    Entry,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunStarted,
    SuperstepAbandoned,
    SuperstepCommitted,
    ThreadForked,
    ThreadMigrated,
)
from graphrt.stores.protocol import Status

STATUS: Final[Mapping[Any, Status]] = {
    RunStarted: "running",
    RunResumed: "running",
    RunCompleted: "completed",
    RunInterrupted: "interrupted",
    RunFailed: "failed",
    RunCancelled: "cancelled",
}
"""The status of a thread after an event of a run."""
UNSTAGES: Final = frozenset({SuperstepCommitted, SuperstepAbandoned})
"""Events after which nothing stands beside the journal: what was staged became entries, or was given up."""
LATEST_S: Final = 9.2e12
"""A time that is further from the epoch than this, 290,000 years, may not be told in whole microseconds of 64 bits."""
_TUPLE: Final[Any] = tuple
_CAUSES: Final = (RunStarted, RunResumed, SuperstepCommitted)


class Batch(NamedTuple):
    """The entries of one commit."""

    at: float
    run: str
    cause: int
    """What led to the first of them: the last start, resume or commit before."""
    logged: Sequence[Logged]

    def entries(self, first: int, thread: str | None = None) -> Iterator[Entry]:
        """The entries of *thread*, the first of which is number *first*."""
        causes: dict[str, int] = {"": self.cause}
        for seq, (path, event) in enumerate(self.logged, first):
            cause = causes.get(path, causes[""])
            if isinstance(event, _CAUSES):
                causes[path] = seq
            yield Entry(
                seq=seq, at=self.at, run=self.run, cause=cause, event=event, path=path.rstrip("/"), thread=thread
            )


class Line(NamedTuple):
    """A commit of the fast path, kept by a store in memory: what two entries are made of when somebody reads them."""

    at: float
    superstep: int
    node: str
    update: Mapping[str, Any] | None
    next: tuple[str, ...]


new_line: Final[Callable[[tuple[Any, ...]], Line]] = partial(_TUPLE.__new__, Line)
"""Makes a line of its fields in order: done for every superstep, so without the detour of a call with arguments."""


def no_time(at: object) -> InputError:
    """The error for a clock that told *at*."""
    return InputError(
        f"The clock returned {at!r}, which cannot be stored as a time.",
        known="nothing was stored",
        fix="Give Runtime a clock that tells seconds since the epoch, as time.time does.",
    )


def last_cause(logged: Sequence[Logged], seq: int, cause: int) -> int:
    """The cause of what comes after entries up to *seq*, the last of which are *logged*."""
    for back, (path, event) in enumerate(reversed(logged)):
        if not path and isinstance(event, _CAUSES):
            return seq - back
    return cause


def fingerprint_after(logged: Sequence[Logged]) -> str | None:
    """The fingerprint of the thread's graph after *logged*; None if they say nothing of that."""
    found = [told for _, event in logged if (told := _fingerprint(event)) is not None]
    return found[-1] if found else None


def _fingerprint(event: Any) -> str | None:
    if isinstance(event, RunStarted):
        return event.fingerprint
    if isinstance(event, ThreadMigrated):
        return event.target
    return event.state.fingerprint if isinstance(event, ThreadForked) else None
