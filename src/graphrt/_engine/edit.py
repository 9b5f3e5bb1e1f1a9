"""Folding what comes from outside the graph's nodes into the state: an input on a finished thread, an edit (R7, R18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrt._engine.apply_folded import applied
from graphrt._engine.fold import FoldError, fold
from graphrt._engine.task import DONE, HANDLED, Task
from graphrt._plan.state import Values

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt.events.status import Status


def folded_in(engine: Engine, update: Mapping[str, Any], *, reset: bool, past: bool = False) -> Values:
    """The engine's values with a checked *update* folded in through the reducers; changes nothing.

    Args:
        reset: Ephemeral fields go back first, as at the fold of a superstep.
        past: An entry tells of it already; see `fold`.

    Raises:
        UpdateError: A reducer raised.
    """
    task = Task(engine.plan.start, 0, engine.superstep, None, None, engine)
    task.updates = (dict(update),)
    task.status = DONE
    ephemeral = engine.ephemeral if reset else ()
    try:
        folded = fold(engine.fields, engine.values, [task], ephemeral=ephemeral, past=past, where=engine.where)
    except FoldError as error:
        raise error.error from error.error.__cause__
    # The lists are not ours alone while the old values hold them: nothing grows in place.
    return applied(dict(engine.values), engine.fields, folded)[0]


def edit(
    engine: Engine,
    values: Values,
    as_node: str | None,
    goto: tuple[Any, ...] | None = None,
    *,
    anew: bool = False,
) -> None:
    """Take edited *values*; on an open superstep they become the snapshot of the unfinished tasks.

    Their questions stay open, and are stale: what is answered to them counts, whatever the node asks then.

    Args:
        as_node: Its unfinished tasks are taken as finished.
        goto: Where it leads instead of its edges.
        anew: Where all of its tasks have finished, but could not be folded or routed, the edit stands for what they
            came to.
    """
    engine.take(values, engine.fields)
    engine.forget_view()
    mine = unfinished(engine, as_node, anew=anew)
    for task in engine.tasks:
        task.state = None
        if task not in mine and task.status not in (DONE, HANDLED) and task.extra:
            for question in task.extra.interrupts:
                question.stale = question.stale or not question.static
    for task in mine:
        task.status, task.updates, task.goto = DONE, (), goto
        goto = goto and ()  # several tasks of one node lead there once
        extra = task.more()
        extra.interrupts, extra.child, extra.failure = [], None, None
        extra.ended, extra.edited = False, True
    finished = {task.id for task in mine}
    engine.after = [question for question in engine.after if question.task_id not in finished]


def unfinished(engine: Engine, node: str | None, *, anew: bool = False) -> list[Task]:
    """Tasks of *node* in the open superstep that did not finish, or whose edges were not asked yet.

    Args:
        anew: If all of them have finished, all of them.
    """
    mine = [task for task in engine.tasks if task.node.name == node]
    if engine.held:
        return mine
    left = [task for task in mine if task.status not in (DONE, HANDLED)]
    return left or (mine if anew else [])


def status_after(engine: Engine, before: Status) -> Status:
    """The status of a thread after an edit: what can be driven on again is `running` without an owner."""
    if before == "interrupted" and not engine.open_interrupts():
        return "running"
    if before == "completed" and (engine.due or engine.tasks):
        return "running"
    return before
