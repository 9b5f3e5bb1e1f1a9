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


@final
class Ended:
    """One task, as its superstep ended. A plain class and no tuple with names, which takes twice as long to make."""

    __slots__ = ("duration_s", "node", "task", "undo", "updates")

    def __init__(
        self, node: NodePlan, updates: tuple[dict[str, Any], ...], undo: Undo, duration_s: float, task: Task
    ) -> None:
        self.node: NodePlan = node
        self.updates: tuple[dict[str, Any], ...] = updates
        """0 or 1 validated updates; for a nested graph one for each of its commits."""
        self.undo: Undo = undo
        """Previous values of the fields that it wrote; empty if undo records are not kept."""
        self.duration_s: float = duration_s
        """Duration of the last attempt in seconds; 0.0 if it was not measured."""
        self.task: Task = task


@final
class Committed:
    """What one commit did. Read it before the flow goes on: it has no copy of the state."""

    __slots__ = ("_engine", "ended", "superstep")

    def __init__(self, engine: RunState, superstep: int, ended: Sequence[Ended]) -> None:
        self._engine = engine
        self.superstep: int = superstep
        """Number of the superstep in the thread, from 1."""
        self.ended: Sequence[Ended] = ended
        """The tasks of the superstep, in task order."""

    def update(self, task: Ended) -> Any:
        """Return what *task* wrote, None if that is nothing. A copy."""
        schema, updates = self._engine.plan.update, task.updates
        if len(updates) == 1 and schema.whole is None:  # the usual case, in which there is nothing to combine
            return own(updates[0])
        return own(shown(schema, updates))

    def state(self) -> Any:
        """Return the whole state after the commit. A copy, which costs its size."""
        return self._engine.make_view(own(self._engine.values))


class Uncommitted(NamedTuple):
    """Tasks of a superstep that cannot commit, because they failed or wait for an answer. They wrote nothing."""

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

    def record(self, task: Task, undo: Undo) -> None:
        """Add *task*, which was folded; *undo* has the previous values of the fields that it wrote."""
        self._superstep = task.superstep
        self._ended.append(Ended(task.node, task.updates, undo, task.duration_s, task))

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


def uncommitted(tasks: Sequence[Task]) -> Uncommitted:
    """Return *tasks* of an open superstep, 1 or more, as those because of which it cannot commit."""
    for task in tasks:
        # The reader keeps the task. A view of the state on it would count as another owner of the lists in it, and only
        # a list with one owner is extended in place (R15).
        task.state = None
    return Uncommitted(tasks[0].superstep, [Ended(one.node, one.updates, {}, one.duration_s, one) for one in tasks])
