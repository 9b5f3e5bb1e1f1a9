"""Edits of a thread that no run makes (rule R18): `update` of its state, and `cancel` of a paused thread.

An edit is an ordinary journal entry; old entries never change. The thread is claimed, loaded and folded; `note` adds an
event to the engine's log, and the journal writes the log in one commit.

Editing a thread with an open superstep changes the state that its unfinished tasks see. With `as_node=` it also ends
the tasks of that node, as if the node had returned the values.

A `ThreadCommits` of the kind "sync" stores each commit at once. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import emit_events, joins, mutation_check
from graphrt._engine.edit import folded_in, leave_anew, status_after, unfinished
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve
from graphrt._engine.ownership import lengths
from graphrt._engine.pending_as_data import due_parts, join_standings
from graphrt._engine.questions import waiting
from graphrt._engine.route import merged, router_of
from graphrt._engine.run_state import RunState
from graphrt._engine.steps import target_name
from graphrt._engine.storability import check_sends, storable, tracked
from graphrt._engine.task import DONE, HANDLED, Due, Task, parted
from graphrt._journal.leases import give_back, take
from graphrt._journal.reader import Reader
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._journal.thread_fold import Fold
from graphrt._plan.fields import own
from graphrt._runs.arguments import check_size, size_of
from graphrt._runs.forking import journal_of
from graphrt._runs.loading import check_build, present, the_store
from graphrt._runs.mail import ask_to_cancel
from graphrt._runs.open_run import adopted, checked_update, entered, not_storable
from graphrt._runs.run_config import RunConfig
from graphrt.commands import EndType, Send, node_name
from graphrt.errors import ConflictError, InputError, closest
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, UNKNOWN_NODE_ASKED
from graphrt.errors._codes.threads import GOTO_NEEDED
from graphrt.events.status import Status
from graphrt.stores.ids import check_id, shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim

Edit = tuple[Any, ...]
"""(values, as_node, goto) or (values, as_node), unchecked as given by the caller; each may be None."""


_GIVEN = "what update() was given"
"""The name of the values in errors about their redaction."""


def update(config: RunConfig, thread: str, edits: Iterable[Edit]) -> None:
    """Fold *edits* into the state of the thread, one after another, in one commit.

    A thread that does not exist is created, with the values of the first edit as its whole state.

    Raises:
        InputError: There is no such node, values do not fit, or a node needs goto=.
        ConflictError: Another run drives the thread.
        UpdateError, RouteError: A reducer or router raised. Nothing was written.
    """
    check_id(thread)
    store = the_store(config)
    at = config.clock()
    claim = take(store, thread, create=True, lease_s=config.lease_s, at=at)
    try:
        fresh = claim.head.seq == 0
        fold = _new(config, store, thread) if fresh else present(config, thread, claim)
        check_build(config, fold)
        journal = journal_of(config, store, fold, ThreadCommits(store, claim))
        if fresh:  # creation and first commit share one time, so the clock is not read again
            journal.given_at, journal.standing.fingerprint = at, config.graph.fingerprint
        engine = fold.engine
        engine.listen(engine.plan.codec)
        adopted(engine, fold)  # if the graph has changed, the journal must record that before the edit
        status: Status = "completed" if fresh else claim.head.status
        for number, edit in enumerate(edits):
            event = _event_of(config, engine, edit, fresh=fresh and not number, failed=status == "failed")
            event = replace(event, user=config.user, redaction=config.redaction)
            # The engine gets a copy of the values, because a later edit may extend one of its lists in place.
            evolve(engine, replace(event, values=own({**event.values})))
            config.secrets.remember(engine, event.values)  # no store has them, so the runtime keeps them
            emit_events.note(engine, event)
            if engine.plan.queues:  # tasks run by workers elsewhere must not report on the old state
                leave_anew(engine)
            status = status_after(engine, status)
        if engine.log:  # empty if there was no edit
            # Stage the tasks ended by the edit again, since their older rows would restore their questions.
            ended = [task for task in engine.tasks if task.extra is not None and task.extra.edited]
            # Also the tasks of this graph that were queued again: `waiting` yields (engine, task, question).
            ended += [task for _, task, _ in waiting(engine) if task in engine.tasks]
            # Also tasks with stale questions that have no entry, since only their rows show the staleness.
            again: dict[str, tuple[RunState, Task]] = {task.id: (engine, task) for task in ended}
            again |= {task.id: (owner, task) for owner, task in _with_stale_questions(engine)}
            # `standing`: all events of a task that a restart needs.
            staged = [(task.id, emit_events.standing(owner, task)) for owner, task in again.values()]
            journal.write(emit_events.take(engine), staged, status=status, release=True)
    except Exception as error:
        config.clean(error)
        raise
    finally:
        give_back(store, claim)


def _with_stale_questions(engine: RunState) -> Iterator[tuple[RunState, Task]]:
    """Yield the tasks, with their engines, whose questions an edit made stale and which are not journalled.

    A question is journalled when the run pauses. Until then, and if the run fails instead, it is only staged. A nested
    graph has no journal, so a question in its log may still be missing from the thread's.
    """
    for task in engine.tasks:
        child: RunState | None = task.extra.child if task.extra is not None else None
        if child is not None:
            yield from _with_stale_questions(child)
        elif any(
            question.stale and (engine.path or engine.path not in question.logged_in)
            for question in task.open_interrupts()
        ):
            yield engine, task


def _new(config: RunConfig, store: Store, thread: str) -> Fold:
    """Return the fold of a thread that has no entries yet.

    A hash chain begins with the thread's tenant-qualified id; the meta keeps that id, even in copies of the thread.
    """
    plan = config.plan
    meta = {"chained": shared_id(store, thread) if config.chains(store) else None}
    reader = Reader(store, thread, plan.codec, keys=config.keys)
    fold = Fold(plan, config.limits, reader, meta, check_state=config.checks_state)
    fold.engine.surround(config.outside(thread))
    return fold


def _event_of(config: RunConfig, engine: Engine, edit: Edit, *, fresh: bool, failed: bool) -> events.ThreadUpdated:
    """Check an edit and return its event, which the caller applies. Only the arrivals at joins are counted here.

    A join is a node that waits for several others. Each of them arrives at the join when it finishes.

    Args:
        fresh: The thread is new, and the values are its whole state.
        failed: The thread failed, so the edit may replace outcomes that could not be folded or routed.

    Raises:
        InputError: There is no such node, values do not fit or cannot be stored, or the node needs goto=.
        UpdateError, RouteError: A reducer or router raised.
    """
    values, as_node, goto = (*edit, None)[:3]  # goto may be missing
    node = None if as_node is None else _checked_node(engine, "as_node=", as_node)
    targets = _targets(engine, node, goto)
    plan = engine.plan
    if fresh:
        checked = entered(
            config, engine, plan.state.initial({} if values is None else values, where=engine.where()), what=_GIVEN
        )
        engine.start(dict(checked))
        engine.wait_for_input()  # nothing is due yet, not even the first node
    else:
        checked = {} if values is None else checked_update(engine, values, what="What update() was given")
        checked = entered(config, engine, checked, what=_GIVEN, whole=False)
    stored = tracked(engine, checked)  # without untracked fields, which are never stored
    try:
        stored = storable(engine, stored)
        check_size(config.limits, size_of(stored))
    except NotStorable as error:
        raise not_storable(engine, error, "update() was given a value") from error
    # Fold once before the event is noted, so that a raising reducer raises before anything is changed.
    after = engine.values if fresh else folded_in(engine, checked, reset=False)
    open_ = bool(engine.tasks or engine.unrouted)
    if node is None:
        return events.ThreadUpdated(values=stored, as_node=None, open=open_, fresh=fresh)
    # All tasks have ended, but their outcomes could not be folded or routed.
    stuck = failed and all(task.status in (DONE, HANDLED) for task in engine.tasks)
    node_tasks = unfinished(engine, node, include_finished=stuck)
    if node_tasks:  # the edit ends these tasks, and committing their superstep calls the routers
        # Targets by name, and the arguments of Sends by their position among them.
        target_names = None if targets is None else tuple(target_name(target) for target in targets)
        send_args = {number: target.arg for number, target in enumerate(targets or ()) if target.__class__ is Due}
        return events.ThreadUpdated(values=stored, as_node=node, open=True, goto=target_names, sends=send_args)
    # No task of the node is open, so the edges or *goto* now decide which nodes are due.
    node_plan = plan.by_name[node]
    router = router_of(engine)
    # `ask` follows the edges of the node and calls its routers on the new state. `lead` takes the targets of *goto*.
    # With the node's due activations, which are treated as finished; if there are none, as after a plain activation.
    args = [item.arg for item in engine.due if item.node is node_plan and not open_] or [None]
    if targets is None:
        forms = mutation_check.encoded(engine, after) if engine.check_state else None
        view, sizes = engine.make_view(after), lengths(after)
        routed = router.ask(node_plan, view, args)
        mutation_check.check_routers(engine, (), view, after, sizes, forms, node=node)
    else:
        routed = router.lead(targets)
    routed.sends = check_sends(engine, routed.sends)
    moved = joins.arrive(engine, routed)  # the joins that have changed; the node of one that fires joins *routed*
    # As if all activations of the node had finished, Sends included (rule R18). `waiting`: tasks that become due with
    # the commit of the open superstep. Without one, tasks that are due now. The same applies to waiting activations of
    # a deferred node.
    before = [item for item in engine.waiting if item.node is not node_plan or not node_plan.defer]
    if not open_:
        before = [item for item in engine.following() if item.node is not node_plan]
    due = merged(before, routed)
    later: list[Due] = []
    if engine.plan.defers and not open_:
        due, later = parted(due)
    # As plain data: node names and, by position, the arguments of Sends and the errors that `on_error` nodes handle,
    # with the failed tasks.
    next_names, sends, errors, handled = due_parts([*due, *later])
    return events.ThreadUpdated(
        values=stored,
        as_node=node,
        next=next_names,
        sends=sends,
        errors=errors,
        joins=join_standings(engine, moved),
        open=open_,
        handled=handled,
        fresh=fresh,
        waits=len(later),
    )


def _targets(engine: Engine, node: str | None, goto: Any) -> tuple[Any, ...] | None:
    """Return the targets of *goto*, checked like those of a Command; None if the edges of *node* apply.

    Returns:
        In the order given: the plan of a node, END, or for a Send a `Due` with the redacted argument.

    Raises:
        InputError: goto= was given without a node, or names no node; or the node routes by its Commands alone and needs
            it.
        RouteError: A target is not declared, or a Send cannot be delivered.
    """
    if node is None:
        if goto is None:
            return None
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="goto= of update()", missing="as_node=, the node that is taken as finished", where=engine.where()
        )
    plan = engine.plan.by_name[node]
    if goto is not None:
        for item in goto if issubclass(type(goto), (list, tuple)) else (goto,):
            if not isinstance(item, EndType):
                _checked_node(engine, "goto=", item.node if isinstance(item, Send) else item, or_end=" or END")
        targets = router_of(engine).targets(goto, plan)
        sends = iter(check_sends(engine, [target for target in targets if target.__class__ is Due]))
        return tuple(next(sends) if target.__class__ is Due else target for target in targets)
    # `plan.goto`: the targets that the node declares for its Commands; END is not a str.
    declared = sorted(target for target in plan.goto or () if isinstance(target, str))
    # No edge leaves the node: no static edge to a node or END, no conditional edge, and none to a join.
    if declared and not (plan.static or plan.ends or plan.branches or plan.arrives):
        raise GOTO_NEEDED(node=node, declared=declared, first=declared[0], where=engine.where())
    return None


def _checked_node(engine: Engine, who: str, node: Any, *, or_end: str = "") -> str:
    """Return the name of *node*, which the caller gives as a name or a function in the argument *who*.

    Raises:
        InputError: There is no such node.
    """
    name = node_name(node)
    if isinstance(name, str) and name in engine.plan.by_name:
        return name
    guess = closest(name, engine.plan.by_name)
    raise UNKNOWN_NODE_ASKED(
        who=who, name=name, known_nodes=engine.plan.by_name, or_end=or_end, where=engine.where(), guess=guess
    )


def cancel(config: RunConfig, thread: str) -> bool:
    """Cancel the run of *thread* here or through its owner, or cancel a paused thread; see `Runtime.cancel`.

    Returns:
        False if there is nothing to cancel.
    """
    if config.active.cancel(thread, "cancel() was called"):  # a run of this runtime
        return True
    if config.store is None:
        return False
    # Checked first, because PostgreSQL takes half a second to refuse a claim: its owner may be about to end.
    if ask_to_cancel(config, thread):
        return True
    try:
        claim = take(the_store(config), thread, create=False, lease_s=config.lease_s, at=0.0)
    except ConflictError:  # another owner claimed it in between
        return ask_to_cancel(config, thread)
    except InputError:
        return False  # it does not exist

    def cancelled(engine: Engine) -> None:
        """Note the event that ends the thread."""
        emit_events.cancelled(engine, "cancel() was called")

    return end(config, claim, cancelled, of=("interrupted", "running"))


def end(config: RunConfig, claim: Claim, log: Callable[[Engine], None], *, of: tuple[Status, ...]) -> bool:
    """End a claimed thread without running anything, and release it. Used by `cancel` and for parking a thread.

    Args:
        log: Notes the event with which the run ends.
        of: Statuses that the thread may have.

    Returns:
        False if it has a different status; nothing was changed.

    Raises:
        InputError: The graph of the thread is not compatible.
        StoreError: The store failed, or the thread cannot be read.
    """
    store = the_store(config)
    try:
        if claim.head.status not in of:
            return False
        fold = present(config, claim.thread, claim)
        journal = journal_of(config, store, fold, ThreadCommits(store, claim))
        engine = fold.engine
        engine.listen(engine.plan.codec)
        adopted(engine, fold)
        log(engine)
        journal.write(emit_events.take(engine), release=True)
    finally:
        give_back(store, claim)
    return True


def adopt(config: RunConfig, thread: str) -> bool:
    """Assign a thread that waits for a newer build to this build, and journal that; nothing runs.

    Returns:
        False if it does not wait for a newer build; nothing was changed.

    Raises:
        InputError: There is no such thread, or its graph is not compatible.
        ConflictError: A living owner holds it.
        StoreError: The store failed, or the thread cannot be read.
    """
    store = the_store(config)
    claim = take(store, check_id(thread), create=False, lease_s=config.lease_s, at=0.0)
    try:
        fold = present(config, thread)
        verdict = fold.verdict
        if verdict is None or not verdict.waits_for:
            return False
        journal = journal_of(config, store, fold, ThreadCommits(store, claim))
        engine = fold.engine
        engine.listen(engine.plan.codec)
        why = f"allowed, though {verdict.waits_for}"
        migrated = fold.migrated or events.ThreadMigrated(
            source=verdict.source, target=verdict.target, why=why, values=None
        )
        emit_events.note(engine, replace(migrated, why=why))
        journal.write(emit_events.take(engine), release=True)
    finally:
        give_back(store, claim)
    return True
