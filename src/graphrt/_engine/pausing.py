"""Pausing and going on (rule R10): questions that are asked ahead of a task, answers, questions that expire."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from graphrt._engine import outcome
from graphrt._engine.task import DONE, PAUSED, OpenInterrupt, Task
from graphrt._plan.fields import own

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def answer(engine: Engine, answers: Mapping[str, Any]) -> None:
    """Take answers by interrupt id; tasks whose questions are all answered are due again."""
    for task in engine.tasks:
        if task.status != PAUSED or task.extra is None:
            continue
        for question in task.extra.interrupts:
            if question.id in answers and not question.answered:
                question.answered, question.answer = True, own(answers[question.id])
        unpause(task)


def expire(engine: Engine, ids: Collection[str]) -> None:
    """Drop questions that no answer is taken for any more; their tasks run again."""
    for task in engine.tasks:
        extra = task.extra
        if task.status != PAUSED or extra is None or not any(q.id in ids for q in extra.interrupts):
            continue
        extra.interrupts = [q for q in extra.interrupts if q.id not in ids]
        if extra.child is not None:
            extra.child.expire(ids)
        if not task.open_interrupts():
            outcome.again(task)


def take_answers(engine: Engine) -> bool:
    """Let tasks go on whose questions were answered through the parent graph; True if there are any."""
    paused = [task for task in engine.tasks if task.status == PAUSED]
    for task in paused:
        unpause(task)
    return any(task.status != PAUSED for task in paused)


def pause_before(engine: Engine, task: Task) -> None:
    """Ask before *task* may start: the node has interrupt_before."""
    node = task.node.name
    question = OpenInterrupt(f"{engine.interrupt_prefix(task)}before", "before", node, {"before": node}, static=True)
    outcome.pause(engine, task, [question])


def unpause(task: Task) -> None:
    """Let a paused task go on, if all its questions are answered."""
    extra = task.more()
    if extra.child is not None:
        if extra.child.take_answers():
            extra.interrupts = [question for question in extra.interrupts if not question.answered]
            outcome.again(task)
    elif all(question.answered for question in extra.interrupts):
        if extra.interrupts[-1].key == "after" and extra.ended:  # else its outcome was only staged: it runs again
            task.status = DONE
        else:
            outcome.again(task)
