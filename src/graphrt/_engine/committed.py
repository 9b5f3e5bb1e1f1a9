"""`Committed`: what one commit did to the state, for whoever reads the run.

A commit makes one value, and only if the run is read. The run loop yields it once the commit is durable. Streams and
steps are projections of it, which their readers make (`_runs.stream_items`, `_engine.steps`). Tasks that failed or wait
for an answer keep their superstep from committing; `Uncommitted` shows them.

The engine has the value until it is shown (`RunState.committed`). Undo records are kept only if steps are read, since
nothing else can ask for a state of the past. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from graphrt._engine.fold import Undo, shown
from graphrt._engine.task import Task
from graphrt._plan.copying import own

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


@final
class Committed:
    """What one commit did. Read it before the flow goes on: it has no copy of the state.

    A plain class and no tuple with names, which takes twice as long to make.
    """

    __slots__ = ("_engine", "tasks", "undo")

    def __init__(self, engine: RunState, tasks: Sequence[Task], undo: Sequence[Undo]) -> None:
        self._engine = engine
        self.tasks: Sequence[Task] = tasks
        """The tasks of the superstep, in task order, with what they wrote."""
        self.undo: Sequence[Undo] = undo
        """Previous values of the fields that each task wrote, in task order; empty if undo records are not kept."""

    def update(self, task: Task) -> Any:
        """Return what *task* wrote, None if that is nothing. A copy."""
        schema, updates = self._engine.plan.update, task.updates
        if len(updates) == 1 and schema.whole is None:  # the usual case, in which there is nothing to combine
            return own(updates[0])
        return own(shown(schema, updates))

    def state(self) -> Any:
        """Return the whole state after the commit. A copy, which costs its size."""
        return self._engine.make_view(own(self._engine.values))


@final
class Uncommitted:
    """Tasks of a superstep that cannot commit, because they failed or wait for an answer. They wrote nothing."""

    __slots__ = ("tasks", "undo")

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks: Sequence[Task] = tasks
        """1 or more tasks, in task order."""
        self.undo: Sequence[Undo] = [{}] * len(tasks)
        for task in tasks:
            # The reader keeps the task. A view of the state on it would count as another owner of the lists in it, and
            # only a list with one owner is extended in place (R15).
            task.state = None
