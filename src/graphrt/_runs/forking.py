"""Forks, and verbs on all threads. Old entries are never changed."""

from __future__ import annotations

from dataclasses import replace

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.snapshot_data import saved
from graphrt._journal.commit_queue import CommitQueue
from graphrt._journal.compatibility import Verdict
from graphrt._journal.compatibility_check import judge, pending
from graphrt._journal.leases import give_back, take
from graphrt._journal.name_table import Names
from graphrt._journal.reader import WORLD, Reader
from graphrt._journal.thread_fold import Fold
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.writer import Journal
from graphrt._runs.active_run import Owner
from graphrt._runs.loading import Reads, folded, loaded_at, the_store
from graphrt._runs.results import is_of_older_graph
from graphrt.errors import GraphrtError, InputError, StoreError, names
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Head, Loaded, Status, Store


def journal_of(runtime: Owner, store: Store, fold: Fold, commits: CommitQueue) -> Journal:
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
        staged=fold.staged,
        salts_seed=runtime.seed,
    )
    journal.seq, journal.cause, journal.seed = fold.seq, fold.cause, fold.seed
    journal.fingerprint, journal.status = fold.fingerprint, fold.status
    return journal


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
        _begin_fork(runtime, store, fold, loaded if whole else None, CommitQueue(store, claim, "sync"))
    finally:
        give_back(store, claim)
    return target


def _begin_fork(runtime: Owner, store: Store, fold: Fold, whole: Loaded | None, commits: CommitQueue) -> None:
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
        staged={},
        salts_seed=runtime.seed,
    )
    journal.given_at = commits.claim.head.created_at
    status = fold.status if whole is None else "running" if whole.head.owned else whole.head.status
    state = saved(engine)
    forked = events.ThreadForked(source=source, at=fold.seq, state=standing_of(fold, state, status))
    staged = {} if engine.held else {task.id: emit_events.standing(engine, task) for task in engine.tasks}
    for key, body in whole.staged if whole is not None else ():
        staged.setdefault(key, list(fold.reader.staged(key, body)))
    if status == "interrupted" and not engine.open_interrupts():
        status = "running"
    journal.write([("", forked), *_questions(fold)], list(staged.items()), status=status, release=True)


def _questions(fold: Fold) -> list[emit_events.Logged]:
    """The journalled questions of the open superstep that are open or answered, each followed by its answer.

    Questions of tasks that an edit marked as finished are left out.

    The staged rows hold these questions too, but the next commit removes the rows. Without these entries, a fork of this
    fork at an entry before that commit would have answers without questions.
    """
    engine = fold.engine
    open_ = {question.id: question for question in engine.open_interrupts()}
    edited = [task for task in engine.tasks if task.extra is not None and task.extra.edited]
    over = tuple(f"{engine.thread}/{task.id}{end}" for task in edited for end in "#/")
    answers = {id_: event for id_, event in fold.answers.items() if not id_.startswith(over)}
    found: list[emit_events.Logged] = []
    for id_, event in fold.asked.items():
        if id_ in open_:
            found.append(("", replace(event, stale=open_[id_].stale, usage=None)))
        elif id_ in answers:
            found += [("", replace(event, usage=None)), ("", answers.pop(id_))]
    return found + [("", event) for event in answers.values()]


def standing_of(fold: Fold, state: events.StateSaved, status: Status) -> events.StateSaved:
    return replace(state, status=status, run=fold.run, seed=fold.seed, fingerprint=fold.fingerprint)


# -- all threads -------------------------------------------------------------------------------------------------------


def check_threads(runtime: Reads) -> tuple[Verdict, ...]:
    """Judge every thread that is not completed, and fold those that may go on, as a run would.

    No node runs: see `Verdict` for what that leaves unknown.
    """
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
        reader = Reader(store, head.thread, runtime.graph.__graphrt_plan__.codec, meta=meta)
        verdict = judge(runtime.graph, meta, reader, loaded, runtime.migrations)
        # A run that loads the thread of its own graph need not know what is pending; who asks here does.
        verdict = replace(verdict, pending=pending(reader, loaded))
        if verdict.ok:
            engine = folded(runtime, loaded).engine
            # The start of a run names no nodes: where START leads is asked of the graph at hand.
            verdict = replace(verdict, pending=verdict.pending or engine.pending())
    except GraphrtError as error:
        if error.code == "unknown-thread":
            return None
        if isinstance(error, StoreError) and error.code in WORLD:
            raise
        return replace(verdict, kind="unreadable", reasons=(error.what, *verdict.reasons))
    return verdict
