"""Folding what comes from outside the graph's nodes into the state: an input on a finished thread, an edit (R7, R18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrt._engine.fold import FoldError, fold
from graphrt._engine.grow import applied
from graphrt._engine.task import DONE, HANDLED, Task
from graphrt._plan.state import Values

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt.stores.protocol import Status


def folded_in(engine: Engine, update: Mapping[str, Any], *, reset: bool) -> Values:
    """The engine's values with a checked *update* folded in through the reducers; changes nothing.

    Args:
        reset: Ephemeral fields go back first, as at the fold of a superstep.

    Raises:
        UpdateError: A reducer raised.
    """
    task = Task(engine.plan.start, 0, engine.superstep, None, None, engine)
    task.updates = (dict(update),)
    task.status = DONE
    ephemeral = engine.ephemeral if reset else ()
    try:
        folded = fold(engine.fields, engine.values, [task], ephemeral=ephemeral, where=engine.where)
    except FoldError as error:
        raise error.error from error.error.__cause__
    # The lists are not ours alone while the old values hold them: nothing grows in place.
    return applied(dict(engine.values), engine.fields, folded)[0]


def edit(engine: Engine, values: Values, as_node: str | None) -> None:
    """Take edited *values*; on an open superstep they become the snapshot of the unfinished tasks.

    Unfinished tasks of *as_node* are taken as finished.
    """
    engine.take(values, engine.fields)
    engine.forget_view()
    for task in engine.tasks:
        task.state = None
        if as_node is not None and task.node.name == as_node and task.status not in (DONE, HANDLED):
            task.status, task.updates, task.goto = DONE, (), None
            if task.extra is not None:
                task.extra.interrupts, task.extra.child, task.extra.failure = [], None, None
                task.extra.ended = False


def status_after(engine: Engine, before: Status) -> Status:
    """The status of a thread after an edit: what can be driven on again is `running` without an owner."""
    if before == "interrupted" and not engine.open_interrupts():
        return "running"
    if before == "completed" and (engine.due or engine.tasks):
        return "running"
    return before
