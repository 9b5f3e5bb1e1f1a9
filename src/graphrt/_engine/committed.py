"""`Committed`: the changes of one commit, for readers of the run.

A commit creates one only if the run has readers. The run loop yields it once the commit is durable. Streams and steps
are projections of it, computed by their readers (`_runs.stream_items`, `_engine.steps`). Tasks that failed or wait for
an answer keep their superstep from committing; `Uncommitted` shows them.

The engine has the value until it is shown (`RunState.committed`). Undo records are kept only if steps are read: no
other reader needs a past state. For the terms, see docs/glossary.md.
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
    """The effects of one commit. Read it before the flow continues: it has no copy of the state.

    A plain class, because a named tuple takes twice as long to create.
    """

    __slots__ = ("_engine", "tasks", "undo")

    def __init__(self, engine: RunState, tasks: Sequence[Task], undo: Sequence[Undo]) -> None:
        self._engine = engine
        self.tasks: Sequence[Task] = tasks
        """The tasks of the superstep, in task order, with their writes."""
        self.undo: Sequence[Undo] = undo
        """Previous values of the fields that each task wrote, in task order; empty if undo records are not kept."""

    def update(self, task: Task) -> Any:
        """Return a copy of the writes of *task*; None if there are none."""
        schema, updates = self._engine.plan.update, task.updates
        if len(updates) == 1 and schema.whole is None:  # the usual case, in which there is nothing to combine
            return own(updates[0])
        return own(shown(schema, updates))

    def state(self) -> Any:
        """Return a copy of the whole state after the commit. Costs time in proportion to its size."""
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
