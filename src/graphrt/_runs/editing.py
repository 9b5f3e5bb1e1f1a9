"""Editing threads from outside: updates and forks (rule R18), and verbs on all threads. Old entries are never changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import log
from graphrt._engine.edit import folded_in, status_after
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve, saved
from graphrt._engine.route import merged
from graphrt._engine.standing import due_parts, join_standings
from graphrt._engine.stored import stamp, tracked
from graphrt._engine.task import DONE, HANDLED
from graphrt._journal.keeper import give_back, take
from graphrt._journal.meta import read_meta
from graphrt._journal.modes import Commits
from graphrt._journal.names import Names
from graphrt._journal.reader import Fold, Reader
from graphrt._journal.verdict import Verdict
from graphrt._journal.versions import judge, pending
from graphrt._journal.writer import Journal
from graphrt._plan.fields import own
from graphrt._runs.flight import Owner
from graphrt._runs.loading import WORLD, Reads, folded, loaded_at, the_store
from graphrt._runs.opening import adopted, checked_update, not_storable
from graphrt._runs.results import is_of_older_graph
from graphrt.commands import node_name
from graphrt.errors import GraphrtError, InputError, StoreError, closest, names
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Head, Loaded, Status, Store

Edit = tuple[Any, Any]
"""Values, and the node that they are written as, or None."""


def update(runtime: Owner, thread: str, edits: Iterable[Edit]) -> None:
    """Fold *edits* into the state of the thread, one after another, in one commit.

    Raises:
        InputError: No such thread or node, values that do not fit.
        ConflictError: The thread is being driven.
        UpdateError, RouteError: A reducer or router raised. Nothing was written.
    """
    check_id(thread)
    store = the_store(runtime)
    claim = take(store, thread, create=False, lease_s=runtime.lease_s, at=0.0)
    try:
        fold = folded(runtime, store.load(thread))
        journal = journal_of(runtime, store, fold, Commits(store, claim, "sync"))
        engine = fold.engine
        engine.listen(journal.codec)
        adopted(engine, fold)
        unfinished = [task for task in engine.tasks if task.status not in (DONE, HANDLED)]
        status = claim.head.status
        for values, as_node in edits:
            event = _edited(engine, values, as_node)
            evolve(engine, event, own)
            log.note(engine, event)
            status = status_after(engine, status)
        if engine.log:
            # What was staged of a task that the edit took as finished would bring its questions back.
            staged = [(task.id, log.standing(engine, task)) for task in unfinished if task.status == DONE]
            journal.write(log.take(engine), staged, status=status, release=True)
    finally:
        give_back(store, claim)


def journal_of(runtime: Owner, store: Store, fold: Fold, commits: Commits) -> Journal:
    """A journal that goes on with a folded thread."""
    run = fold.run or runtime.ids()
    journal = Journal(clock=runtime.clock, run_id=lambda: run, sinks=runtime.sinks)
    bytes_ = store.durable or bool(fold.meta.get("chained"))
    journal.keep(
        commits,
        fold.engine,
        codec=fold.engine.plan.codec if bytes_ else None,
        chain=fold.chain,
        names=fold.reader.names,
        meta=fold.meta,
        tail=fold.tail,
        salts_seed=runtime.seed,
    )
    journal.seq, journal.cause, journal.seed = fold.seq, fold.cause, fold.seed
    journal.fingerprint, journal.status = fold.fingerprint, fold.status
    return journal


def _edited(engine: Engine, values: Any, as_node: Any) -> events.ThreadUpdated:
    """The event that an edit comes to; changes nothing but what arrived at joins."""
    node = _node(engine, as_node)
    checked = checked_update(engine, {} if values is None else values, what="What update() was given")
    kept = tracked(engine, checked)
    if engine.codec is not None:
        try:
            kept = stamp(engine.codec, kept)
        except NotStorable as error:
            raise not_storable(engine, error, "update() was given a value") from error
    if node is None:
        return events.ThreadUpdated(values=kept, as_node=None, open=bool(engine.tasks))
    unfinished = [task for task in engine.tasks if task.node.name == node and task.status not in (DONE, HANDLED)]
    if unfinished:
        return events.ThreadUpdated(values=kept, as_node=node, open=True)
    plan = engine.plan.by_name[node]
    after = folded_in(engine, checked, reset=False)
    routed = engine.router().ask(plan, engine.make_view(after))
    moved = engine.arrive(routed)
    before = engine.waiting if engine.tasks else [i for i in engine.due if i.is_send or i.node is not plan]
    due = merged(before, routed)
    next_, sends, errors, handled = due_parts(due)
    return events.ThreadUpdated(
        values=kept,
        as_node=node,
        next=next_,
        sends=sends,
        errors=errors,
        joins=join_standings(engine, moved),
        open=bool(engine.tasks),
        handled=handled,
    )


def _node(engine: Engine, as_node: Any) -> str | None:
    if as_node is None:
        return None
    name = node_name(as_node)
    if isinstance(name, str) and name in engine.plan.by_name:
        return name
    guess = closest(name, engine.plan.by_name)
    raise InputError(
        f"as_node= names a node that the graph does not have: {name!r}.",
        code="unknown-node",
        where=engine.where(),
        known=f"nodes {names(engine.plan.by_name)}",
        fix=f"Did you mean {guess!r}?" if guess else "Name a node of the graph.",
    )


# -- forks -------------------------------------------------------------------------------------------------------


def fork(runtime: Owner, thread: str, at: int | None, to: str | None) -> str:
    """Begin a new thread with what *thread* had come to after its entry *at*; returns its id.

    Raises:
        InputError: No such thread or entry, or *to* exists.
    """
    check_id(thread)
    target = check_id(to if to is not None else runtime.ids())
    store = the_store(runtime)
    loaded = store.load(thread)
    whole = at is None or (at.__class__ is int and at == loaded.head.seq)
    if not whole:
        loaded = loaded_at(store, thread, at)
    fold = folded(runtime, loaded, upto=None if whole else at)
    if is_of_older_graph(fold.engine):
        raise InputError(
            f"Entry {fold.seq} of thread {thread!r} was written by an older graph, with other fields than this one has.",
            code="graph-changed",
            where=f"fork of thread {thread!r}",
            known=f"fields {names(fold.engine.values)}",
            fix="Fork a later entry, from the migration on, or fork with the older graph.",
            thread=thread,
            seq=fold.seq,
        )
    made_at = runtime.clock()
    claim = take(store, target, create=True, lease_s=runtime.lease_s, at=made_at)
    try:
        if claim.head.seq:
            raise InputError(
                f"There is a thread {target!r} already.",
                code="thread-exists",
                where=f"fork of thread {thread!r}",
                fix="Fork to another id, or delete that thread first.",
                thread=target,
            )
        _begin_fork(runtime, store, fold, loaded if whole else None, Commits(store, claim, "sync"))
    finally:
        give_back(store, claim)
    return target


def _begin_fork(runtime: Owner, store: Store, fold: Fold, whole: Loaded | None, commits: Commits) -> None:
    engine, source = fold.engine, fold.reader.thread
    chained = store.durable if runtime.chain is None else runtime.chain
    from graphrt._journal.chain import Chain  # loads OpenSSL

    run = fold.run or runtime.ids()
    journal = Journal(clock=runtime.clock, run_id=lambda: run, sinks=runtime.sinks)
    meta = {"chained": commits.claim.thread if chained else None}
    journal.keep(
        commits,
        engine,
        codec=engine.plan.codec if store.durable or chained else None,
        chain=Chain(commits.claim.thread) if chained else None,
        names=Names(),
        meta=meta,
        tail=0,
        salts_seed=runtime.seed,
    )
    journal.given_at = commits.claim.head.created_at
    status = fold.status if whole is None else "running" if whole.head.owned else whole.head.status
    state = saved(engine)
    forked = events.ThreadForked(source=source, at=fold.seq, state=standing_of(fold, state, status))
    answers = [("", events.InterruptAnswered(id=id_, answer=answer)) for id_, answer in fold.answers.items()]
    staged = {task.id: log.standing(engine, task) for task in engine.tasks}
    for key, body in whole.staged if whole is not None else ():
        staged.setdefault(key, list(fold.reader.staged(key, body)))
    if status == "interrupted" and not engine.open_interrupts():
        status = "running"
    journal.write([("", forked), *answers], list(staged.items()), status=status, release=True)


def standing_of(fold: Fold, state: events.StateSaved, status: Status) -> events.StateSaved:
    return replace(state, status=status, run=fold.run, seed=fold.seed, fingerprint=fold.fingerprint)


# -- all threads -------------------------------------------------------------------------------------------------------


def check_threads(runtime: Reads) -> tuple[Verdict, ...]:
    """Judge every thread that is not completed, and fold those that may go on, as a run would."""
    store = the_store(runtime)
    found: list[Verdict] = []
    for head in store.heads():
        verdict = _judged(runtime, store, head) if head.status != "completed" else None
        if verdict is not None:
            found.append(verdict)
    return tuple(found)


def _judged(runtime: Reads, store: Store, head: Head) -> Verdict | None:
    """What becomes of one thread; None if it was deleted meanwhile.

    Raises:
        StoreError: The store could not be asked.
    """
    verdict = Verdict(thread=head.thread, status=head.status, kind="unreadable", target=runtime.graph.fingerprint)
    try:
        loaded = store.load(head.thread)
        meta = read_meta(loaded.meta, head.thread)
        reader = Reader(store, head.thread, runtime.graph.__graphrt_plan__.codec, meta.get("names", ()))
        verdict = judge(runtime.graph, meta, reader, loaded, runtime.migrations)
        # A run that loads the thread of its own graph need not know what is pending; who asks here does.
        verdict = replace(verdict, pending=pending(reader, loaded))
        if verdict.ok:
            folded(runtime, loaded)
    except GraphrtError as error:
        if error.code == "unknown-thread":
            return None
        if isinstance(error, StoreError) and error.code in WORLD:
            raise
        return replace(verdict, kind="unreadable", reasons=(error.what, *verdict.reasons))
    return verdict
