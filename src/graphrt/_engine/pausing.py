"""Pausing and going on (rule R10): questions that are asked ahead of a task, answers, questions that expire."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from graphrt._engine import outcome
from graphrt._engine.task import DONE, DUE, PAUSED, OpenInterrupt, Task
from graphrt._plan.fields import own

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def answer(engine: Engine, answers: Mapping[str, Any]) -> None:
    """Take answers by interrupt id; tasks whose questions are all answered are due again."""
    for task in engine.tasks:
        if task.node.child is not None:
            around = engine.interrupt_prefix(task)
            inside = f"{around[:-1]}/"
            if mine := {id_: answer for id_, answer in answers.items() if id_.startswith((around, inside))}:
                task.more().foreseen.update(mine)
        extra = task.extra
        if extra is None or task.status not in (DUE, PAUSED):
            continue
        for question in extra.interrupts:
            if question.id in answers and not question.answered:
                question.answered, question.answer = True, own(answers[question.id])
    take_answers(engine)


def expire(engine: Engine, ids: Collection[str]) -> None:
    """Drop questions that no answer is taken for any more; their tasks run again."""
    for task in engine.tasks:
        extra = task.extra
        if task.status != PAUSED or extra is None or not any(q.id in ids for q in extra.interrupts):
            continue
        extra.interrupts = [q for q in extra.interrupts if q.id not in ids]
        child: Engine | None = extra.child
        if child is not None:
            child.expire(ids)
        if goes_on(child) if child is not None else not task.open_interrupts():
            outcome.again(task)


def take_answers(engine: Engine) -> None:
    """Let tasks go on whose questions were answered, also in nested graphs that others hold up or let go on already."""
    for task in engine.tasks:
        if task.status == PAUSED:
            unpause(task)
        elif task.status == DUE and task.extra is not None and task.extra.child is not None:
            task.extra.child.take_answers()


def pause_before(engine: Engine, task: Task) -> None:
    """Ask before *task* may start: the node has interrupt_before."""
    node = task.node.name
    question = OpenInterrupt(f"{engine.interrupt_prefix(task)}before", "before", node, {"before": node}, static=True)
    outcome.pause(engine, task, [question])


def unpause(task: Task) -> None:
    """Let a paused task go on, if all its questions are answered, or its nested graph can go on with some of them."""
    extra = task.more()
    child: Engine | None = extra.child
    if child is not None and not extra.ended:
        child.take_answers()
        extra.interrupts = [question for question in extra.interrupts if not question.answered]
        if goes_on(child):
            outcome.again(task)
    elif all(question.answered for question in extra.interrupts):
        if extra.interrupts[-1].key == "after" and extra.ended:  # else its outcome was only staged: it runs again
            task.status = DONE
        else:
            outcome.again(task)


def goes_on(engine: Engine) -> bool:
    """Whether there is something to do before somebody must answer."""
    statuses = {task.status for task in engine.tasks}
    return PAUSED not in statuses or DUE in statuses
