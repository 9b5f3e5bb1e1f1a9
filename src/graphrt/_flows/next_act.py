"""What an open superstep needs next, decided from its state alone. The run loop and the verb `drive` both ask here.

A superstep runs all due tasks on one snapshot of the state, and then commits their updates together. It is open from
the moment its tasks exist until its routers have chosen the next tasks.
"""

from __future__ import annotations

from enum import Enum, auto

from graphrt._engine.engine import Engine
from graphrt._engine.task import DUE, FAILED, PAUSED, RUNNING

__all__ = ["Act", "next_act"]


class Act(Enum):
    """What to do with the open superstep."""

    ROUTE = auto()
    """It is folded, but held by the question of an `interrupt_after`: route it, once the question is answered."""
    FAIL = auto()
    """A task failed for good, without a retry or an `on_error` node: raise its error."""
    DISPATCH = auto()
    """Tasks are due: start them."""
    WAIT = auto()
    """Tasks run: wait for their outcomes. For `drive` alone: the run loop asks when its tasks have ended."""
    PAUSE = auto()
    """A question must be answered before it can go on: by a person, a timer, a signal, a child thread or a worker."""
    COMMIT = auto()
    """All tasks have ended: fold their updates, and route."""


def next_act(engine: Engine) -> Act:
    """Return what the open superstep of *engine* needs; it has one task or more.

    Level-triggered: the tasks' statuses decide, and not the order of the events that led to them. A failure comes
    first, since nothing of its superstep may be started any more (R9). A question (PAUSED) comes last, since the other
    tasks can end while it waits for an answer. The superstep commits only as a whole.
    """
    if engine.held:  # first: its tasks have ended, and their statuses mean nothing any more
        return Act.ROUTE
    statuses = {task.status for task in engine.tasks}
    if FAILED in statuses:
        return Act.FAIL
    if DUE in statuses:
        return Act.DISPATCH
    if RUNNING in statuses:
        return Act.WAIT
    return Act.PAUSE if PAUSED in statuses else Act.COMMIT
