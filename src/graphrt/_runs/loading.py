"""Loading a thread: read it from its store, judge its graph, fold its entries, restore its open superstep.

Runs, edits and read-only verbs all load a thread here, so there is one way to continue it (decision 0018). Nothing is
written.

Folding begins at the newest stored snapshot. A record *vouches* for staged data or a snapshot by holding its digest.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphrt._flows.restore import restore_open
from graphrt._journal import compatibility_check, migrate_thread
from graphrt._journal.compatibility import Compatibility
from graphrt._journal.leases import check_unmoved
from graphrt._journal.reader import Reader, check_end, check_name, check_own
from graphrt._journal.staging import outcomes
from graphrt._journal.thread_fold import Fold
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.run_config import RunConfig
from graphrt.errors import InputError
from graphrt.errors._codes.journal import JOURNAL_MISFIT, OTHER_GRAPH
from graphrt.errors._codes.threads import THREAD_WITHOUT_STORE, UNKNOWN_ENTRY, UNKNOWN_THREAD
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Head, Record, StoredSnapshot, StoredThread

if TYPE_CHECKING:
    from graphrt._journal.task_letters import Report
    from graphrt._plan.tables import Plan
    from graphrt._runs.kept_states import KeptState


def the_store(config: RunConfig) -> Store:
    """Return the runtime's store.

    Raises:
        InputError: The runtime has no store.
    """
    if config.store is None:
        raise THREAD_WITHOUT_STORE(what="a thread was asked for", thread=None, where=config.plan.place())
    return config.store


def present_head(store: Store, thread: str) -> Head | None:
    """Return the thread's head (position, status and owner); None if there is no such thread."""
    try:
        return store.head(thread)
    except InputError as error:
        if error.code != UNKNOWN_THREAD.code:
            raise
        return None


def exists(store: Store, thread: str) -> bool:
    """Return whether the thread has entries. A thread that is claimed for its first entry has none yet."""
    head = present_head(store, thread)
    return head is not None and head.seq > 0


def load(config: RunConfig, thread: str, *, upto: int | None = None) -> Fold:
    """Fold the thread in its present state, or as it was after the entry *upto*.

    Raises:
        InputError: There is no such thread or entry, or its graph is not compatible with the runtime's.
        StoreError: The thread cannot be read.
        ReplayDivergedError: A reducer raises that did not raise when the entries were written.
    """
    return folded(config, loaded_at(the_store(config), thread, upto), upto=upto)


def present(config: RunConfig, thread: str, claim: Claim | None = None) -> Fold:
    """Fold the thread in its current state in order to continue it, from the runtime's kept state if there is one.

    Args:
        claim: The claim of the caller; None for a reader.

    Raises:
        ConflictError: Another owner has written the thread since the claim.
        InputError, StoreError, ReplayDivergedError: See `load`.
    """
    loaded, kept_state = config.kept.load(the_store(config), thread)
    if claim is not None:
        check_unmoved(claim, loaded.head)
    return folded(config, loaded, kept_state)


def loaded_at(store: Store, thread: str, at: int | None) -> StoredThread:
    """Read the thread as it was after its entry *at*; None reads it in its present state.

    Raises:
        InputError: There is no such thread or entry.
    """
    # Stores only compare *upto* with numbers. check_at() rejects an *at* that is not an int.
    loaded = store.load(thread, upto=at if at.__class__ is int else None)
    if at is not None:
        check_at(loaded, at)
    return loaded


def check_build(config: RunConfig, fold: Fold) -> None:
    """Check that this build may drive or edit the thread, that is, the thread does not wait for a newer build (R14).

    Raises:
        InputError: The thread waits for one (`older-build`), and the caller did not pass `allow_older=True`.
    """
    if fold.verdict is not None and fold.verdict.waits_for and not config.allow_older:
        raise compatibility_check.older_build(fold.verdict)


def check_at(loaded: StoredThread, at: int) -> None:
    """Check that the thread has the entry *at*.

    Raises:
        InputError: There is no entry *at*, or it was pruned.
    """
    head = loaded.head
    # A prune keeps a snapshot of the last entry it removed, so that entry can still be read.
    first = max(head.first - 1, 1) if head.seq else 1
    # Not isinstance: a bool is not an entry number. A pruned thread needs the snapshot that it begins with.
    is_unknown = at.__class__ is not int or not first <= at <= head.seq
    if is_unknown or (loaded.snapshot is None and head.first > 1):
        raise UNKNOWN_ENTRY(
            thread=head.thread, seq=at, first=first, last=head.seq, wanted="a snapshot of history(thread)"
        )


def begun(config: RunConfig, loaded: StoredThread) -> tuple[Fold, Compatibility]:
    """Return an empty fold of the thread, and the verdict on the thread's graph.

    An older graph may have written the thread. The verdict says whether and how the current graph can continue it
    (R14).

    Raises:
        InputError: The graph of the thread is not compatible with the runtime's.
        StoreError: The meta is damaged, or is that of another thread.
    """
    plan = config.plan
    meta = read_meta(loaded.meta, loaded.head.thread)
    check_own(the_store(config), loaded.head.thread, meta)  # its id was not swapped with that of another thread
    # `keys` verify the MACs of a chained journal; None verifies none.
    reader = Reader(the_store(config), loaded.head.thread, plan.codec, meta=meta, keys=config.keys)
    verdict = compatibility_check.judge(config.graph, meta, reader, loaded, config.migrations)
    if not verdict.is_readable:
        raise compatibility_check.refusal(verdict)
    # `check_state`: whether a run that continues the thread checks for in-place changes by nodes (R15).
    fold = Fold(plan, config.limits, reader, meta, check_state=config.checks_state)
    if plan.hears:
        fold.engine.surround(config.outside(loaded.head.thread))
    fold.verdict = verdict
    migrate_thread.prepare(fold, verdict)  # stand-ins for fields and nodes that the older graph had
    return fold, verdict


def from_the_first(config: RunConfig, thread: str) -> Fold:
    """Return a fold right before the oldest remaining entry: empty, or at the snapshot that a prune kept.

    Verbs that show or compare the whole history, such as `replay` and `steps_of`, start there.
    """
    store = the_store(config)
    loaded = store.load(thread)
    fold, _ = begun(config, loaded)
    if loaded.head.first > 1:
        oldest = store.load(thread, upto=loaded.head.first - 1)
        if oldest.snapshot is not None:
            start_from(fold, oldest.snapshot)
    return fold


def start_from(fold: Fold, snapshot: StoredSnapshot) -> None:
    """Start the empty *fold* at a stored snapshot."""
    fold.begin(fold.reader.saved(snapshot.body, snapshot.seq), snapshot.seq)
    fold.measured = len(snapshot.body)


def refuse_other_graph(plan: Plan, head: Head) -> None:
    """Raise an InputError (`other-graph`) if the thread of *head* belongs to a graph with another name than *plan*."""
    if head.graph not in ("", plan.name):  # the head of a restored fork names none
        reason = f"the thread belongs to graph {head.graph!r}, this one is {plan.name!r}"
        raise OTHER_GRAPH(thread=head.thread, reason=reason, status=head.status)


def folded(
    config: RunConfig,
    loaded: StoredThread,
    kept_state: KeptState | None = None,
    *,
    upto: int | None = None,
    adopt: bool = True,
    letters: Sequence[Report] = (),
    task: str | None = None,
) -> Fold:
    """Judge the thread's graph and fold the *loaded* data; see `load`.

    Args:
        kept_state: The state that *loaded* follows, if `KeptStates.load` returned one.
        upto: Last entry to fold. None folds all and restores the open superstep.
        adopt: Whether to migrate values written by an older graph to the current one. A prune keeps them as they are,
            for the snapshot that it stores.
        letters: Task reports that queue workers sent by mail (R27), to be restored as if they were staged.
        task: Restore only the staged data of this task of the top graph; None restores all. A queue worker runs only
            one task.
    """
    fold, verdict = begun(config, loaded)
    records = loaded.records
    if kept_state is not None:
        kept_state.start(fold)
        records = records[1:]  # the state already includes the first record
    elif loaded.snapshot is not None:
        start_from(fold, loaded.snapshot)
    fold_all(fold, records, upto)
    if kept_state is not None:
        if fold.erasures:  # the kept state may contain the erased value
            config.kept.forget(loaded.head.thread)
            whole = the_store(config).load(loaded.head.thread)
            return folded(config, whole, adopt=adopt, letters=letters, task=task)
        kept_state.catch_up(fold)
    last = loaded.head.seq if upto is None else min(upto, loaded.head.seq)
    check_end(loaded.head.thread, fold.seq, last)
    check_named(config, fold, loaded.head.seq)
    if adopt and verdict.kind != "identical":  # up to here, the values are those of an older graph
        migrate_thread.adopt(fold, verdict)
    if upto is None:
        fold.reader.check_beside(loaded.staged, fold.seq)  # the last records vouch for the staged data
        fold.staged = outcomes(loaded.staged)  # the next journal record vouches for these again
        staged = loaded.staged if task is None else [row for row in loaded.staged if top_task(row[0]) == task]
        open_superstep(fold, staged, letters)
        if verdict.kind == "identical":
            config.kept.keep(fold, loaded, kept_state)
    return fold


def check_named(config: RunConfig, fold: Fold, last: int) -> None:
    """Check that the folded records belong to this thread: they are its own, or were copied with it.

    Args:
        last: Number of the thread's last entry. Entries after the folded ones may name the thread as a copy.

    Raises:
        StoreError: They are those of another thread.
    """
    chain, store, thread = fold.chain, the_store(config), fold.reader.thread
    if chain is None or chain.name == shared_id(store, thread):
        return
    from graphrt._journal.chain import Links  # loaded already, since there is a chain
    from graphrt._journal.verifying import PLAIN  # imported late: it loads what verifies whole stores

    links = Links(chain.leaf, chain.name)
    if fold.seq < last:
        reader = Reader(store, thread, PLAIN, meta=fold.meta, keys=config.keys)
        for record in store.records(thread, after=fold.seq):
            if record.seq - record.count >= fold.seq:  # else it was verified as a whole but folded only in part
                reader.checked(record, links)
    check_name(store, thread, links.name)


def top_task(key: str) -> str:
    """Return the id of the task of the top graph that a staged key, or the id of a nested task, belongs to.

    For example `2.0:ask` of the key `2.0:ask#pay#0`, an effect, and of `2.0:ask/1.0:draft`, a task of a nested graph.
    """
    return key.partition("#")[0].partition("/")[0]


def fold_all(fold: Fold, records: Sequence[Record], upto: int | None = None) -> None:
    """Fold *records*, the last one up to the entry *upto*.

    Raises:
        StoreError: A record is damaged.
        ReplayDivergedError: A reducer raises that did not raise when the entries were written.
    """
    for record in records:
        fold.add(record, upto)


def open_superstep(fold: Fold, staged: Sequence[tuple[str, Any]], letters: Sequence[Report] = ()) -> None:
    """Restore the open superstep from staged data: outcomes, effects and questions of its tasks.

    Raises:
        StoreError: The staged data does not fit the graph.
    """
    if not staged and not letters:
        return
    try:
        known = {key: fold.reader.staged(key, body) for key, body in staged}
        if letters:
            from graphrt._journal.task_letters import merged  # only threads with tasks of queues get such letters

            fold.reported = merged(fold.engine, fold.reader, known, letters)  # adds their reports to *known*
        restore_open(fold.engine, known, fold.nested)
    # Errors of restoring events that name nodes or fields which the graph lacks, or values that do not fit.
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise JOURNAL_MISFIT(
            what="What is staged",
            thread=fold.reader.thread,
            fits=fold.engine.plan.name,
            error=error,
            cause_text=str(error)[:80],
        ) from error
