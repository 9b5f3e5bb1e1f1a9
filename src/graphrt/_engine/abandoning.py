"""Abandoning an open superstep in favour of a new input (`if_exists="abandon"`, rule R10, decision 0059).

By default, an unfinished thread (paused, failed, or left by a process that died) does not accept a new input. With
`run(..., if_exists="abandon")` it does, and a cancelled thread always does. `_runs.open_run.begin` calls this for the
unfinished work before it records the new run. The journal then lists the abandoned work: tasks, kept outcomes, open
questions, and effects that may have happened. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.child_threads import children_of
from graphrt._engine.spending import used_by
from graphrt._engine.task import DONE, HANDLED

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task


def give_up_superstep(engine: Engine, messages: Mapping[str, Any]) -> None:
    """Log the abandoned work, then close the open superstep, if there is one, and clear the due nodes.

    The number of a superstep that was only due is not reused either. Its tasks may have started without a trace in the
    store, and tasks of the new run would get the same `idempotency_key`s. The values stay those of the last commit:
    outcomes of finished tasks that were not folded yet are lost.

    Args:
        messages: Partial messages by field, which the caller has already folded (`edit.say`).
    """
    open_tasks = engine.tasks
    if engine.due and not open_tasks:
        engine.pass_over()
    abandoned = events.SuperstepAbandoned(
        superstep=engine.superstep,
        tasks=tuple(task.id for task in open_tasks),
        # HANDLED: the task failed, and its `on_error` node would have run next. This also counts as an outcome.
        finished=tuple(task.id for task in open_tasks if task.status in (DONE, HANDLED)),
        interrupts=tuple(question.id for question in engine.open_interrupts()),
        effects=tuple(_unknown_effects(open_tasks)),
        next=tuple(item.node.name for item in engine.following()),
        # R10: the usage of their model calls is in the event and in the thread's totals. The new run's budget starts
        # over.
        usage=used_by(open_tasks),
        threads=children_of(engine),  # the commit of this event posts them a request to cancel
        said=messages,
    )
    # Log the recorded effects and model calls before the event that abandons their tasks. Readers of the journal sum up
    # usage from these entries, and the calls are billed although the updates of their tasks are never folded.
    emit_events.left_open(engine)
    emit_events.note(engine, abandoned)
    engine.close_superstep([])


def stopped_replies(tasks: list[Task]) -> list[str]:
    """Return the streamed text of interrupted replies of *tasks*, including nested graphs, in task order."""
    texts: list[str] = []
    for task in tasks:
        extra = task.extra
        if extra is not None and task.status not in (DONE, HANDLED):
            if extra.models is not None:
                texts += extra.models.said()
            if extra.child is not None:  # the engine of the task's nested graph
                texts += stopped_replies(extra.child.tasks)
    return texts


def _unknown_effects(tasks: list[Task]) -> list[str]:
    """Return `task#key` for every effect that may or may not have happened, including in tasks of nested graphs.

    These are effects of the kind `"once"` without a result: their start is stored before they run (`Extra.intents`).
    """
    effects: list[str] = []
    for task in tasks:
        extra = task.extra
        if extra is not None:
            effects += [f"{task.id}#{key}" for key in list(extra.intents) if key not in extra.effects]
            if extra.child is not None:  # the engine of the task's nested graph
                effects += _unknown_effects(extra.child.tasks)
    return effects
