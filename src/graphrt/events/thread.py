"""Events of a thread outside its runs: routing, edits, forks, migrations, child threads; and the state in snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrt._usage.amounts import Amounts
from graphrt._usage.usage import Usage
from graphrt.events._word import Word
from graphrt.events.parts import HandledTask, JoinStanding
from graphrt.events.run import TaskFailed, TaskSucceeded

__all__ = [
    "HistoryPruned",
    "LetterDropped",
    "SignalReceived",
    "SignalTaken",
    "StateSaved",
    "TasksRouted",
    "ThreadCopied",
    "ThreadDeleted",
    "ThreadForked",
    "ThreadLabelled",
    "ThreadMigrated",
    "ThreadStarted",
    "ThreadUpdated",
    "ValuesErased",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TasksRouted(Word):
    """The next tasks became due without a commit."""

    reason: str
    """Why:

    - `entry`: START's router chose;
    - `fatigue`: a node had too many visits;
    - `starved`: a starved join fired;
    - `answered`: an `interrupt_after` was answered, and the routers and joins of its superstep were evaluated.
    """
    next: tuple[str, ...]
    """Nodes that are due, in task order."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the due tasks that are Sends, by their position in *next*."""
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    """Errors that due tasks handle as `on_error` nodes, by their position in *next*."""
    joins: tuple[JoinStanding, ...] = ()
    """Joins whose open generation changed."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    """The failed tasks behind *errors*, by the same positions; in task order if the error is a group."""
    waits: int = 0
    """Number of nodes at the end of *next* that are deferred: they start when no other task is due."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadUpdated(Word):
    """`update()` folded *values* into the state from outside."""

    values: Mapping[str, Any]
    """The validated values, without untracked fields."""
    as_node: str | None
    """The node that counts as finished, and whose edges chose the due nodes; None if there is none."""
    next: tuple[str, ...] | None = None
    """Nodes that are due after the edit, in task order; None if that did not change."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the due tasks that are Sends, by their position in *next*."""
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    """Errors that due tasks handle as `on_error` nodes, by their position in *next*."""
    joins: tuple[JoinStanding, ...] = ()
    """Joins whose open generation changed."""
    open: bool = False
    """Whether a superstep was open. If so, *next* becomes due with its commit."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    """The failed tasks behind *errors*, by the same positions; in task order if the error is a group."""
    goto: tuple[str, ...] | None = None
    """Targets of *as_node* in place of its edges; None if its edges apply."""
    fresh: bool = False
    """Whether the edit created the thread: *values* are its whole state."""
    user: str = ""
    """Who edited it, according to the runtime's audit log; empty if unknown."""
    redaction: str = ""
    """Redaction rules in force, and a digest of them; empty without any."""
    waits: int = 0
    """Number of nodes at the end of *next* that are deferred: they start when no other task is due."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StateSaved(Word):
    """The result of folding all entries before: stored as a snapshot, and inside `ThreadForked`."""

    values: Mapping[str, Any]
    """The state, without untracked fields."""
    superstep: int
    """Number of the last superstep; an open one does not count."""
    steps: int
    """Supersteps of the run so far; an open one does not count."""
    visits: Mapping[str, int]
    """Visits in this run, by node. Nodes without a visit are left out."""
    next: tuple[str, ...]
    """Nodes that are due, in task order."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the due tasks that are Sends, by their position in *next*."""
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    """Errors that due tasks handle as `on_error` nodes, by their position in *next*."""
    joins: tuple[JoinStanding, ...] = ()
    """Joins whose open generation has begun."""
    entering: bool = False
    """Whether START's router is still to be called."""
    usage: Usage | None = None
    """Usage of the model calls of the run's committed tasks; None if there were none."""
    status: str = "running"
    """Status of the thread."""
    run: str = ""
    """Id of the last run."""
    seed: int | None = None
    """Seed of the last run."""
    cause: int = 0
    """`seq` of the entry that the next one names as its cause."""
    fingerprint: str = ""
    """Fingerprint of the thread's graph."""
    names: tuple[str, ...] = ()
    """Names that are numbered so far, in the order of their numbers."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """The chain so far, if the journal is chained: rolling digests of the fields, in hexadecimal."""
    granted: Amounts | None = None
    """Amounts by which people raised the run's budget beyond its limits."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    """The failed tasks behind *errors*, by the same positions; in task order if the error is a group."""
    held: tuple[TaskSucceeded | TaskFailed, ...] = ()
    """Outcomes of the last superstep in task order, if an `interrupt_after` keeps its routers from being called."""
    after: tuple[str, ...] = ()
    """Tasks among them whose `interrupt_after` is not answered yet."""
    waits: int = 0
    """Number of nodes at the end of *next* that wait: they are deferred, or an edit made them due while a superstep was
    open, and they start after it."""
    signals: tuple[tuple[str, str, Any], ...] = ()
    """Signals that no node has taken yet, in order of arrival: id, name and value of each."""
    children: tuple[str, ...] = ()
    """Ids of the child threads that are cancelled with this one, in start order. Threads known to have ended are left
    out."""
    parent: str | None = None
    """Id of the thread whose task started this one by `ctx.start`; None for any other."""
    began: Mapping[str, str] = field(default_factory=dict[str, str])
    """Digests of the input that began the last run; see `RunStarted.digests`."""
    args: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Arguments of the Sends that started the tasks of *held*, by their position there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadForked(Word):
    """The thread began as a fork of *source* after its entry *at*."""

    source: str
    """Id of the thread that was forked, with its tenant."""
    at: int
    """`seq` of the last entry that the fork is based on."""
    state: StateSaved
    """The initial content of the thread."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadCopied(Word):
    """The thread is a copy: the entries before this one are those of *source*. It is the first entry of its own."""

    source: str
    """Id of the thread that was copied, exported or restored, with its tenant."""
    thread: str
    """Id of the copy, with its tenant."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadLabelled(Word):
    """Title, tags or priority of the thread were set, changed or removed. The fields are the complete new values."""

    title: str | None
    """The title; None if it has none."""
    tags: tuple[str, ...]
    """All tags, sorted."""
    user: str = ""
    """Who labelled it, according to the runtime's audit log; empty if unknown."""
    priority: int = 0
    """Workers drive due threads with a higher number first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadMigrated(Word):
    """The thread continues with a changed graph."""

    source: str
    """Fingerprint of the older graph."""
    target: str
    """Fingerprint of the current graph."""
    why: str
    """Why that is allowed: `compatible: ...`, the name of the migration, or `allowed, though ...` (`Runtime.adopt`)."""
    values: Mapping[str, Any] | None = None
    """All values after the migration, without untracked fields; None if they did not change."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HistoryPruned(Word):
    """Entries up to *upto* are removed; a snapshot holds their fold.

    It is written before they are removed: if pruning was interrupted, some of them may still exist.
    """

    upto: int
    """`seq` of the last removed entry."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadDeleted(Word):
    """The thread was deleted from its store. It is the last entry in the file of its audit log, and in no store."""

    user: str = ""
    """Who deleted it, according to the runtime's audit log; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ValuesErased(Word):
    """Values of earlier entries were erased. They read as `Erased()`, and the thread no longer contains the originals.

    The event is written in the transaction that erases them.
    """

    by: str = ""
    """Who erased them; empty if not given."""
    reason: str = ""
    """Reason given by the person who erased them; empty if not given."""
    records: int
    """Number of records from which values were erased."""
    lines: int
    """Number of values erased; each field write, answer or reply counts as one."""
    erased: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Replacements of these values in the log: maps the number of a record's last entry to the numbers of its erased
    lines. A missing line that no such entry names was removed by someone else."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SignalReceived(Word):
    """A signal arrived, and waits in the thread until a node takes it by `ctx.receive`."""

    id: str
    """Id of the signal, chosen by its sender or generated."""
    name: str
    """Name under which a node receives it."""
    value: Any = None
    user: str = ""
    """Who sent it, according to the audit log of the sender's runtime; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SignalTaken(Word):
    """A node took a signal, which no longer waits. The next entry answers the node's question."""

    id: str
    """Id of the signal."""
    interrupt: str
    """Id of the question that it answered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LetterDropped(Word):
    """Mail from another process had no effect, because it came too late or did not fit the thread."""

    id: str
    """Id of the letter."""
    what: str
    """The kind of its request: `cancel`, `answers`, `input` or `signal`."""
    reason: str
    """Why it changed nothing, as a phrase."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadStarted(Word):
    """A task starts a child thread by `ctx.start`.

    It is stored before the thread is created, so that a crash cannot leave a child that its parent does not know (R24).
    """

    task: str
    """Id of the task."""
    key: str
    """Name or ordinal of the child thread inside its task."""
    thread: str
    """Id of the child thread, derived from the ids of thread and task and from *key*."""
    graph: str
    """Name of the graph of the child thread."""
    detached: bool = False
    """Whether it continues when this thread is cancelled."""
    made: bool = False
    """Whether the child thread is known to exist. If not, the task creates it when it runs again."""
    arguments: Any = None
    """Name of the graph and input, as `EffectRecorded.arguments`; None for a child with a name."""
