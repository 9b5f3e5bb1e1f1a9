"""Forks threads, and checks all threads before a deployment (`check_threads`). Old entries never change.

A fork begins with one entry, `ThreadForked`, that holds the complete state of its source. So it does not depend on the
source, which may be pruned, changed or deleted afterwards (decision 0027).

A `Journal` writes entries and keeps the data they need. The *meta* is data of the whole thread: for a hash-chained
journal, `chained` is the id that the chain began with, including the tenant (`shared_id`). *names* are numbers for
nodes and fields. *tail* is the size of the data written since the last snapshot. `cause` is the last start, resume or
commit, which later entries name as their cause. With a seed, the salts of hashes are reproducible. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import emit_events
from graphrt._engine.child_threads import waiting_for
from graphrt._engine.open_interrupt import THREAD, WITHDRAWN
from graphrt._engine.questions import journalled
from graphrt._engine.snapshot_data import saved
from graphrt._engine.storability import state_not_storable
from graphrt._engine.task import DONE, FAILED, HANDLED, Task
from graphrt._journal.compatibility import Compatibility
from graphrt._journal.compatibility_check import judge, pending
from graphrt._journal.leases import give_back, take
from graphrt._journal.reader import WORLD, Reader
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._journal.thread_fold import Fold, chain_of
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.writer import Journal
from graphrt._runs import listeners
from graphrt._runs.entries import entries
from graphrt._runs.labels import labelled
from graphrt._runs.loading import folded, loaded_at, the_store
from graphrt._runs.results import has_other_fields
from graphrt._runs.run_config import RunConfig
from graphrt._runs.run_log import LOGGER
from graphrt.errors import GraphrtError, StoreError, names
from graphrt.errors._codes.threads import ENTRY_OF_OLDER_GRAPH, THREAD_EXISTS
from graphrt.events.status import Status
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.ids import check_id, shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head, Labels, StoredThread


def journal_of(config: RunConfig, store: Store, fold: Fold, commits: ThreadCommits) -> Journal:
    """Return a journal that continues a folded thread, for verbs that write without a run: edits, labels, prunes, mail.

    Args:
        commits: The commits of the claimed thread that are being stored.
    """
    run = fold.run or config.ids()
    journal = Journal(clock=config.clock, run_id=run, sinks=listeners.of_edits(config))
    commits.recorder = config.recorder(store, commits.claim.thread, fold.chain)  # an audit log: its file and anchors
    journal.go_on(commits, fold, salts_seed=config.seed)
    return journal


def fork(config: RunConfig, thread: str, at: int | None, to: str | None, *, keep_effects: bool = False) -> str:
    """Create a new thread from the state that *thread* had after its entry *at*, and return its id.

    Args:
        at: Number of the entry. None forks the thread in its current state, with the staged data of an open superstep.
        to: Id of the new thread; None generates one.
        keep_effects: Whether the next superstep gets the effects and answers that it had in *thread*, so that its tasks
            do not repeat any call. A fork of the current state already has them in the staged data.

    Raises:
        InputError: There is no such thread or entry, *to* exists, an older graph with other fields wrote the entry, or
            a node that is due is not in the runtime's graph.
        ConflictError: Another run holds the id *to*.
        StoreError: The thread cannot be read, or the fork cannot be stored.
    """
    check_id(thread)
    target = check_id(to if to is not None else config.ids())
    store = the_store(config)
    loaded = store.load(thread)
    # Not `at == ...` alone: True equals 1, and is not the number of an entry. `loaded_at` refuses it.
    whole = at is None or (at.__class__ is int and at == loaded.head.seq)
    if not whole:
        loaded = loaded_at(store, thread, at)
    fold = folded(config, loaded, upto=None if whole else at)
    # Tasks that wait for a child thread run again in the fork and start their own children (R24).
    fold.engine.withdraw({*waiting_for(fold.engine)}, THREAD)  # closes their questions; the kind is the reason
    if has_other_fields(fold.engine) and _is_migrated_after(config, thread, fold.seq):
        raise ENTRY_OF_OLDER_GRAPH(
            seq=fold.seq,
            thread=thread,
            reason="the fields of the state are other ones now",
            has=f"fields {names(fold.engine.values)}",
        )
    # Folding creates stand-ins for nodes of an older graph that the current one lacks. A due stand-in cannot run.
    missing = tuple(name for name in fold.engine.pending() if name not in config.plan.by_name)
    if missing:
        raise ENTRY_OF_OLDER_GRAPH(
            seq=fold.seq,
            thread=thread,
            reason=f"node {missing[0]!r} is due, which this graph does not have",
            nodes=missing,
            has=f"nodes {names(config.plan.by_name)}",
        )
    effects = _kept(config, fold) if keep_effects and not whole else {}
    if not whole:
        _warn_if_nested(config, thread, fold.seq, target)
    made_at = config.clock()
    claim = take(store, target, create=True, lease_s=config.lease_s, at=made_at)
    try:
        if claim.head.seq:  # the claim creates a thread, or takes one that has entries already
            raise THREAD_EXISTS(thread=target, where=f"fork of thread {thread!r}")
        commits = ThreadCommits(store, claim)
        _begin_fork(config, store, fold, loaded if whole else None, effects, commits, loaded.head.tags)
    finally:
        give_back(store, claim)
    return target


def _warn_if_nested(config: RunConfig, thread: str, seq: int, target: str) -> None:
    """Log a warning if entry *seq* is in a nested graph, whose state a fork does not have (decision 0015)."""
    path = next((entry.path for entry in entries(config, thread, after=seq - 1, most=1) if entry.seq == seq), "")
    if path:
        import logging  # imported late, so that a process without logging does not load it

        logging.getLogger(LOGGER).warning(
            "Entry %d of thread %r is inside the nested graph of task %r: in the fork %r, that graph begins again, with the"
            " answers that it had been given by then. keep_effects=True gives it the effects and replies that it had, too.",
            *(seq, thread, path, target),
        )


def _is_migrated_after(config: RunConfig, thread: str, seq: int) -> bool:
    """Return whether a migration follows entry *seq*, so that an older graph wrote that entry."""
    return any(isinstance(entry.event, events.ThreadMigrated) for entry in entries(config, thread, after=seq))


def _kept(config: RunConfig, fold: Fold) -> dict[str, list[emit_events.Logged]]:
    """Return the records of the superstep after the fold in the source, by the keys to stage them under."""
    from graphrt._runs.kept_effects import kept_effects  # imported late: it loads the services of agents

    return kept_effects(config, fold)


def _begin_fork(
    config: RunConfig,
    store: Store,
    fold: Fold,
    whole: StoredThread | None,
    effects: Mapping[str, list[emit_events.Logged]],
    commits: ThreadCommits,
    tags: frozenset[str],
) -> None:
    """Write the first record of a fork, and stage the open superstep again.

    Args:
        fold: The source, folded up to the entry of the fork.
        whole: The source in its current state, if that is forked; None for an earlier entry.
        effects: The records that the next superstep begins with, by the keys to stage them under.
        commits: Writes to the new thread.
        tags: Tags of the source, copied to the fork.
    """
    engine, source = fold.engine, shared_id(store, fold.reader.thread)
    chained = config.chains(store)  # a new chain: the source's chain begins with a different id
    run = fold.run or config.ids()  # the run that the fork continues with; a new one for a thread that never ran
    journal = Journal(clock=config.clock, run_id=run, sinks=listeners.of_edits(config))
    begins = shared_id(store, commits.claim.thread)
    chain = chain_of(begins, None, config.keys) if chained else None
    commits.recorder = config.recorder(store, commits.claim.thread, chain)
    meta: dict[str, Any] = {"chained": begins if chained else None}
    if "renamed" in fold.meta:  # its pending tasks may be called by older names
        meta["renamed"] = fold.meta["renamed"]
    journal.keep(commits, engine, chain=chain, meta=meta, salts_seed=config.seed)
    journal.given_at = commits.claim.head.created_at  # creation and first commit have the same time
    # A thread driven by a run counts as running, even if its last commit says otherwise.
    status = fold.status if whole is None else "running" if whole.head.owned else whole.head.status
    state = saved(engine)
    forked = events.ThreadForked(source=source, at=fold.seq, state=standing_of(fold, state, status))
    for task in engine.tasks:
        # Failed tasks run again with a full set of attempts: the earlier ones are in the source's journal.
        if task.status == FAILED and task.extra is not None:
            task.extra.retries = []
    # After an `interrupt_after`, no superstep is open: the outcomes that wait for routes are in `StateSaved.held` (0058).
    staged = {task.id: emit_events.standing(engine, task) for task in engine.tasks}
    # Effects of running tasks and commits of nested graphs are staged under separate keys. If a task has ended, the
    # source's row also has the end of its nested graph. For other tasks, the keys made by the engine above are kept:
    # they describe the tasks after the withdrawal in `fork`.
    ended = {task.id for task in engine.tasks if task.status in (DONE, HANDLED)}
    for key, body in whole.staged if whole is not None else ():
        if key in ended or key not in staged:
            staged[key] = list(fold.reader.staged(key, body))
    for task in engine.tasks:
        if task.id not in ended:
            staged.update(_withdrawn_inside(task))
    staged.update(effects)
    if status == "interrupted" and not engine.open_interrupts():  # as after the withdrawal in `fork`
        status = "running"  # without an owner: `retry` or `resume` continues it
    first: list[emit_events.Logged] = [("", forked)]  # the path "" is that of the top graph
    if tags:  # a title belongs to one thread, and a fork is a different one (decision 0150)
        first.append(("", labelled(config, Labels(None, tags))))
    # The staged rows hold these questions too, but the next commit removes the rows. Without these entries, a fork of
    # this fork at an entry before that commit would have answers without questions.
    try:
        journal.write(
            [*first, *(("", event) for event in journalled(engine, usage=False))],
            list(staged.items()),
            status=status,
            release=True,
        )
    except NotStorable as error:  # parts of results of reducers are not checked (R7), and a fork's first entry has them
        raise state_not_storable(engine, error, "fork") from error


def _withdrawn_inside(task: Task) -> dict[str, list[emit_events.Logged]]:
    """Return the rows of tasks inside the nested graph of *task* whose questions about child threads were withdrawn.

    Their rows in the source say that they wait.
    """
    child = task.extra.child if task.extra is not None else None
    if child is None:
        return {}
    rows: dict[str, list[emit_events.Logged]] = {}
    for inner in child.tasks:
        asked = inner.extra.interrupts if inner.extra is not None else ()
        if any(question.state == WITHDRAWN and question.reason == THREAD for question in asked):
            rows[inner.id] = emit_events.standing(child, inner)
        rows |= _withdrawn_inside(inner)
    return rows


def standing_of(fold: Fold, state: events.StateSaved, status: Status) -> events.StateSaved:
    """Return *state* with the status and what the fold knows about the run: id, seed and graph fingerprint.

    Snapshots of forks and prunes need this, since `saved` takes the state from the engine, which does not have these.
    """
    return replace(state, status=status, run=fold.run, seed=fold.seed, fingerprint=fold.fingerprint)


def check_threads(config: RunConfig) -> tuple[Compatibility, ...]:
    """Check, for every thread that is not completed, whether the runtime's graph can continue it (R14).

    Compatible threads are also folded, as a run would do (decision 0043). No node runs; `Compatibility` lists the
    questions that this leaves open.
    """
    store = the_store(config)
    verdicts: list[Compatibility] = []
    for head in store.query(ThreadFilter()):
        verdict = _judged(config, store, head) if head.status != "completed" else None
        if verdict is not None:
            verdicts.append(verdict)
    return tuple(verdicts)


def _judged(config: RunConfig, store: Store, head: Head) -> Compatibility | None:
    """Return the verdict on one thread; None if it was deleted meanwhile.

    The verdict is `unreadable` until it is judged.

    Raises:
        StoreError: The store could not be reached, which says nothing about the thread.
    """
    verdict = Compatibility(thread=head.thread, status=head.status, kind="unreadable", target=config.graph.fingerprint)
    try:
        loaded = store.load(head.thread)
        meta = read_meta(loaded.meta, head.thread)
        reader = Reader(store, head.thread, config.plan.codec, meta=meta, keys=config.keys)
        verdict = judge(config.graph, meta, reader, loaded, config.migrations)
        if verdict.kind == "identical":  # `judge` leaves out its pending nodes, which a run does not need
            verdict = replace(verdict, pending=pending(meta, reader, loaded))
        if verdict.ok:
            engine = folded(config, loaded).engine
            # RunStarted names no nodes: if it is the last entry, the current graph determines where START leads.
            verdict = replace(verdict, pending=verdict.pending or engine.pending())
    except GraphrtError as error:
        if error.code == "unknown-thread":
            return None
        if isinstance(error, StoreError) and error.code in WORLD:
            raise
        return replace(verdict, kind="unreadable", reasons=(error.what, *verdict.reasons))
    return verdict
