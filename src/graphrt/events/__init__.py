"""What can be true: frozen values in the past tense, and the journal entry that carries one.

Events, `Usage` and `Entry` live here, and how they become plain JSON-ready data. What follows from an event
does not (that is the engine's), and neither does where entries are kept (that is the stores').
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from graphrt.events.run import (
    AnswerDiscarded,
    AnswerUsed,
    EffectRecorded,
    EffectStarted,
    InterruptAnswered,
    InterruptExpired,
    InterruptRaised,
    InterruptWithdrawn,
    NodeFatigued,
    OutcomeDropped,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunStarted,
    SuperstepAbandoned,
    SuperstepCommitted,
    TaskFailed,
    TaskRetried,
    TaskSucceeded,
)
from graphrt.events.thread import (
    HandledTask,
    HistoryPruned,
    JoinStanding,
    StateSaved,
    TasksRouted,
    ThreadForked,
    ThreadMigrated,
    ThreadUpdated,
)
from graphrt.events.usage import Usage

__all__ = [
    "AnswerDiscarded",
    "AnswerUsed",
    "EffectRecorded",
    "EffectStarted",
    "Entry",
    "Event",
    "HandledTask",
    "HistoryPruned",
    "InterruptAnswered",
    "InterruptExpired",
    "InterruptRaised",
    "InterruptWithdrawn",
    "JoinStanding",
    "NodeFatigued",
    "OutcomeDropped",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunResumed",
    "RunStarted",
    "StateSaved",
    "SuperstepAbandoned",
    "SuperstepCommitted",
    "TaskFailed",
    "TaskRetried",
    "TaskSucceeded",
    "TasksRouted",
    "ThreadForked",
    "ThreadMigrated",
    "ThreadUpdated",
    "Usage",
    "event_kind",
]

Event: TypeAlias = (
    RunStarted
    | RunResumed
    | InterruptAnswered
    | InterruptExpired
    | InterruptRaised
    | InterruptWithdrawn
    | AnswerUsed
    | AnswerDiscarded
    | TaskRetried
    | EffectStarted
    | EffectRecorded
    | TaskSucceeded
    | TaskFailed
    | OutcomeDropped
    | NodeFatigued
    | SuperstepCommitted
    | SuperstepAbandoned
    | TasksRouted
    | ThreadUpdated
    | ThreadForked
    | ThreadMigrated
    | HistoryPruned
    | RunInterrupted
    | RunCompleted
    | RunFailed
    | RunCancelled
)


def event_kind(event: Event) -> str:
    """The stable name of the event's type, for instance `task-succeeded`."""
    name = type(event).__name__
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal: an event, and when, where and why it became true."""

    seq: int
    """Position in the thread's journal, from 1, without gaps."""
    at: float
    """Seconds since the epoch by the runtime's clock, read once per commit."""
    run: str
    cause: int
    """`seq` of the entry that led to this one, 0 for a first one."""
    event: Event
    path: str = field(default="")
    """Task id of the nested graph's node that the entry belongs to, empty at the top."""
    thread: str | None = field(default=None)
    """The thread whose journal it is in; None for a run without one."""

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON-ready data; values that JSON lacks are shown by their `repr`."""
        from pydantic_core import to_jsonable_python

        event = self.event
        body = {f.name: getattr(event, f.name) for f in fields(event)}
        if isinstance(event, TaskSucceeded):
            body["update"] = event.update
        data: dict[str, Any] = {
            "thread": self.thread,
            "seq": self.seq,
            "at": self.at,
            "run": self.run,
            "cause": self.cause,
            "path": self.path,
            "event": event_kind(event),
            **body,
        }
        plain: dict[str, Any] = to_jsonable_python(data, fallback=repr)
        return plain
