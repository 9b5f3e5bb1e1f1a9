"""A thread from its store, for a run or for a look: loaded, judged against the graph, folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from graphrt._engine.evolve import Take, as_is
from graphrt._flows.restore import restore_open
from graphrt._journal import compatibility_check, migrate_thread
from graphrt._journal.compatibility import Verdict
from graphrt._journal.reader import Reader, check_end, check_own
from graphrt._journal.staging import outcomes
from graphrt._journal.thread_fold import Fold
from graphrt._journal.thread_meta import read_meta
from graphrt._plan.fields import own
from graphrt.errors import InputError, StoreError
from graphrt.graph import CompiledGraph
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores.protocol import Loaded, Record, Saved, Store


class Reads(Protocol):
    """What reading a thread needs of a runtime."""

    graph: CompiledGraph[Any, Any]
    limits: Limits
    store: Store | None
    migrations: tuple[Migration, ...]

    @property
    def check_state(self) -> bool: ...


def the_store(runtime: Reads) -> Store:
    """The runtime's store.

    Raises:
        InputError: It has none.
    """
    if runtime.store is None:
        raise InputError(
            "This runtime has no store, and so no threads.",
            code="thread-without-store",
            where=runtime.graph.__graphrt_plan__.place(),
            fix='Make it with one: Runtime(graph, store="memory:") or Runtime(graph, store="sqlite:///runs.db").',
        )
    return runtime.store


def load(runtime: Reads, thread: str, *, upto: int | None = None) -> Fold:
    """Fold the thread as it stands, or as it stood after the entry *upto*.

    Raises:
        InputError: There is no such thread or entry, or it belongs to a graph that this one cannot go on with.
        StoreError: It cannot be read.
        ReplayDivergedError: A reducer raises now that did not then.
    """
    return folded(runtime, loaded_at(the_store(runtime), thread, upto), upto=upto)


def loaded_at(store: Store, thread: str, at: int | None) -> Loaded:
    """The thread as read after its entry *at*, or as it is now.

    Raises:
        InputError: There is no such thread or entry.
    """
    # Stores compare numbers; what else a caller may pass is refused here.
    loaded = store.load(thread, upto=at if at.__class__ is int else None)
    if at is not None:
        check_at(loaded, at)
    return loaded


def check_at(loaded: Loaded, at: int) -> None:
    """Refuse an entry that the thread does not have.

    Raises:
        InputError: There is no entry *at*, or it was pruned.
    """
    head = loaded.head
    first = max(head.first - 1, 1) if head.seq else 1
    wrong = at.__class__ is not int or not first <= at <= head.seq
    if wrong or (loaded.snapshot is None and head.first > 1):
        raise InputError(
            f"Thread {head.thread!r} has no entry {at!r} to go back to.",
            code="unknown-entry",
            where=f"thread {head.thread!r}",
            known=f"entries {first} to {head.seq}",
            fix="Take the seq of a snapshot of history(thread).",
            thread=head.thread,
            seq=at,
        )


def begun(runtime: Reads, loaded: Loaded) -> tuple[Fold, Verdict]:
    """A fold of what was *loaded* that has folded nothing yet, and how the thread's graph was judged.

    Raises:
        InputError: It belongs to a graph that this one cannot go on with.
    """
    plan = runtime.graph.__graphrt_plan__
    meta = read_meta(loaded.meta, loaded.head.thread)
    check_own(the_store(runtime), loaded.head.thread, meta)
    reader = Reader(the_store(runtime), loaded.head.thread, plan.codec, meta=meta)
    verdict = compatibility_check.judge(runtime.graph, meta, reader, loaded, runtime.migrations)
    if not verdict.ok:
        raise compatibility_check.refusal(verdict)
    fold = Fold(plan, runtime.limits, reader, meta, check_state=runtime.check_state)
    migrate_thread.prepare(fold, verdict)
    return fold, verdict


def from_the_first(runtime: Reads, thread: str) -> Fold:
    """A fold that stands before the oldest entry that is still there: at its snapshot, if older ones were pruned."""
    store = the_store(runtime)
    loaded = store.load(thread)
    fold, _ = begun(runtime, loaded)
    if loaded.head.first > 1:
        oldest = store.load(thread, upto=loaded.head.first - 1)
        if oldest.snapshot is not None:
            start_from(fold, oldest.snapshot)
    return fold


def start_from(fold: Fold, snapshot: Saved) -> None:
    """Let *fold* begin with a snapshot."""
    take: Take = as_is if snapshot.body.__class__ is bytes else own
    fold.begin(fold.reader.saved(snapshot.body, snapshot.seq), snapshot.seq, take)


def folded(runtime: Reads, loaded: Loaded, *, upto: int | None = None, adopt: bool = True) -> Fold:
    """Fold what was *loaded*, after the thread's graph was judged; see `load`.

    Args:
        adopt: Bring the values over to the present graph; else they stay what the graph that wrote them made of them.
    """
    fold, verdict = begun(runtime, loaded)
    if loaded.snapshot is not None:
        start_from(fold, loaded.snapshot)
    fold_all(fold, loaded.records, upto)
    last = loaded.head.seq if upto is None else min(upto, loaded.head.seq)
    check_end(loaded.head.thread, fold.seq, last)
    if adopt and verdict.kind != "identical":
        migrate_thread.adopt(fold, verdict)
    if upto is None:
        fold.reader.check_beside(loaded.staged, fold.seq)
        fold.staged = outcomes(loaded.staged)
        open_superstep(fold, loaded.staged)
    return fold


def fold_all(fold: Fold, records: Sequence[Record], upto: int | None = None) -> None:
    """Fold *records*, the last one up to the entry *upto*.

    Raises:
        StoreError: One of them is damaged.
        ReplayDivergedError: A reducer raises now that did not then.
    """
    for record in records:
        fold.add(record, upto)


def open_superstep(fold: Fold, staged: Sequence[tuple[str, Any]]) -> None:
    """Bring in what is staged of the superstep that is open.

    Raises:
        StoreError: It does not fit.
    """
    if not staged:
        return
    take: Take = as_is if staged[0][1].__class__ is bytes else own
    try:
        known = {key: fold.reader.staged(key, body) for key, body in staged}
        restore_open(fold.engine, known, fold.answers, fold.withdrawn, fold.nested, take)
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise StoreError(
            f"What is staged of thread {fold.reader.thread!r} does not fit graph {fold.engine.plan.name!r}.",
            code="journal-misfit",
            known=f"{type(error).__name__}: {str(error)[:80]}",
            fix="Use the graph that wrote it, or fork(at=) an entry before the open superstep.",
            thread=fold.reader.thread,
        ) from error
