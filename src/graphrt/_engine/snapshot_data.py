"""The engine between two supersteps as plain data, for stored snapshots and forks. `evolve.restore` reads it back.

A fork begins with such data of its source. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.pending_as_data import due_parts, join_standings

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def saved(engine: Engine) -> events.StateSaved:
    """Return the engine between two supersteps as plain data; the values are shared, not copied.

    An open superstep is left out: its tasks are due in the result, and its superstep and visits are not counted. The
    progress of its tasks is staged next to the journal. If a superstep has committed and waits for an
    `interrupt_after`, the outcomes of its tasks are kept for the routers.
    """
    open_tasks = engine.tasks
    due, opened = (engine.opened, 1) if open_tasks else (engine.due, 0)  # *opened*: supersteps not to count, 0 or 1
    seen = {task.node.index for task in open_tasks}
    names, sends, errors, handled = due_parts([*due, *engine.waiting] if engine.waiting else due)
    untracked = engine.plan.state.untracked
    visits = [count - (at in seen) for at, count in enumerate(engine.visits)]  # without the open superstep's
    return events.StateSaved(
        values={name: value for name, value in engine.values.items() if name not in untracked},
        superstep=engine.superstep - opened,
        steps=engine.steps - opened,
        # `visits` may be longer than the nodes: counts of removed nodes of an older graph come last and are dropped.
        visits={node.name: n for node, n in zip(engine.plan.nodes, visits, strict=False) if n},
        next=names,
        sends=sends,
        errors=errors,
        # Joins with an open generation, that is, with arrivals.
        joins=join_standings(engine, [join for join in engine.joins if join.arrived or join.fired or join.emptied]),
        entering=engine.entering,
        usage=engine.usage,
        granted=engine.granted,
        handled=handled,
        held=tuple(emit_events.outcome_of(engine, task, updates=False) for task in engine.unrouted),
        after=tuple(question.task_id for question in engine.open_interrupts()) if engine.unrouted else (),
        waits=len(engine.waiting),  # number of tasks at the end of *next* that start after the others
        signals=engine.signals,
        children=tuple(engine.children),
        parent=engine.parent,
        began=engine.began,
        args={at: task.arg for at, task in enumerate(engine.unrouted) if task.arg is not None},
    )
