"""Ending a superstep: its updates are folded, its routers and joins asked, and the next tasks made due (rules R1 to R3).

All of it happens or nothing. Where a node has `interrupt_after` it happens in two parts: the fold, and once a person has
answered, the routers. In between the superstep is held (`Engine.held`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from graphrt._engine import emit_events, mutation_check, outcome, pausing
from graphrt._engine.advice import name_other_answer
from graphrt._engine.apply_folded import applied
from graphrt._engine.fold import Folded, FoldError, fold
from graphrt._engine.route import Routed, merged
from graphrt._engine.spending import count
from graphrt._engine.storability import check_sends
from graphrt._engine.task import Task

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def commit(engine: Engine, after: Collection[str] | None = None, *, past: bool = False) -> bool:
    """Fold the staged updates, ask the routers, make the next tasks due; or fold them, and hold the superstep.

    Args:
        after: Tasks whose `interrupt_after` holds it, as an entry tells; None asks the policies of their nodes.
        past: An entry tells of it already; see `fold`.

    Returns:
        Whether the superstep is held.

    Raises:
        InputError: The run would have to pause, and has no thread.
        UpdateError: A node changed the state, two tasks wrote one field, a reducer raised.
        RouteError: A router failed.
    """
    tasks = engine.tasks
    asked, engine.asked = engine.asked, None
    engine.forget_view()
    mutation_check.check_all(engine, tasks)
    try:
        folded = fold(
            engine.fields,
            engine.values,
            tasks,
            ephemeral=engine.ephemeral,
            record=engine.recorder is not None,
            past=past,
            where=engine.where,
        )
    except FoldError as error:
        outcome.fail_all(error.tasks, error.error)
        name_other_answer(engine, error.error)
        raise error.error from error.error.__cause__
    questions = pausing.after(engine, tasks, after) if after is not None or engine.plan.pauses_after else []
    values, grown = applied(engine.values, engine.fields, folded)
    view = engine.make_view(values)
    if questions:
        routed = Routed()
    else:
        try:
            routed = engine.router().follow(tasks, view, asked)
            mutation_check.check_routers(engine, tasks, view, values)
            check_sends(engine, routed.sends)
        except Exception as error:
            name_other_answer(engine, error)
            for name, length in grown.items():  # what looked at the longer list keeps it; the state goes back
                engine.values[name] = engine.values[name][:length]
            raise
    # Nothing can fail any more: the commit.
    moved = engine.arrive(routed)
    _watch(engine, tasks, folded)
    engine.take(values, (*folded.values, *folded.grown))
    engine.view = view
    if questions:
        engine.hold(questions)
    else:
        _go_on(engine, routed)
    if engine.log is not None:
        emit_events.committed(engine, tasks, folded, moved)
    return engine.held


def route(engine: Engine) -> None:
    """Ask the routers and joins of a superstep that was held: its next tasks become due.

    Raises:
        RouteError: A router failed; the next call asks again.
    """
    view = engine.view = engine.take_view()
    routed = engine.router().follow(engine.tasks, view)
    mutation_check.check_routers(engine, engine.tasks, view, engine.values)
    check_sends(engine, routed.sends)
    moved = engine.arrive(routed)
    _go_on(engine, routed)
    emit_events.routed(engine, "answered", moved)


def _go_on(engine: Engine, routed: Routed) -> None:
    """End the superstep: what it led to is due."""
    engine.due = merged(engine.waiting, routed) if engine.waiting else routed.due()
    engine.close_superstep()


def _watch(engine: Engine, tasks: Sequence[Task], folded: Folded) -> None:
    """Tell the counters, the parent's trail and the tape what was folded."""
    for task in tasks:
        if task.extra is not None:
            count(engine, task)
    if engine.trail is not None:
        for task in tasks:
            for update in task.updates:
                engine.follow(update)
    if engine.recorder is not None:
        for task, undo in zip(tasks, folded.undo, strict=True):
            engine.recorder.record(task, undo)
