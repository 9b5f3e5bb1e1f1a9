"""End of a superstep: fold its updates, call its routers, count its joins and make the next tasks due (rules R1 to R3).

A commit happens whole or not at all. A node with `interrupt_after` splits it in two (decision 0058): the fold is
committed first, and routers and joins follow once a person has answered. In between no superstep is open: its tasks are
committed (`Engine.unrouted`), and only their successors are not known. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from graphrt._cancellations import failures as exceptions
from graphrt._engine import emit_events, failures, joins, mutation_check
from graphrt._engine.advice import name_other_answer
from graphrt._engine.committed import Committed
from graphrt._engine.fold import Folded, FoldError, applied, fold
from graphrt._engine.join_state import JoinState
from graphrt._engine.questions import after as asks_after
from graphrt._engine.questions import pause_after
from graphrt._engine.route import Routed, handed_over, merged, plain_activation, router_of
from graphrt._engine.run_state import RunState
from graphrt._engine.spending import count
from graphrt._engine.storability import check_sends
from graphrt._engine.task import DONE, Due, HandOver, Task, parted
from graphrt._plan.state import Values
from graphrt.errors import RouteError, UpdateError

_LABELS: Final = frozenset({str, bool, int})
"""Classes of labels whose hash runs no code of users."""


def commit(engine: RunState, after: Collection[str] | None = None, *, past: bool = False) -> bool:
    """Fold the staged updates, call the routers and make the next tasks due; or fold, and hold the superstep.

    The run loop calls this when all tasks of the open superstep have ended; `replay` calls it to repeat a journalled
    commit and compare the results.

    Args:
        after: Ids of the tasks whose `interrupt_after` holds the superstep, as the journalled commit names them. None
            decides by the policies of the nodes.
        past: Whether the commit is already in the journal. A reducer that returned None then is not an error now.

    Returns:
        Whether routers and joins wait for the answer to an `interrupt_after`.

    Raises:
        InputError: The run would have to pause but has no thread.
        UpdateError: A node changed the state, two tasks wrote one field, a reducer failed, or a Send's argument cannot
            be stored.
        RouteError: A router failed.
    """
    tasks = engine.tasks
    # The views of the tasks are dropped: only without them do reference counts show who else holds a list (R15).
    lone = engine.lone
    if lone is not None and not (
        engine.timed or lone.node.timed
    ):  # checked when it returned, and no other node has run since
        lone.state = None
    else:
        mutation_check.check_all(engine, tasks)
    try:
        folded = fold(engine, engine.values, tasks, engine.reducer, engine.ephemeral, past=past)
        if engine.reducer is not None:
            mutation_check.check_reducer(engine, tasks)
    except FoldError as error:
        raise _refused(engine, error) from error.error.__cause__  # FoldError only carries the error here
    asking = asks_after(engine, tasks, after) if after is not None or engine.plan.pauses_after else []
    grown: Sequence[str] = ()  # lists that were extended in place
    if folded.grown or folded.removes:
        values, grown = applied(engine.values, engine.fields, folded)
    else:
        values = {**engine.values, **folded.values}
    view = engine.make_view(values)
    written: Collection[str] = (*folded.values, *folded.grown) if folded.grown else folded.values
    sizes = engine.measured(values, written)  # before a router can change them
    due: list[Due] = []
    routed: Routed | None = None
    if not asking:  # otherwise routers are called when the pause is answered, on the state including later edits (R1)
        due, routed = _routes(engine, tasks, view, values, sizes, grown)
    # Nothing below can fail: fold, routes and next tasks commit together (R3).
    changed_joins: Sequence[JoinState] = ()  # the joins whose generation changed, for the event
    waiting: list[Due] = []
    if routed is not None:
        changed_joins = joins.arrive(engine, routed)
        due, waiting = _next(engine, routed)
    if engine.observed or engine.questions or lone is None or lone.extra is not None:
        _watch(engine, tasks, folded)
    engine.values, engine.view, engine.sizes = values, view, sizes  # inlined `RunState.take`
    if asking:
        pause_after(engine, [task.id for task in asking])
    else:  # inlined `RunState.close_superstep`: tasks in `waiting` are merged into *due*
        engine.due, engine.waiting, engine.tasks, engine.lone = due, waiting, [], None
        engine.dirty = {}
    if engine.log is not None:  # last: the event names the due nodes, or the nodes that the routers wait for
        # The journal data of a superstep of one plain task. The end of a run is written with its last step, and needs
        # events.
        if engine.eventless and due and routed is None and lone is not None and lone.extra is None:
            update: Any = lone.updates[0] if lone.updates else None
            resets = engine.ephemeral and not folded.values.keys() <= (update or {}).keys()  # only events contain them
            if update.__class__ is not dict and not resets:  # a plain dict was read from the journal
                engine.plain_commit = (lone.superstep, lone.node, update, due[0].node)
                return False
        emit_events.committed(engine, tasks, folded, changed_joins)
    return bool(asking)


def _next(engine: RunState, routed: Routed) -> tuple[list[Due], list[Due]]:
    """Return the next tasks, and the activations of deferred nodes that wait for them."""
    due = merged(engine.waiting, routed) if engine.waiting else routed.due()
    return parted(due) if engine.plan.defers else (due, [])


def _routes(
    engine: RunState,
    tasks: Sequence[Task],
    view: Any,
    values: Values,
    sizes: Mapping[str, int],
    grown: Sequence[str],
) -> tuple[list[Due], Routed | None]:
    """Return where *tasks* lead on *view*.

    Args:
        values: The new values, from which *view* was made.
        sizes: The lengths of the containers in *values*.
        grown: Fields whose lists were extended in place; undone if a router fails.

    Returns:
        The next tasks and None if a single edge or router label decides. Otherwise no tasks and a Routed, whose
        arrivals at joins have not been counted yet.

    Raises:
        RouteError: A router raised, returned a value without a route, or changed the state.
        UpdateError: The argument of a Send cannot be stored.
    """
    lone = engine.lone
    try:
        if engine.path and _handed_over(engine, tasks):
            return [], None
        if lone is not None and lone.node.one_way and lone.goto is None and lone.status == DONE and not engine.waiting:
            node = lone.node
            if node.router is None:
                target = node.next
                return ([target.due or plain_activation(target)] if target is not None else []), None
            forms = mutation_check.encoded(engine, values) if engine.check_state else None
            try:
                label = node.router(view)
            except exceptions() as error:
                raise router_of(engine).router_error(node, node.branches[0], error) from error
            if (label.__class__ in _LABELS or isinstance(label, Enum)) and label in node.table:
                target = node.table[label]
                try:  # inlined fast path of `check_routers`
                    same = view == values if not engine.keeps else view.__dict__ == values
                except Exception:  # noqa: BLE001 - values that refuse to be compared, or a view without a `__dict__`
                    same = False
                for name in sizes:
                    if len(values[name]) != sizes[name]:
                        same = False
                if not same or engine.check_state:
                    mutation_check.check_routers(engine, tasks, view, values, sizes, forms)
                return ([target.due or plain_activation(target)] if target is not None else []), None
            routed = router_of(engine).read(node, node.branches[0], label, view)
        else:
            forms = mutation_check.encoded(engine, values) if engine.check_state else None
            routed = router_of(engine).follow(tasks, view)
        mutation_check.check_routers(engine, tasks, view, values, sizes, forms)
        routed.sends = check_sends(engine, routed.sends)
    except Exception as error:
        name_other_answer(engine, error)
        # A router may hold a reference to a list that grew, so it is not truncated; the state gets a copy.
        for name in grown:
            engine.restore(name, engine.values[name][: engine.sizes[name]])
        raise
    return [], routed


def _handed_over(engine: RunState, tasks: Sequence[Task]) -> bool:
    """Return whether one of *tasks* of a nested graph handed over to the outer graph, so that nothing more is due here.

    Raises:
        RouteError: Two of them hand over to different targets; a retry runs them again.
    """
    try:
        goto = handed_over(tasks)
    except RouteError as error:
        failures.fail_all([task for task in tasks if task.goto.__class__ is HandOver], error)
        raise
    if goto is not None:
        engine.hand_over(goto)
    return goto is not None


def _refused(engine: RunState, error: FoldError) -> UpdateError:
    """Fail the tasks that wrote the field which cannot be folded, and return the error for the caller."""
    mutation_check.put_back(engine)
    failures.fail_all(error.tasks, error.error)  # R9: a retry runs only the tasks that wrote the field
    name_other_answer(engine, error.error)  # a person's wrong answer may be the cause
    return error.error


def route(engine: RunState) -> None:
    """Call the routers and count the joins that waited for an `interrupt_after`; the next tasks become due.

    Raises:
        RouteError: A router failed; the next call of this function calls it again.
        UpdateError: The argument of a Send cannot be stored.
    """
    view = engine.take_view()  # of the values, including edits made during the pause
    engine.use_view(view)  # the next task gets it too, unless a router assigned to it
    # Unlike in `commit`, an error has no changes to undo and does not suggest another answer, because committed
    # outcomes keep their answers.
    if engine.path and _handed_over(engine, engine.unrouted):
        engine.close_superstep([])
        emit_events.routed(engine, "answered", ())
        return
    forms = mutation_check.encoded(engine, engine.values) if engine.check_state else None
    routed = router_of(engine).follow(engine.unrouted, view)
    mutation_check.check_routers(engine, engine.unrouted, view, engine.values, engine.sizes, forms)
    routed.sends = check_sends(engine, routed.sends)
    changed_joins = joins.arrive(engine, routed)
    engine.close_superstep(merged(engine.waiting, routed) if engine.waiting else routed.due())
    emit_events.routed(engine, "answered", changed_joins)


def _watch(engine: RunState, tasks: Sequence[Task], folded: Folded) -> None:
    """Drop the questions of the superstep, and pass the folded data to usage counters, trail and readers.

    The trail of a nested graph lists its committed updates, which become the updates of its task in the parent graph.
    """
    if not engine.path:  # those of a nested graph are kept until the commit at the top, for a fork
        engine.questions.clear()
    for task in tasks:
        if task.extra is not None:  # data that only some tasks have, such as the usage of model calls
            count(engine, task)
    if engine.trail is not None:
        for task in tasks:
            for update in task.updates:
                engine.follow(update)
    if engine.is_read:
        engine.note_commit(Committed(engine, tasks, folded.undo))
