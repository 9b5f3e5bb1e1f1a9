"""End of a superstep: fold its updates, call its routers, count its joins and make the next tasks due (rules R1 to R3).

A commit happens whole or not at all. A node with `interrupt_after` splits it in two (decision 0058): the fold is
committed first, and routers and joins follow once a person has answered. In between, the superstep is *held*
(`Engine.held`): its tasks are done and folded, and only their successors are open. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from graphrt._engine import emit_events, failures, joins, mutation_check
from graphrt._engine.advice import name_other_answer
from graphrt._engine.fold import Folded, FoldError, applied, fold
from graphrt._engine.questions import after as questions_after
from graphrt._engine.route import Routed, Router, merged
from graphrt._engine.spending import count
from graphrt._engine.storability import check_sends
from graphrt._engine.task import Task

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def commit(engine: RunState, after: Collection[str] | None = None, *, past: bool = False) -> bool:
    """Fold the staged updates, call the routers and make the next tasks due; or fold, and hold the superstep.

    The run loop calls this when all tasks of the open superstep have ended; `replay` calls it to repeat a journalled
    commit and compare the results.

    Args:
        after: Ids of the tasks whose `interrupt_after` holds the superstep, as the journalled commit names them. None
            decides by the policies of the nodes.
        past: Whether the commit is in the journal already. A reducer that returned None then is not an error now.

    Returns:
        Whether the superstep is held.

    Raises:
        InputError: The run would have to pause, and has no thread.
        UpdateError: A node changed the state, two tasks wrote one field, a reducer failed, or a Send's argument cannot
            be stored.
        RouteError: A router failed.
    """
    tasks = engine.tasks
    # (branch, label) if the fast path called the node's router and then handed this superstep over: it is called once.
    asked = engine.take_asked()
    # Both drop views of the state. Only without them do reference counts show who else holds a list (R15).
    engine.forget_view()
    mutation_check.check_all(engine, tasks)
    try:
        folded = fold(
            engine.fields,
            engine.values,
            tasks,
            reducer=engine.reducer,
            ephemeral=engine.ephemeral,
            record=engine.keeps_undo,
            past=past,
            where=engine.where,
        )
        mutation_check.check_reducer(engine, tasks)
    except FoldError as error:
        mutation_check.put_back(engine)
        failures.fail_all(error.tasks, error.error)  # R9: a retry runs the tasks that wrote the field, and no others
        name_other_answer(engine, error.error)  # a wrong answer of a person may be the reason
        raise error.error from error.error.__cause__  # FoldError only carries it here
    questions = questions_after(engine, tasks, after) if after is not None or engine.plan.pauses_after else []
    values, grown = applied(engine.values, engine.fields, folded)  # *grown*: lists that it extended in place
    view = engine.make_view(values)
    if questions:
        routed = Routed()  # routers are called when the pause is answered, on the state as edited by then (R1)
    else:
        try:
            routed = Router(engine.plan, engine.where).follow(tasks, view, asked)
            mutation_check.check_routers(engine, tasks, view, values)
            routed.sends = check_sends(engine, routed.sends)
        except Exception as error:
            name_other_answer(engine, error)
            # Undo the lists that grew. A router may have kept one, so it is not cut: the state gets a copy.
            for name, length in grown.items():
                engine.restore(name, engine.values[name][:length])
            raise
    # Nothing below can fail: fold, routes and next tasks commit together (R3).
    moved = joins.arrive(engine, routed)  # the joins whose generation changed, for the event
    _watch(engine, tasks, folded)
    engine.take(values, (*folded.values, *folded.grown))
    engine.use_view(view)
    if questions:
        engine.hold(questions)
    else:
        _go_on(engine, routed)
    if engine.log is not None:  # last: the event names what is due and what holds the superstep
        emit_events.committed(engine, tasks, folded, moved)
    return engine.held


def route(engine: RunState) -> None:
    """Call the routers and count the joins of a held superstep that is answered; its next tasks become due.

    Raises:
        RouteError: A router failed; the next call of this function calls it again.
        UpdateError: The argument of a Send cannot be stored.
    """
    view = engine.take_view()  # of the values as edited during the pause
    engine.use_view(view)  # the next task gets it too, unless a router assigned to it
    # Unlike in `commit`, an error has nothing to undo, and names no other answer: outcomes that are committed keep the
    # answers that led to them.
    routed = Router(engine.plan, engine.where).follow(engine.tasks, view)
    mutation_check.check_routers(engine, engine.tasks, view, engine.values)
    routed.sends = check_sends(engine, routed.sends)
    moved = joins.arrive(engine, routed)
    _go_on(engine, routed)
    emit_events.routed(engine, "answered", moved)


def _go_on(engine: RunState, routed: Routed) -> None:
    """Close the superstep, and make due where it leads, merged with what an edit made due (`Engine.waiting`).

    An edit is `Runtime.update(as_node=...)`, which can route while a superstep is open.
    """
    engine.make_due(merged(engine.waiting, routed) if engine.waiting else routed.due())
    engine.close_superstep()  # last, because it clears `waiting`


def _watch(engine: RunState, tasks: Sequence[Task], folded: Folded) -> None:
    """Pass what was folded on to the usage counters, the trail and the recorder of what is shown.

    The trail of a nested graph lists its committed updates, which become the updates of its task in the parent graph.
    """
    for task in tasks:
        if task.extra is not None:  # has what only some tasks have, such as the usage of model calls
            count(engine, task)
    if engine.trail is not None:
        for task in tasks:
            for update in task.updates:
                engine.follow(update)
    if engine.recorder is not None:
        engine.recorder.record_all(tasks, folded.undo)
