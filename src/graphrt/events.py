"""What can be true: frozen values in the past tense, and the journal entry that carries one.

Events, `Usage` and `Entry` live here, and how they become plain JSON-ready data. What follows from an event
does not (that is the engine's), and neither does where entries are kept (that is the stores').
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

__all__ = [
    "EffectRecorded",
    "Entry",
    "Event",
    "InterruptAnswered",
    "InterruptRaised",
    "NodeFatigued",
    "OutcomeDropped",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunResumed",
    "RunStarted",
    "SuperstepCommitted",
    "TaskFailed",
    "TaskRetried",
    "TaskSucceeded",
    "Usage",
    "event_kind",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What model calls used. Tokens are counts; `cost_usd` is None where no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider read from its cache."""
    reasoning_tokens: int = 0
    """Part of `output_tokens` that the model spent on thinking."""
    calls: int = 0
    """Model calls, those without a reported usage included."""
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            calls=self.calls + other.calls,
            cost_usd=sum(costs) if costs else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run began with *input*: on a new thread the initial state, on a finished one an update."""

    graph: str
    fingerprint: str
    thread: str | None
    seed: int
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """A paused, failed or cancelled thread was driven on."""

    verb: str
    """`resume` or `retry`."""
    thread: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptAnswered:
    """The outside answered an interrupt."""

    id: str
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptRaised:
    """A task paused and asked the outside."""

    id: str
    task: str
    node: str
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetried:
    """An attempt failed, and the task's retry policy allowed another one after *delay_s* seconds."""

    task: str
    node: str
    attempt: int
    """The attempt that failed, 1 or more."""
    delay_s: float
    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecorded:
    """`ctx.effect` ran once; a re-execution of the task gets *result* without running it."""

    task: str
    key: str
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSucceeded:
    """A task finished, and its update is part of the superstep's fold."""

    task: str
    node: str
    update: Mapping[str, Any] | None
    """The validated update: what was checked is what counts."""
    goto: tuple[str, ...] | None
    """Targets of the task's Command in order, None if the edges of the node apply."""
    usage: Usage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """A task failed after its retries; *handler* is the `on_error` node that takes over, if any."""

    task: str
    node: str
    error: str
    message: str
    handler: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeDropped:
    """An abandoned attempt ended after all, too late to count."""

    task: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFatigued:
    """A node was due more often than its `max_visits`, and its `on_fatigue` route was taken."""

    node: str
    visits: int
    route: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperstepCommitted:
    """The updates of a superstep were folded, its routers asked, and the next tasks became due."""

    superstep: int
    wrote: tuple[str, ...]
    """Fields that the superstep wrote, in schema order."""
    next: tuple[str, ...]
    """Nodes of the next tasks, in task order; a Send appears once for each of its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted:
    """The run paused until its interrupts are answered."""

    interrupts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted:
    """Nothing was due any more."""

    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The run stopped with an error; the thread can be retried."""

    error: str
    message: str
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled:
    """The run was cancelled from outside; the thread can be retried."""

    reason: str


Event: TypeAlias = (
    RunStarted
    | RunResumed
    | InterruptAnswered
    | InterruptRaised
    | TaskRetried
    | EffectRecorded
    | TaskSucceeded
    | TaskFailed
    | OutcomeDropped
    | NodeFatigued
    | SuperstepCommitted
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

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON-ready data; values that JSON lacks are shown by their `repr`."""
        from pydantic_core import to_jsonable_python

        event = self.event
        body = {f.name: getattr(event, f.name) for f in fields(event)}
        data: dict[str, Any] = {
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
