"""Run one task of an open superstep, with its retries; for the run loop, and for workers that run single tasks."""

from __future__ import annotations

from types import CoroutineType

from graphrt._engine.engine import Engine
from graphrt._engine.task import DUE, STOPPED, Task
from graphrt._flows.deadlines import is_cut, set_timeout, too_late
from graphrt._flows.effects import NOW, TIME, Await, Control, Flow, Sleep, Stage
from graphrt._flows.live import reported
from graphrt._flows.mail import standing
from graphrt.commands import Interrupt


def one(engine: Engine, task: Task, control: Control, deadline_s: float | None) -> Flow:
    """Run one task, with its retries, in the caller."""
    while task.status == DUE and control.halt is None:
        wait_s = task.extra.delay_s if task.extra is not None else 0.0
        if wait_s > 0.0:
            task.more().delay_s = 0.0  # waited here, and not once more by the driver
            if deadline_s is not None:
                wait_s = min(wait_s, max(0.0, deadline_s - (yield NOW)))
            yield Sleep(wait_s)
            if control.halt is not None:
                return
        yield from set_timeout(engine, task, deadline_s)
        engine.snapshot_for(task)
        reply = yield task
        if reply.__class__ is CoroutineType:
            reply = yield Await(task, reply)
        if reply.__class__ is Interrupt:
            yield from date_of(reply)
        if is_cut(engine, task, reply):
            engine.report(task, task.execution, STOPPED)
            if control.live:
                yield from reported(task, STOPPED)
            raise too_late(engine)
        engine.report(task, task.execution, reply)
        if control.live:
            yield from reported(task, reply)
        if reply is STOPPED:
            return
        if task.status == DUE:
            yield from stage(engine)


def date_of(question: Interrupt) -> Flow:
    """Set when a returned Interrupt expires, by the runtime's clock."""
    if question.expires_s is not None:
        question.expires_at = (yield TIME) + question.expires_s


def stage(engine: Engine) -> Flow:
    """Stage what is new about tasks, while others of the superstep still run (R9)."""
    if engine.dirty:
        yield Stage(standing(engine))
