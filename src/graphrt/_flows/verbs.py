"""The interface for a distributed engine: `drive` decides and never waits, and the caller runs the nodes.

In a single process the run loop (`run`) does both, with the same decisions from `next_act`. On a distributed engine,
driving and running a node would be messages that are delivered at least once and in any order. So both are idempotent:
additional calls of `drive`, unless it raised, and repeated reports of an outcome change nothing. The laws in
`tests/laws` drive random graphs this way and compare the journals. Nothing else calls `drive`.

The caller of `drive` runs the tasks that it returns, reports their outcomes to the engine, and calls it again. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import NamedTuple

from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.failures import failure
from graphrt._engine.task import DUE, FAILED, PAUSED, RUNNING, Task
from graphrt._flows.run import COMPLETED, INTERRUPTED, Act, next_act


class Decision(NamedTuple):
    """Result of `drive`: the status of the run, and the tasks to dispatch."""

    status: str
    """`running`, `completed` or `interrupted`."""
    tasks: tuple[Task, ...] = ()
    """Tasks to dispatch now, in task order; empty while dispatched tasks have not been reported."""


def drive(engine: Engine) -> Decision:
    """Commit a superstep whose tasks have ended, open the next one, and return the tasks to dispatch.

    Level-triggered: the decision depends only on the engine's state, not on the events that led to it. It raises at the
    end of a failed run; another call would log and raise the same failure again.

    Raises:
        GraphrtError: A task failed for good, a limit is reached, or the superstep cannot be committed.
    """
    while True:
        if engine.unrouted:  # committed by an earlier call: its routers wait for the answer to an `interrupt_after`
            if not _routed(engine):
                return Decision(INTERRUPTED)
            continue
        if not engine.tasks:
            if not engine.begin():
                return Decision(COMPLETED)
            engine.open_superstep()
        match next_act(engine):
            case Act.FAIL:
                emit_events.failures(engine)  # logs the outcomes of failed tasks
                raise failure(engine, next(task for task in engine.tasks if task.status == FAILED))
            case Act.DISPATCH:
                due = tuple(task for task in engine.tasks if task.status == DUE)
                for task in due:  # marked as running, so that a repeated call does not dispatch them again
                    engine.snapshot_for(task)  # the view of the state that its node gets
                    task.status = RUNNING
                return Decision("running", due)
            case Act.WAIT:
                return Decision("running")
            case Act.PAUSE:
                _log_questions(engine)
                return Decision(INTERRUPTED)
            case Act.COMMIT:
                engine.commit()


def _log_questions(engine: Engine) -> None:
    """Log the open questions of paused tasks as events, unless already logged."""
    for task in engine.tasks:
        if task.status == PAUSED:
            emit_events.raised(engine, task)


def _routed(engine: Engine) -> bool:
    """Call the routers that wait for the answer to an `interrupt_after`. Returns False if it is not answered."""
    if engine.open_interrupts():
        emit_events.raised_after(engine)
        return False
    engine.route()
    return True
