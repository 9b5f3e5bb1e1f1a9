"""Events of a run: its beginning and end, tasks, interrupts, effects and commits.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrt._usage.usage import Usage
from graphrt.events._word import Word
from graphrt.events.parts import HandledTask, JoinStanding

__all__ = [
    "AnswerDiscarded",
    "AnswerUsed",
    "EffectRecorded",
    "EffectStarted",
    "InterruptAnswered",
    "InterruptExpired",
    "InterruptRaised",
    "InterruptWithdrawn",
    "MemoryWritten",
    "NodeFatigued",
    "OutcomeDropped",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunHandedOver",
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
    """A run began. On a new thread *input* is the initial state, on an existing one an update."""

    graph: str
    """Name of the graph."""
    fingerprint: str
    """Fingerprint of the graph."""
    thread: str | None
    """Id of the thread, with its tenant; None for a run without one."""
    seed: int
    """Seed of the run's randomness (`ctx.random`)."""
    input: Mapping[str, Any]
    """The validated input, without untracked fields, which are never stored."""
    fresh: bool = True
    """Whether *input* is the whole state. If not, it is an update of the thread's state."""
    user: str = ""
    """Who started it, according to the runtime's audit log; empty if unknown."""
    redaction: str = ""
    """Redaction rules in force, and a digest of them; empty without any."""
    parent: str | None = None
    """Id of the thread whose task started this thread by `ctx.start`; None for any other."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps each field that the caller gave to the BLAKE2b digest (16 bytes, in hexadecimal) of its stored form;
    `if_exists="continue"` compares them. Empty without a thread."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunResumed(Word):
    """A run continued on a paused, failed or cancelled thread."""

    verb: str
    """`resume` or `retry`."""
    thread: str | None
    """Id of the thread, with its tenant."""
    user: str = ""
    """Who resumed it, according to the runtime's audit log; empty if unknown."""
    redaction: str = ""
    """Redaction rules in force, and a digest of them; empty without any."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptAnswered(Word):
    """An interrupt was answered. A later answer to the same interrupt replaces this one."""

    id: str
    """Id of the interrupt."""
    answer: Any
    nth: int = 0
    """Number of the answer among those of its task, from 1."""
    by: str = ""
    """What answered it:

    - empty: a person or a program, by `resume`;
    - `timer`: the timer of a `ctx.sleep` fired;
    - `default`: no answer came in time, and *answer* is the default of the question;
    - `expiry`: no answer came in time, and the node gets a `QuestionExpiredError`;
    - `thread`: a child thread ended, and the node reads its result.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AnswerUsed(Word):
    """A node asked the question of an answered interrupt again, and got the answer."""

    id: str
    """Id of the interrupt."""
    reworded: bool = False
    """Whether the node asked with a different payload from the answered one."""
    payload: Any = None
    """The payload that the node asked with, if *reworded*; else None."""
    nth: int = 0
    """Number of the answer, as `InterruptAnswered.nth`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AnswerDiscarded(Word):
    """An answer was not used."""

    id: str
    """Id of the interrupt."""
    reason: str
    """Why:

    - `expired`: no answer came in time, the task failed, and the thread was retried;
    - `failed-task`: the answer was "fail" for an effect, the task failed, and the thread was retried;
    - `reworded`: the node asked with another payload, and without a key;
    - `retyped`: the node wants an answer of another type;
    - `not-asked`: the node ended without asking.
    """
    nth: int = 0
    """Number of the answer, as `InterruptAnswered.nth`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptWithdrawn(Word):
    """An open interrupt accepts no answer any more. Its task runs again and may ask again, under another id."""

    id: str
    """Id of the interrupt."""
    reason: str
    """Why:

    - `stale`: the state was edited, and then the thread was retried;
    - `cancelled`: the thread was cancelled, and then retried;
    - `thread`: the task waited for a child thread, and the thread was retried or forked;
    - `reworded`: the node ran again, and asked with another payload or for another type.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptExpired(Word):
    """An interrupt was not answered in time, and its thread was retried. Its task runs again and may ask again."""

    id: str
    """Id of the interrupt."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InterruptRaised(Word):
    """A task paused and asked for an answer from outside."""

    id: str
    """Id of the interrupt, which an answer names."""
    task: str
    """Id of the task."""
    node: str
    """Name of the task's node."""
    payload: Any
    """The request of the task."""
    key: str = ""
    """Key of the question inside its task: from the node's `key=`, or derived, such as an ordinal."""
    answer_type: Any = None
    """The type that the answer must have, as plain data; None if any answer will do."""
    expires_at: float | None = None
    """Seconds since the epoch at which it answers itself, and after which no answer is accepted; None for no limit."""
    usage: Usage | None = None
    """Usage of the task's model calls so far; None if it made none."""
    kind: str = "question"
    """What asks, and who answers it: one of `graphrt.runtime.InterruptKind`."""
    version: int = 1
    """How often the task has asked this. Above 1, *key* and *id* end with a colon and this number."""
    stale: bool = False
    """Whether the state was edited since the task asked; set when the question is staged again."""
    default: Any = None
    """The answer that it gives itself at *expires_at*, if *has_default*; else None."""
    has_default: bool = False
    """Whether it has a default. Without one, the node gets a `QuestionExpiredError`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TaskRetried(Word):
    """An attempt failed, and the task's retry policy allowed another attempt after *delay_s* seconds."""

    task: str
    """Id of the task."""
    node: str
    """Name of the task's node."""
    attempt: int
    """Number of the attempt that failed, from 1."""
    delay_s: float
    """Seconds until the next attempt."""
    error: str
    """Name of the error's class."""
    message: str
    """First line of the error's text."""
    usage: Usage | None = None
    """Usage of the task's model calls so far; None if it made none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EffectStarted(Word):
    """A `ctx.effect` of the kind `once` is about to run. Without an `EffectRecorded` its outcome is unknown."""

    task: str
    """Id of the task."""
    key: str
    """Key of the effect inside its task."""
    starts: int = 1
    """How often it was started: once more for each answer "run" to the question about its outcome."""
    answers: int = 0
    """Answers that its task had received by then."""
    arguments: Any = None
    """As `EffectRecorded.arguments`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemoryWritten(Word):
    """A task wrote to the memory, or deleted from it. The commit of its superstep makes the change in the store."""

    task: str
    """Id of the task."""
    namespace: str
    """Namespace of the item, without the tenant."""
    key: str
    """Key of the item in its namespace."""
    value: Any = None
    """Its value; None if it was deleted."""
    deleted: bool = False
    expires_s: float | None = None
    """Seconds after the commit at which it expires; None if *expires_at* is set, or if it does not expire."""
    expires_at: float | None = None
    """The time of expiry, in seconds since the epoch."""
    embedded: Any = None
    """Made by the runtime's `embed=`: `text`, and its `vector` as bytes. None without an embedding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EffectRecorded(Word):
    """A `ctx.effect` ran. If its task runs again, the task gets *result* and the effect does not run."""

    task: str
    """Id of the task."""
    key: str
    """Key of the effect inside its task."""
    result: Any
    answers: int = 0
    """Answers that its task had received by then."""
    arguments: Any = None
    """Its arguments, which a repeated call is compared with: the text of a JSON array with one item per argument. A
    small plain argument is stored as it is; for others the item has `digest` and `shown`, or `left_out` if it is not
    stored. None for a call without arguments or with a `key=`, and for agents' tools, whose keys contain a digest."""
    memory: tuple[MemoryWritten, ...] = ()
    """The items that it wrote to the memory, in order. A task that gets the *result* writes the same again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TaskSucceeded(Word):
    """A task finished, and its update is part of the superstep's fold."""

    task: str
    """Id of the task."""
    node: str
    """Name of the task's node."""
    updates: tuple[Mapping[str, Any], ...] = ()
    """The validated updates, without untracked fields: 0 or 1, more if the node returned a list; for a nested graph one
    per commit of its own.

    In a graph with a reducer of the whole state, the node's result is the only value, under the key `*`. The input of a
    finished thread and an edit are stored in the same way.
    """
    goto: tuple[str, ...] | None = None
    """Targets of the task's Command, in order; None if the edges of its node apply."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the targets that are Sends, by their position in *goto*."""
    usage: Usage | None = None
    """Usage of the task's model calls; None if it made none."""
    edited: bool = False
    """Whether `update(as_node=)` marked the task as finished. If so, the `interrupt_after` of its node is skipped."""
    above: bool = False
    """Whether *goto* names nodes of the graph that encloses the task's nested graph, which then ends."""

    @property
    def update(self) -> Mapping[str, Any] | None:
        """The single update of an ordinary task; None if it made none, or several."""
        return self.updates[0] if len(self.updates) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TaskFailed(Word):
    """A task failed after its retries."""

    task: str
    """Id of the task."""
    node: str
    """Name of the task's node."""
    error: str
    """Name of the error's class."""
    message: str
    """First line of the error's text."""
    handler: str | None
    """Name of the `on_error` node that takes over; None if there is none."""
    exception: BaseException | None = None
    """The exception of the node, which the handler gets as `ctx.error`."""
    usage: Usage | None = None
    """Usage of the task's model calls; None if it made none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OutcomeDropped(Word):
    """An abandoned attempt ended too late, and its outcome was dropped."""

    task: str
    """Id of the task."""
    node: str
    """Name of the task's node."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NodeFatigued(Word):
    """A node was due more often than its `max_visits` allows, and its `on_fatigue` route was taken."""

    node: str
    """Name of the node."""
    visits: int
    """Visits of the node in this run."""
    route: str
    """Name of the node that the route leads to, or `END`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SuperstepCommitted(Word):
    """The updates of a superstep were folded, its routers were called, and the next tasks became due."""

    superstep: int
    """Number of the superstep, which counts per thread."""
    wrote: tuple[str, ...]
    """Fields that the superstep wrote, in schema order."""
    next: tuple[str, ...]
    """Nodes of the next tasks, in task order. A node appears once for each of its Sends."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the next tasks that are Sends, by their position in *next*."""
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    """Errors that next tasks handle as `on_error` nodes, by their position in *next*."""
    joins: tuple[JoinStanding, ...] = ()
    """Joins whose open generation changed."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    """The failed tasks behind *errors*, by the same positions; in task order if the error is a group."""
    after: tuple[str, ...] = ()
    """Tasks with `interrupt_after`, at which the run pauses.

    Routers and joins are evaluated once all of them are answered (`TasksRouted` with the reason `answered`). Until then
    *next* and *joins* are empty.
    """
    waits: int = 0
    """Number of nodes at the end of *next* that are deferred: they start once no other task is due."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SuperstepAbandoned(Word):
    """A run on a new input abandoned the unfinished work of its thread (R10). A `RunStarted` with the input follows."""

    superstep: int
    """Number of the abandoned superstep, which is not used again; it was open if *tasks* is not empty, else due. If
    nothing was due, the number of the last superstep."""
    tasks: tuple[str, ...] = ()
    """Ids of the tasks of the open superstep, in task order."""
    finished: tuple[str, ...] = ()
    """Ids of those tasks whose outcomes were stored but are not folded."""
    interrupts: tuple[str, ...] = ()
    """Ids of the interrupts that were open."""
    effects: tuple[str, ...] = ()
    """Effects of the kind `once` that were started and whose outcome is unknown, each as `task#key`."""
    next: tuple[str, ...] = ()
    """Nodes that were due, if no superstep was open, and those that waited."""
    usage: Usage | None = None
    """Usage of the model calls of the abandoned tasks; None if they made none."""
    threads: tuple[str, ...] = ()
    """Ids of the child threads, started by `ctx.start`, that are cancelled with it."""
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Messages of the turn that was given up, by the field that they are folded into: what agents had said and done,
    and the text that stopped replies had streamed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunInterrupted(Word):
    """The run paused until its interrupts are answered."""

    interrupts: tuple[str, ...]
    """Ids of the open interrupts."""
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """CRC-32 checksums of the fields that user-defined reducers fold, by name; `replay` compares them. Empty without a
    thread."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunCompleted(Word):
    """The run ended because nothing was due any more."""

    steps: int
    """Supersteps of the run."""
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of fields; see `RunInterrupted.folded`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunFailed(Word):
    """The run stopped with an error. The thread can be retried."""

    error: str
    """Name of the error's class."""
    message: str
    """First line of the error's text."""
    node: str | None
    """Name of the node that the error is about; None if it concerns no single node."""
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of fields; see `RunInterrupted.folded`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunHandedOver(Word):
    """The run ended with work left and released its thread, so that another process may continue at once (R20)."""

    reason: str
    """Why: a phrase such as `the worker shuts down`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunCancelled(Word):
    """The run was cancelled from outside. The thread can be retried."""

    reason: str
    """Why: a phrase such as `cancel() was called`, or the class of the exception that ended the run."""
    folded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Checksums of fields; see `RunInterrupted.folded`."""
    threads: tuple[str, ...] = ()
    """Ids of the child threads, started by `ctx.start`, that are cancelled with it."""
