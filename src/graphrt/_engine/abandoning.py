"""Giving up a superstep that was left open, for a new input (rule R10): what is told of it, and what it leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.task import DONE, HANDLED

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt.events import Usage


def give_up_superstep(engine: Engine) -> None:
    """Tell what is given up, and forget it. The values stay those of the last commit."""
    open_tasks = [] if engine.held else engine.tasks
    usage: Usage | None = None
    for task in open_tasks:
        one = task.extra.usage if task.extra is not None else None
        if one is not None:
            usage = one if usage is None else usage + one
    abandoned = events.SuperstepAbandoned(
        superstep=engine.superstep,
        tasks=tuple(task.id for task in open_tasks),
        finished=tuple(task.id for task in open_tasks if task.status in (DONE, HANDLED)),
        interrupts=tuple(question.id for question in engine.open_interrupts()),
        effects=tuple(_unknown_effects(open_tasks)),
        next=tuple(item.node.name for item in engine.due),
        usage=usage,
    )
    for task in open_tasks:  # what was paid and done is told, though nothing of it is folded
        emit_events.spent(engine, task)
    emit_events.note(engine, abandoned)
    engine.close_superstep()
    engine.due = []


def _unknown_effects(tasks: list[Task]) -> list[str]:
    """Effects of the kind "once" whose outcome is unknown, those of nested graphs included."""
    found: list[str] = []
    for task in tasks:
        extra = task.extra
        if extra is not None:
            found += [f"{task.id}#{key}" for key in extra.intents if key not in extra.effects]
            if extra.child is not None:
                found += _unknown_effects(extra.child.tasks)
    return found
