"""Abandoning an open superstep in favour of a new input (`abandon=True`, rule R10, decision 0059)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.child_threads import children_of
from graphrt._engine.task import DONE, HANDLED

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt.events import Usage


def give_up_superstep(engine: Engine) -> None:
    """Log what is given up, then close the open superstep and clear what was due.

    The values stay those of the last commit.
    """
    open_tasks = [] if engine.held else engine.tasks  # the tasks of a held superstep are folded and counted already
    # R10: their usage is in the event and in the thread's totals, while the budget of the new run begins anew.
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
        threads=children_of(engine),
    )
    # Effects before the event: paid model calls are counted from the journal, although their updates are never folded.
    for task in open_tasks:
        emit_events.spent(engine, task)
    emit_events.note(engine, abandoned)
    engine.close_superstep()
    engine.make_due([])


def _unknown_effects(tasks: list[Task]) -> list[str]:
    """Return `task#key` of each `"once"` effect that was started and has no result, nested graphs included."""
    found: list[str] = []
    for task in tasks:
        extra = task.extra
        if extra is not None:
            found += [f"{task.id}#{key}" for key in extra.intents if key not in extra.effects]
            if extra.child is not None:
                found += _unknown_effects(extra.child.tasks)
    return found
