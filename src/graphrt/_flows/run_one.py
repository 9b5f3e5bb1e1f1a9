"""Run one task of an open superstep, with its retries; for the run loop, and for workers that run single tasks.

Outcomes are staged before their superstep commits, so that a crash loses no finished task (R9). For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from operator import attrgetter
from types import CoroutineType
from typing import Any, Final

from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.outcome import report
from graphrt._engine.task import DUE, STOPPED, Task, TimedOut
from graphrt._flows.deadlines import Ends, cut_by, may_start, out_of_time, too_late
from graphrt._flows.effects import NOW, TIME, Await, Control, Flow, Sleep, Stage
from graphrt._flows.live import reported
from graphrt.commands import Interrupt

PREPARED: Final = frozenset({CoroutineType, Interrupt, TimedOut})
"""Classes of replies that need a further effect or check before they are reported."""


def one(engine: Engine, task: Task, control: Control, ends: Ends) -> Flow:
    """Run the only due *task* of the open superstep, including retries, until it has an outcome or the run halts.

    Args:
        task: A due task, which is yielded to the driver as an effect. The answer is the *reply*: the node's return
            value, a value such as `Failed`, or `STOPPED` if the attempt was cancelled.
        control: Control object of the run: `halt` is the request to end it now, `live` says whether a stream shows
            attempts.
        ends: When attempts are cut off, besides their own timeouts.

    Raises:
        DeadlineError: The deadline of the run is over; the task is due again.
    """
    while task.status == DUE and control.halt is None:
        # Tasks that may have to wait or be cut off: because of a retry, or of a time limit of the run, superstep or
        # node.
        timed = task.extra is not None or engine.timed or task.node.timed
        if timed and not (yield from _may_start(engine, task, control, ends)):
            return
        if task.state is None:
            engine.snapshot_for(task)  # creates the view of the state for its node
        reply = yield task
        if reply.__class__ in PREPARED:
            reply = yield from settled(engine, task, reply, control, ends)
        report(engine, task, task.execution, reply)
        if control.live:
            yield from reported(task, reply)
        if reply is STOPPED:  # the run halts, and the task stays due
            return
        if task.status == DUE:  # the retry policy allows another attempt: stage the failed one first
            yield from stage(engine)


def settled(engine: Engine, task: Task, reply: Any, control: Control, ends: Ends) -> Flow:
    """Prepare *reply* of the only task, of one of the classes `PREPARED`, for its report.

    Raises:
        DeadlineError: The run's deadline cut the attempt off; the task is due again.
    """
    reply, late = yield from prepared(engine, task, reply, ends)
    if late:
        report(engine, task, task.execution, STOPPED)
        if control.live:
            yield from reported(task, STOPPED)
        raise too_late(engine)
    return reply


def prepared(engine: Engine, task: Task, reply: Any, ends: Ends) -> Flow:
    """Prepare a reply of one of the classes `PREPARED` for its report.

    Returns it, and whether the run is over. The run is over if its deadline cut the attempt off. The node did not fail
    then, and the reply is `STOPPED`.
    """
    if reply.__class__ is CoroutineType:  # of a plain function that returned one
        reply = yield Await(task, reply)
    if reply.__class__ is Interrupt:
        yield from date_of(reply)
    cut = cut_by(reply, ends)
    if cut == "run":
        return STOPPED, True
    return (out_of_time(engine) if cut == "step" else reply), False


def _may_start(engine: Engine, task: Task, control: Control, ends: Ends) -> Flow:
    """Wait for the backoff of *task*, and set its timeout. Returns whether its next attempt may start."""
    wait_s = task.extra.delay_s if task.extra is not None else 0.0
    if wait_s > 0.0:
        task.more().delay_s = 0.0  # the backoff is awaited here, and not again by the driver
        if ends.first is not None:
            wait_s = min(wait_s, max(0.0, ends.first - (yield NOW)))
        yield Sleep(wait_s)
        if control.halt is not None:
            return False
    if (yield from may_start(engine, task, ends)):
        return True
    if control.live:
        yield from reported(task, out_of_time(engine))
    return False


def date_of(question: Interrupt) -> Flow:
    """Set the expiry of a returned Interrupt, by the runtime's clock, before it is reported to the engine.

    The engine reads no clock. A node that returns an Interrupt gives the time as seconds from now (`expires_s`).
    """
    if question.expires_s is not None:
        question.expires_at = (yield TIME) + question.expires_s


def standing(engine: Engine) -> list[tuple[str, list[emit_events.Logged]]]:
    """Return the events to stage for all tasks with unstaged changes, and mark the changes as staged.

    The store keeps staged events next to the journal until the open superstep commits. They contain all known data of
    their task, and replace its earlier staged data.

    Returns:
        Pairs of a task id and the task's events, 0..n in task order.
    """
    # `dirty` has the tasks with unstaged changes; it is empty in a run that stages nothing.
    tasks = sorted(engine.dirty, key=attrgetter("index"))  # task order, not completion order (R2)
    engine.dirty.clear()
    return [(task.id, emit_events.standing(engine, task)) for task in tasks]


def stage(engine: Engine) -> Flow:
    """Stage the new data of tasks of the open superstep, before others end or the next attempt begins (R9)."""
    if engine.dirty:
        yield Stage(standing(engine))
