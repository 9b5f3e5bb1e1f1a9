"""What can be true of a run: its beginning and end, its tasks, interrupts, effects and commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrt.events._word import Word
from graphrt.events.thread import HandledTask, JoinStanding
from graphrt.events.usage import Usage

__all__ = [
    "AnswerDiscarded",
    "AnswerUsed",
    "EffectRecorded",
    "EffectStarted",
    "InterruptAnswered",
    "InterruptExpired",
    "InterruptRaised",
    "InterruptWithdrawn",
    "NodeFatigued",
    "OutcomeDropped",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunResumed",
    "RunStarted",
    "SuperstepAbandoned",
    "SuperstepCommitted",
    "TaskFailed",
    "TaskRetried",
    "TaskSucceeded",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunStarted(Word):
    """A run began with *input*: on a new thread the initial state, on a finished one an update."""

    graph: str
    fingerprint: str
    thread: str | None
    seed: int
    input: Mapping[str, Any]
    """Without untracked fields, which are never stored."""
    fresh: bool = True
    """Whether *input* is the whole state; else it is an update of the state that the thread had."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunResumed(Word):
    """A paused, failed or cancelled thread was driven on."""

    verb: str
    """`resume` or `retry`."""
    thread: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptAnswered(Word):
    """The outside answered an interrupt; a later answer to the same one replaces this."""

    id: str
    answer: Any
    nth: int = 0
    """Number of the answer among those that its task was given, from 1; 0 where it was written before graphrt counted them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AnswerUsed(Word):
    """The node asked the question of an answered interrupt and was given the answer."""

    id: str
    reworded: bool = False
    """Whether the node now asked with another payload than the one that was answered."""
    payload: Any = None
    """The payload that the node asked with, if it is another one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AnswerDiscarded(Word):
    """An answer was not used."""

    id: str
    reason: str
    """`reworded`: the node asks with another payload, and without a key; `retyped`: it wants an answer of another type;
    `not-asked`: the node ended without asking."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptWithdrawn(Word):
    """An open interrupt takes no answer any more; its task runs again and may ask anew, under another id."""

    id: str
    reason: str
    """`stale`: the state was edited, and the thread was retried; `cancelled`: the thread was cancelled and then retried;
    `reworded`: the node ran again and asks with another payload, or for another type."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptExpired(Word):
    """No answer to an interrupt came in time, and its thread was retried: the task runs again and may ask anew."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptRaised(Word):
    """A task paused and asked the outside."""

    id: str
    task: str
    node: str
    payload: Any
    key: str = ""
    """Ordinal or user's key of the question inside its task."""
    answer_type: Any = None
    """What the answer must be, as plain data; None if anything will do."""
    expires_at: float | None = None
    """Seconds since the epoch after which no answer is taken; None if it waits for ever."""
    usage: Usage | None = None
    """What the task's model calls used so far."""
    kind: str = "question"
    """`question`, `approval`, `budget`, `effect`, `before` or `after`."""
    version: int = 1
    """How often the task has asked this: above 1, *key* and *id* end with a colon and this number."""
    stale: bool = False
    """Whether the state was edited since the task asked; told where the question is staged anew."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TaskRetried(Word):
    """An attempt failed, and the task's retry policy allowed another one after *delay_s* seconds."""

    task: str
    node: str
    attempt: int
    """The attempt that failed, 1 or more."""
    delay_s: float
    error: str
    message: str
    usage: Usage | None = None
    """What the task's model calls used so far."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EffectStarted(Word):
    """`ctx.effect` of the class `once` is about to run: without an `EffectRecorded` its outcome is unknown."""

    task: str
    key: str
    starts: int = 1
    """How often it was started: once more for each "run" that answered a question about its outcome."""
    answers: int | None = None
    """How many answers its task had been given by then; None where graphrt did not count them yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EffectRecorded(Word):
    """`ctx.effect` ran once; a re-execution of the task gets *result* without running it."""

    task: str
    key: str
    result: Any
    answers: int | None = None
    """How many answers its task had been given by then; None where graphrt did not count them yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TaskSucceeded(Word):
    """A task finished, and its update is part of the superstep's fold."""

    task: str
    node: str
    updates: tuple[Mapping[str, Any], ...] = ()
    """The validated updates, without untracked fields: 0 or 1; of a nested graph one for each of its commits."""
    goto: tuple[str, ...] | None = None
    """Targets of the task's Command in order, None if the edges of the node apply."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of those targets that are Sends, by their position in *goto*."""
    usage: Usage | None = None
    edited: bool = False
    """Whether `update(as_node=)` marked the task as finished. If so, the `interrupt_after` of its node is skipped."""

    @property
    def update(self) -> Mapping[str, Any] | None:
        """The only update; None if there is none or a nested graph made several."""
        return self.updates[0] if len(self.updates) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TaskFailed(Word):
    """A task failed after its retries; *handler* is the `on_error` node that takes over, if any."""

    task: str
    node: str
    error: str
    message: str
    handler: str | None
    exception: BaseException | None = None
    """What the node raised: `ctx.error` of the handler."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OutcomeDropped(Word):
    """An abandoned attempt ended after all, too late to count."""

    task: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NodeFatigued(Word):
    """A node was due more often than its `max_visits`, and its `on_fatigue` route was taken."""

    node: str
    visits: int
    route: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SuperstepCommitted(Word):
    """The updates of a superstep were folded, its routers asked, and the next tasks became due."""

    superstep: int
    wrote: tuple[str, ...]
    """Fields that the superstep wrote, in schema order."""
    next: tuple[str, ...]
    """Nodes of the next tasks, in task order; a Send appears once for each of its tasks."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the next tasks that are Sends, by their position in *next*."""
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    """What failed before the next tasks that handle it, by their position in *next*."""
    joins: tuple[JoinStanding, ...] = ()
    """Joins whose open generation changed."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    """The tasks whose failures *errors* has, by position in *next*, in the order of a group."""
    after: tuple[str, ...] = ()
    """Tasks with `interrupt_after`: the run pauses here, and routers and joins are asked once all of them are answered
    (`TasksRouted`, reason `answered`). *next* and *joins* are empty until then."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SuperstepAbandoned(Word):
    """`run(..., abandon=True)` gave up what a thread had left undone; a `RunStarted` with the new input follows."""

    superstep: int
    """Number of the last superstep; it is open if *tasks* are named."""
    tasks: tuple[str, ...] = ()
    """Tasks of the open superstep, in task order."""
    finished: tuple[str, ...] = ()
    """Those of them whose outcomes were kept, and will not be folded."""
    interrupts: tuple[str, ...] = ()
    """Questions that were open."""
    effects: tuple[str, ...] = ()
    """Effects of the kind "once" that were started and whose outcome is unknown, each as `task#key`."""
    next: tuple[str, ...] = ()
    """Nodes that were due, where no superstep was open."""
    usage: Usage | None = None
    """What the model calls of the abandoned tasks used."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunInterrupted(Word):
    """The run paused until its interrupts are answered."""

    interrupts: tuple[str, ...]
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of the fields that the user's own reducers fold, on a thread: what `replay` compares."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunCompleted(Word):
    """Nothing was due any more."""

    steps: int
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of the fields that the user's own reducers fold, on a thread: what `replay` compares."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunFailed(Word):
    """The run stopped with an error; the thread can be retried."""

    error: str
    message: str
    node: str | None
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of the fields that the user's own reducers fold, on a thread: what `replay` compares."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunCancelled(Word):
    """The run was cancelled from outside; the thread can be retried."""

    reason: str
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of the fields that the user's own reducers fold, on a thread: what `replay` compares."""
