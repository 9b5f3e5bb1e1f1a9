"""The two verbs that make a run portable: `drive` decides and never waits, `invoke` runs one node (a driver's part).

In one process the run flow does both. On a distributed engine they are messages, delivered at least once and in any
order: `drive` may be called too often, and the outcome of a task may be reported twice; both change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.failures import failure
from graphrt._engine.task import DUE, FAILED, PAUSED, RUNNING, Task
from graphrt._flows.run import COMPLETED, INTERRUPTED


class Decision(NamedTuple):
    """What follows from the state of a run."""

    status: str
    """`running`, `completed` or `interrupted`."""
    tasks: tuple[Task, ...] = ()
    """Tasks to dispatch now, in task order; none while dispatched ones are out."""


def drive(engine: Engine) -> Decision:
    """Commit what has ended, and say what is to be dispatched. Level-triggered: it looks at the state alone.

    Raises:
        GraphrtError: A task failed for good, a limit is reached, a commit is refused.
    """
    while True:
        if not engine.tasks and not engine.begin() and not engine.quiesce():
            return Decision(COMPLETED)
        if not engine.tasks:
            continue
        if engine.held:
            if not _routed(engine):
                return Decision(INTERRUPTED)
            continue
        statuses = {task.status for task in engine.tasks}
        if FAILED in statuses:
            emit_events.failures(engine)
            raise failure(engine, next(task for task in engine.tasks if task.status == FAILED))
        if DUE in statuses:
            due = tuple(task for task in engine.tasks if task.status == DUE)
            for task in due:
                engine.snapshot_for(task)
                task.status = RUNNING
            return Decision("running", due)
        if RUNNING in statuses:
            return Decision("running")
        if PAUSED in statuses:
            _tell_questions(engine)
            return Decision(INTERRUPTED)
        engine.commit()


def _tell_questions(engine: Engine) -> None:
    for task in engine.tasks:
        if task.status == PAUSED:
            emit_events.raised(engine, task)


def _routed(engine: Engine) -> bool:
    """Ask where a superstep leads that was held; False if a person must answer first."""
    if engine.open_interrupts():
        emit_events.raised_after(engine)
        return False
    engine.route()
    return True
