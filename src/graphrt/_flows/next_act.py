"""What an open superstep needs next, decided from its state alone. The run loop and the verb `drive` both ask here."""

from __future__ import annotations

from enum import Enum, auto

from graphrt._engine.engine import Engine
from graphrt._engine.task import DUE, FAILED, PAUSED, RUNNING

__all__ = ["Act", "next_act"]


class Act(Enum):
    """What to do with the open superstep."""

    ROUTE = auto()
    """It is held by an `interrupt_after`: route it, once the question is answered."""
    FAIL = auto()
    """A task failed for good."""
    DISPATCH = auto()
    """Tasks are due."""
    WAIT = auto()
    """Tasks run."""
    PAUSE = auto()
    """A person must answer before it can go on."""
    COMMIT = auto()
    """All tasks have ended."""


def next_act(engine: Engine) -> Act:
    """Return what the open superstep of *engine* needs.

    Level-triggered: the tasks' statuses decide, and not the order of the events that led to them. A failure comes first,
    since nothing of its superstep may be started any more (R9); a question comes last, since its superstep commits only
    as a whole (R10).
    """
    if engine.held:
        return Act.ROUTE
    statuses = {task.status for task in engine.tasks}
    if FAILED in statuses:
        return Act.FAIL
    if DUE in statuses:
        return Act.DISPATCH
    if RUNNING in statuses:
        return Act.WAIT
    return Act.PAUSE if PAUSED in statuses else Act.COMMIT
