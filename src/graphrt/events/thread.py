"""What can be true of a thread besides its runs: what is due, edits from outside, forks, migrations, snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrt.events._word import Word
from graphrt.events.usage import Usage

if TYPE_CHECKING:
    from graphrt.events.run import TaskFailed, TaskSucceeded

__all__ = [
    "HandledTask",
    "HistoryPruned",
    "JoinStanding",
    "StateSaved",
    "TasksRouted",
    "ThreadForked",
    "ThreadMigrated",
    "ThreadUpdated",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JoinStanding(Word):
    """The open generation of a join."""

    node: str
    """The node that waits."""
    sources: tuple[str, ...]
    """The nodes that it waits for, sorted."""
    arrived: tuple[str, ...]
    fired: bool
    emptied: bool = False
    """A router returned an empty list where it could have led to a source, and none has arrived since."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HandledTask(Word):
    """A failed task that a next task handles, as the `on_error` node of its node."""

    task: str
    node: str
    arg: Any = None
    """The argument of the Send that started it; None if none did."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TasksRouted(Word):
    """The next tasks became due without a commit."""

    reason: str
    """`entry`: START's router chose; `fatigue`: a node had too many visits; `starved`: a starved join fired;
    `answered`: an `interrupt_after` was answered, and the routers and joins of its superstep were asked."""
    next: tuple[str, ...]
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    joins: tuple[JoinStanding, ...] = ()
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    """The tasks whose failures *errors* has, in the order of its groups."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadUpdated(Word):
    """`update()` folded *values* into the state from outside."""

    values: Mapping[str, Any]
    as_node: str | None
    """The node that was taken as finished; its edges chose what is due."""
    next: tuple[str, ...] | None = None
    """Nodes that are due after it; None if that did not change."""
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    joins: tuple[JoinStanding, ...] = ()
    open: bool = False
    """Whether a superstep was open: *next* is due with its commit."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    goto: tuple[str, ...] | None = None
    """Where *as_node* leads instead of its edges; None if its edges apply."""
    fresh: bool = False
    """Whether it made the thread: *values* are its whole state."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StateSaved(Word):
    """All that the fold of the entries before came to. Stored as a snapshot and inside `ThreadForked`."""

    values: Mapping[str, Any]
    """Without untracked fields."""
    superstep: int
    steps: int
    visits: Mapping[str, int]
    """Visits of this run by node; nodes that were not visited are left out."""
    next: tuple[str, ...]
    sends: Mapping[int, Any] = field(default_factory=dict[int, Any])
    errors: Mapping[int, BaseException] = field(default_factory=dict[int, BaseException])
    joins: tuple[JoinStanding, ...] = ()
    entering: bool = False
    """START's router is still to be asked."""
    usage: Usage | None = None
    status: str = "running"
    run: str = ""
    seed: int | None = None
    cause: int = 0
    fingerprint: str = ""
    names: tuple[str, ...] = ()
    """Names that were interned so far, in order."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Rolling digests of the fields, in hex, where the journal is chained."""
    granted: tuple[int, int, int] | None = None
    """Tokens, millionths of a dollar and calls that people allowed the run's budget beyond its limits."""
    handled: Mapping[int, tuple[HandledTask, ...]] = field(default_factory=dict[int, tuple[HandledTask, ...]])
    held: tuple[TaskSucceeded | TaskFailed, ...] = ()
    """Outcomes of the last superstep, in task order, where an `interrupt_after` keeps its routers from being asked."""
    after: tuple[str, ...] = ()
    """Those of its tasks whose `interrupt_after` is not answered yet."""
    waits: int = 0
    """Number of items at the end of *next* that an edit made due; they start after the open superstep."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadForked(Word):
    """The thread began as a fork of *source* after its entry *at*."""

    source: str
    at: int
    state: StateSaved


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ThreadMigrated(Word):
    """The thread went over to a changed graph."""

    source: str
    """Fingerprint of the graph that it had."""
    target: str
    why: str
    """Why that is allowed: `compatible: ...` or the name of the migration."""
    values: Mapping[str, Any] | None = None
    """All values after the migration; None if they stay."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HistoryPruned(Word):
    """Entries up to *upto* are removed; a snapshot holds what they came to.

    Written before they go: some may still be there if that was broken off.
    """

    upto: int
