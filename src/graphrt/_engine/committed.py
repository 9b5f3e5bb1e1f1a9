"""`Committed`: what one commit did to the state, for whoever reads the run.

A commit makes one value, and only if the run is read. The run loop yields it once the commit is durable. Streams and
steps are projections of it, which their readers make (`_runs.stream_items`, `_engine.steps`). Tasks that failed or wait
for an answer keep their superstep from committing; `Uncommitted` shows them.

A `CommitRecorder` is the observer of the engine that collects the ended tasks of a commit. Undo records are kept only
if steps are read, since nothing else can ask for a state of the past. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from graphrt._engine.fold import Undo, shown
from graphrt._engine.task import Task
from graphrt._plan.copying import own
from graphrt._plan.tables import NodePlan

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


class Ended(NamedTuple):
    """One task, as its superstep ended."""

    node: NodePlan
    updates: tuple[dict[str, Any], ...]
    """0 or 1 validated updates; for a nested graph one for each of its commits."""
    undo: Undo
    """Previous values of the fields that it wrote; empty if undo records are not kept."""
    duration_s: float
    """Duration of the last attempt in seconds; 0.0 if it was not measured."""
    task: Task | None
    """None for a plain task of the fast path: its object is reused, and all that it had is its update."""


class Committed(NamedTuple):
    """What one commit did. Read it before the flow goes on: it has no copy of the state."""

    engine: RunState
    superstep: int
    """Number of the superstep in the thread, from 1."""
    ended: Sequence[Ended]
    """The tasks of the superstep, in task order."""

    def update(self, task: Ended) -> Any:
        """Return what *task* wrote, None if that is nothing. A copy."""
        schema, updates = self.engine.plan.update, task.updates
        if len(updates) == 1 and schema.whole is None:  # the usual case, in which there is nothing to combine
            return own(updates[0])
        return own(shown(schema, updates))

    def state(self) -> Any:
        """Return the whole state after the commit. A copy, which costs its size."""
        return self.engine.make_view(own(self.engine.values))


class Uncommitted(NamedTuple):
    """Tasks of a superstep that cannot commit, because they failed or wait for an answer. They wrote nothing."""

    engine: RunState
    superstep: int
    ended: Sequence[Ended]


@final
class CommitRecorder:
    """Collects the tasks that ended with each commit of one engine.

    Args:
        undo: Whether undo records are kept, from which steps compute earlier states.
    """

    __slots__ = ("_ended", "_superstep", "undo")

    def __init__(self, *, undo: bool) -> None:
        self.undo: bool = undo
        self._ended: list[Ended] = []
        """The tasks of the last commit, until `take`."""
        self._superstep = 0

    def record(self, task: Task, undo: Undo, *, plain: bool = False) -> None:
        """Add *task*, which was folded.

        Args:
            undo: Previous values of the fields that it wrote.
            plain: Whether the task object will be reused, so that only its update may be kept.
        """
        self._superstep = task.superstep
        self._ended.append(Ended(task.node, task.updates, undo, task.duration_s, None if plain else task))

    def record_all(self, tasks: Sequence[Task], undo: Sequence[Undo]) -> None:
        """Add the tasks of a superstep; *undo* has one record for each, or none at all."""
        for at, task in enumerate(tasks):
            self.record(task, undo[at] if undo else {})

    def take(self, engine: RunState) -> Committed | None:
        """Return what the last commit of *engine* did; None if there was none since the last call."""
        if not self._ended:
            return None
        ended, self._ended = self._ended, []
        return Committed(engine, self._superstep, ended)


def uncommitted(engine: RunState, tasks: Sequence[Task]) -> Uncommitted:
    """Return *tasks* of the open superstep of *engine*, 1 or more, which cannot commit."""
    for task in tasks:
        # The reader keeps the task. A view of the state on it would count as another owner of the lists in it, and only
        # a list with one owner is extended in place (R15).
        task.state = None
    return Uncommitted(
        engine, tasks[0].superstep, [Ended(one.node, one.updates, {}, one.duration_s, one) for one in tasks]
    )
