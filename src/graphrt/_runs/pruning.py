"""Pruning: entries and large values that a thread can do without are removed (rule R18).

What the removed entries came to is kept as a snapshot. Nothing is removed before that snapshot was read back from the
store, in the way that a resume will read it, and came to the same state: from then on it is the only copy.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from graphrt import events
from graphrt._codec import Codec
from graphrt._engine.emit_events import Logged
from graphrt._engine.snapshot_data import saved
from graphrt._journal.batch_format import Body, blob_names, digest, encode_state
from graphrt._journal.commit_queue import CommitQueue
from graphrt._journal.leases import give_back, take
from graphrt._journal.name_table import Names
from graphrt._journal.reader import WORLD
from graphrt._journal.thread_fold import Fold
from graphrt._runs.active_run import Owner
from graphrt._runs.arguments import check_number
from graphrt._runs.deep_equal import alike
from graphrt._runs.forking import journal_of, standing_of
from graphrt._runs.loading import Reads, begun, folded, start_from, the_store
from graphrt._runs.maintenance import freeing
from graphrt.errors import GraphrtError, StoreError
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Commit, Loaded, Saved, Store


def prune(runtime: Owner, thread: str, *, before: int | None) -> int:
    """Forget the entries up to the last commit before the entry *before*; returns how many went.

    What they came to is kept as a snapshot. None forgets all that the present state does not need. Large values that
    nothing refers to afterwards go with them. If it fails midway, nothing went, or it was told before; doing it again
    ends it.

    Raises:
        InputError: No such thread.
        ConflictError: The thread is being driven.
        StoreError: The store failed, or what it gave back is not what was written. Nothing was removed.
    """
    check_id(thread)
    check_number("before", before)
    store = the_store(runtime)
    return freeing(store, lambda: _pruned(runtime, store, thread, before))


def _pruned(runtime: Owner, store: Store, thread: str, before: int | None) -> int:
    claim = take(store, thread, create=False, lease_s=runtime.lease_s, at=0.0)
    try:
        loaded = store.load(thread)
        upto, told = _last_commit(runtime, store, loaded, before)
        if upto is None or upto < loaded.head.first:
            return 0
        present = folded(runtime, loaded)
        # The snapshot is of the graph that wrote the entries: those after it are folded onto it.
        older = store.load(thread, upto=upto)
        kept = folded(runtime, older, upto=upto, adopt=False)
        if older.snapshot is not None and older.snapshot.seq == upto:  # a record may vouch for its very bytes
            snapshot = older.snapshot.body
        else:
            snapshot, blobs = _snapshot(store, kept)
            _check_written(runtime, loaded, kept, snapshot, blobs)
            store.commit(
                claim, Commit(expected=loaded.head.seq, at=runtime.clock(), snapshot=Saved(upto, snapshot), blobs=blobs)
            )
        _read_back(runtime, store, kept, present)
        news: list[Logged] = [("", present.migrated)] if present.migrated is not None else []
        if not told:  # told before it is done: what is gone without a word would look like damage
            news.append(("", events.HistoryPruned(upto=upto)))
        if news:
            journal = journal_of(runtime, store, present, CommitQueue(store, claim, "sync"))
            journal.saved = (upto, digest(snapshot)) if snapshot.__class__ is bytes else None
            journal.write(news)
        return store.prune(claim, upto, keep_blobs=_needed(store, thread, upto))
    finally:
        give_back(store, claim)


def _last_commit(runtime: Owner, store: Store, loaded: Loaded, before: int | None) -> tuple[int | None, bool]:
    """The last entry that a snapshot can stand for: the end of a record after which no superstep is open.

    And whether an entry tells already that it and those before it went: a prune that was broken off.
    """
    least = loaded.head.seq + 1 if before is None else before
    fold, _ = begun(runtime, loaded)
    found: int | None = None
    told: set[int] = set()
    for record in store.records(loaded.head.thread, after=loaded.head.first - 1):
        path, event = list(fold.reader.batch(record).logged)[-1]
        if isinstance(event, events.HistoryPruned):
            told.add(event.upto)
        if record.seq >= least:
            continue
        if not path and isinstance(event, (events.SuperstepCommitted, events.ThreadForked, events.RunCompleted)):
            found = record.seq
    return found, found in told


def _snapshot(store: Store, fold: Fold) -> tuple[Any, dict[str, bytes]]:
    """The snapshot of *fold*, and the large values that it refers to."""
    state = _standing(fold)
    if not (store.durable or fold.meta.get("chained")):
        return state, {}
    body = Body(fold.engine.plan.codec, Names())
    return encode_state(body, state), body.blobs


def _standing(fold: Fold) -> events.StateSaved:
    return replace(
        standing_of(fold, saved(fold.engine), fold.status),
        cause=fold.cause,
        names=tuple(fold.reader.names.known[: fold.reader.names.told]),
        digests=fold.chain.saved() if fold.chain is not None else {},
    )


# -- nothing is removed before it was read back ------------------------------------------------------------------------


def _check_written(runtime: Reads, loaded: Loaded, kept: Fold, snapshot: Any, blobs: dict[str, bytes]) -> None:
    """See that *snapshot* with its *blobs* alone comes to what *kept* is, before it becomes the thread's newest.

    Raises:
        StoreError: It does not.
    """
    if snapshot.__class__ is not bytes:
        return  # a store in memory keeps the very object
    fold, _ = begun(runtime, loaded)
    fold.reader.only(blobs)
    try:
        start_from(fold, Saved(kept.seq, snapshot))
    except GraphrtError as error:
        raise _not_kept(kept, "the snapshot cannot be read") from error
    _compare(kept, fold)


def _read_back(runtime: Reads, store: Store, kept: Fold, present: Fold) -> None:
    """Load the thread as a resume would, at the snapshot and at its end, and compare both with what they were.

    Raises:
        StoreError: They differ, or cannot be read.
    """
    thread, upto = kept.reader.thread, kept.seq
    loaded = store.load(thread, upto=upto)
    if loaded.snapshot is None or loaded.snapshot.seq != upto:
        raise _not_kept(kept, "the snapshot is not there")
    if loaded.snapshot.body.__class__ is not bytes:
        return
    try:
        again = folded(runtime, loaded, upto=upto, adopt=False)
        now = folded(runtime, store.load(thread))
    except GraphrtError as error:
        if isinstance(error, StoreError) and error.code in WORLD:
            raise
        raise _not_kept(kept, "the thread cannot be read with it") from error
    _compare(kept, again)
    _compare(present, now)


def _compare(written: Fold, read: Fold) -> None:
    wanted, found = _standing(written), _standing(read)
    codec = written.engine.plan.codec
    for field in fields(wanted):
        one, other = getattr(wanted, field.name), getattr(found, field.name)
        if field.name in ("values", "sends"):
            same = one.keys() == other.keys() and all(_same(codec, one[name], other[name]) for name in one)
        elif field.name == "errors":  # an error of a class that is not known comes back as what stands for it
            same = one.keys() == other.keys()
        else:
            same = one == other
        if not same:
            raise _not_kept(written, f"its {field.name} differ")


def _same(codec: Codec, one: Any, other: Any) -> bool:
    """Equal values have equal bytes; classes without an `__eq__` have nothing else to be compared by."""
    return codec.dump(one) == codec.dump(other) or alike(one, other)


def _not_kept(fold: Fold, why: str) -> StoreError:
    return StoreError(
        f"The snapshot of entry {fold.seq} of thread {fold.reader.thread!r} did not come back as it was written: {why}.",
        code="store-damaged",
        where=f"thread {fold.reader.thread!r}",
        known="no entry was removed",
        fix="Do not prune the thread until its store gives back what it is given; replay(thread) checks its entries.",
        thread=fold.reader.thread,
        seq=fold.seq,
    )


# -- large values ------------------------------------------------------------------------------------------------------


def _needed(store: Store, thread: str, upto: int) -> set[str]:
    """Names of the large values that the thread still refers to once everything up to the entry *upto* is gone.

    The claim is held: nobody else adds a reference meanwhile.
    """
    loaded = store.load(thread)
    found = blob_names(loaded.meta)
    for _, body in loaded.staged:
        found |= blob_names(body)
    for record in store.records(thread, after=upto):
        found |= blob_names(record.body)
    snapshot = loaded.snapshot
    while snapshot is not None and snapshot.seq >= upto:
        found |= blob_names(snapshot.body)
        snapshot = store.load(thread, upto=snapshot.seq - 1).snapshot
    return found
