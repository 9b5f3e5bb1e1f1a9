"""Events, which state facts, and journal entries, which carry them. All are frozen; events are named in the past tense.

Events, `Usage` and `Entry` are defined here, with their conversion to JSON-ready data. The engine decides the
consequences of an event; stores keep the entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from graphrt._usage.amounts import Amounts
from graphrt._usage.usage import Usage
from graphrt.events.model_calls import (
    BudgetGranted,
    BudgetHeld,
    BudgetReleased,
    ModelReplied,
    RepliesDiscarded,
    ReplyStopped,
    UsageRecorded,
)
from graphrt.events.parts import HandledTask, JoinStanding
from graphrt.events.run import (
    AnswerDiscarded,
    AnswerUsed,
    EffectRecorded,
    EffectStarted,
    InterruptAnswered,
    InterruptExpired,
    InterruptRaised,
    InterruptWithdrawn,
    MemoryWritten,
    NodeFatigued,
    OutcomeDropped,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunHandedOver,
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
    HistoryPruned,
    LetterDropped,
    SignalReceived,
    SignalTaken,
    StateSaved,
    TasksRouted,
    ThreadCopied,
    ThreadDeleted,
    ThreadForked,
    ThreadLabelled,
    ThreadMigrated,
    ThreadStarted,
    ThreadUpdated,
    ValuesErased,
)

__all__ = [
    "Amounts",
    "AnswerDiscarded",
    "AnswerUsed",
    "BudgetGranted",
    "BudgetHeld",
    "BudgetReleased",
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
    "LetterDropped",
    "MemoryWritten",
    "ModelReplied",
    "NodeFatigued",
    "OutcomeDropped",
    "RepliesDiscarded",
    "ReplyStopped",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunHandedOver",
    "RunInterrupted",
    "RunResumed",
    "RunStarted",
    "SignalReceived",
    "SignalTaken",
    "StateSaved",
    "SuperstepAbandoned",
    "SuperstepCommitted",
    "TaskFailed",
    "TaskRetried",
    "TaskSucceeded",
    "TasksRouted",
    "ThreadCopied",
    "ThreadDeleted",
    "ThreadForked",
    "ThreadLabelled",
    "ThreadMigrated",
    "ThreadStarted",
    "ThreadUpdated",
    "Usage",
    "UsageRecorded",
    "ValuesErased",
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
    | MemoryWritten
    | RepliesDiscarded
    | ReplyStopped
    | BudgetGranted
    | BudgetHeld
    | BudgetReleased
    | UsageRecorded
    | ModelReplied
    | TaskSucceeded
    | TaskFailed
    | OutcomeDropped
    | NodeFatigued
    | SuperstepCommitted
    | SuperstepAbandoned
    | TasksRouted
    | ThreadUpdated
    | ThreadForked
    | ThreadCopied
    | ThreadLabelled
    | ThreadMigrated
    | ThreadStarted
    | SignalReceived
    | SignalTaken
    | LetterDropped
    | HistoryPruned
    | ThreadDeleted
    | ValuesErased
    | RunInterrupted
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunHandedOver
)
"""Every event that an entry can carry."""


def event_kind(event: Event) -> str:
    """Return the stable name of the event's type, for instance `task-succeeded` for `TaskSucceeded`.

    Exported data, logs and stream filters name the types of events in this way.
    """
    name = type(event).__name__
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a journal: an event, with its time, location and cause."""

    seq: int
    """Position in the thread's journal: from 1, without gaps."""
    at: float
    """Seconds since the epoch, from the runtime's clock. It is read once per commit."""
    run: str
    """Id of the run that wrote it."""
    cause: int
    """`seq` of the entry that led to this one; 0 for a first one."""
    event: Event
    """The event."""
    path: str = field(default="")
    """Id of the task whose nested graph the entry belongs to; empty for the graph at the top."""
    thread: str | None = field(default=None)
    """Id of the thread whose journal it is in; None for a run without a thread."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON-ready data, with the fields of its event.

        A field of the event that has the name of one of the entry, such as `thread`, is named `event_thread`. A value that
        JSON lacks is replaced by its `repr`.
        """
        from pydantic_core import to_jsonable_python

        from graphrt._display import OUTLINES

        event = self.event
        body = {f.name: getattr(event, f.name) for f in fields(event)}
        if isinstance(event, TaskSucceeded):
            # The single update of an ordinary task. It is a property, so `fields` does not include it.
            body["update"] = event.update
        own: dict[str, Any] = {
            "thread": self.thread,
            "seq": self.seq,
            "at": self.at,
            "run": self.run,
            "cause": self.cause,
            "path": self.path,
            "event": event_kind(event),
        }
        data = own | {f"event_{name}" if name in own else name: value for name, value in body.items()}
        plain: dict[str, Any] = to_jsonable_python(data, fallback=repr, context=OUTLINES)
        return plain
