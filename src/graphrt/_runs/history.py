"""`history`: one `Snapshot` for each commit, pause, failure and cancellation of a thread.

A `Snapshot` is what the caller gets: the state after one entry. A *stored* snapshot is a cache in the store, from which
later entries can be folded without the earlier ones. CHANGES are the event classes that change the state. `begun`
returns an empty fold with the verdict on the thread's graph, and `start_from` starts it at a stored snapshot.
`check_end` raises if reading did not end with a given entry.

Without a limit, the history is read forward from the first entry. With a limit it is read backward, one stretch of
records at a time, and each stretch is folded from the stored snapshot before it. So the cost of a few snapshots does
not depend on the length of the thread.

A run that completes right after its last commit *shares* one snapshot with it: `RunCompleted` does not change the
state, so only the snapshot of the completion is listed. `_Stretch.shares` and `_Stretch.changed` show when a stretch
boundary lies between the two. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, final

from graphrt import events
from graphrt._journal.reader import check_end
from graphrt._journal.standing import CHANGES
from graphrt._journal.thread_fold import Fold
from graphrt._runs.arguments import check_number
from graphrt._runs.inspection import state
from graphrt._runs.loading import begun, check_named, fold_all, folded, from_the_first, start_from, the_store
from graphrt._runs.results import Snapshot
from graphrt._runs.run_config import RunConfig
from graphrt.events import Entry
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Record, StoredThread

ENDS: Final = frozenset(
    {events.RunInterrupted, events.RunCompleted, events.RunFailed, events.RunCancelled, events.RunHandedOver}
)
"""Events that end a run, or its part in this process: a run that is handed over continues elsewhere."""


def history(config: RunConfig, thread: str, *, limit: int | None, before: int | None) -> tuple[Snapshot[Any], ...]:
    """Return one snapshot for each commit, pause, failure and cancellation, newest first.

    Args:
        limit: Maximum number to return; None returns all.
        before: Only snapshots of entries before this one; None for no limit.

    Raises:
        StoreError: An entry that had to be read is missing or damaged.
    """
    check_id(thread)
    check_number("limit", limit)
    check_number("before", before)
    store = the_store(config)
    loaded = store.load(thread)
    newest = _all(config, store, loaded, before) if limit is None else _newest(config, store, loaded, limit, before)
    if newest and newest[0].seq == loaded.head.seq:
        # Outcomes of an open superstep are staged, not journalled, so the newest snapshot needs the complete fold.
        newest[0] = Snapshot(
            folded(config, loaded),
            seq=newest[0].seq,
            at=newest[0].at,
            status=loaded.head.status,
            head=loaded.head,
            values=_values(config, thread, newest[0].seq),
        )
    return tuple(newest)


def _all(config: RunConfig, store: Store, loaded: StoredThread, before: int | None) -> list[Snapshot[Any]]:
    """Return all snapshots, newest first, from one fold over the whole thread."""
    thread, last = loaded.head.thread, _last(loaded, before)
    fold = from_the_first(config, thread)
    stretch = _Stretch(config, fold, loaded, before)
    stretch.read(store.records(thread, after=stretch.began, upto=last), last)
    check_named(config, fold, loaded.head.seq)
    return stretch.found[::-1]


def _newest(
    config: RunConfig, store: Store, loaded: StoredThread, limit: int, before: int | None
) -> list[Snapshot[Any]]:
    """Return the newest *limit* snapshots, newest first, one stretch of records at a time."""
    thread, last = loaded.head.thread, _last(loaded, before)
    newest: list[Snapshot[Any]] = []
    # Only the last *max_records* records of a stretch are examined entry by entry; the others are folded whole, which
    # is faster. Not every record has a snapshot, so *max_records* is more than *limit*. If it is not enough, it doubles
    # for the next stretch. *shared*: the last commit of the stretch read next shares the snapshot of the completion
    # after it.
    shared, max_records = False, 2 * limit + 8
    while last >= loaded.head.first and len(newest) < limit:
        # `last - 1`: a stored snapshot of the entry *last* itself would leave no record to read.
        part = store.load(thread, upto=last - 1)
        fold, _ = begun(config, loaded)
        if part.snapshot is not None:
            start_from(fold, part.snapshot)
        read = part.records[-1].seq if part.records else fold.seq
        records = [*part.records, *(store.records(thread, after=read, upto=last) if read < last else ())]
        fold_all(fold, records[:-max_records])
        stretch = _Stretch(config, fold, loaded, before)
        stretch.read(records[-max_records:], last)
        if not newest:
            check_named(config, fold, loaded.head.seq)
        if shared and stretch.changed:
            stretch.found.pop()  # the completion in the stretch after this one shares it
        newest += stretch.found[::-1]
        shared = stretch.shares or (shared and stretch.changed is None)
        last, before, max_records = stretch.began, None, 2 * max_records  # everything left is before *before*
    return newest[:limit]


def _last(loaded: StoredThread, before: int | None) -> int:
    """Return the number of the last entry to read.

    *before* itself is also read: if it is a completion, the commit before it shares its snapshot and is not listed.
    """
    return loaded.head.seq if before is None else min(before, loaded.head.seq)


@final
class _Stretch:
    """The snapshots of a stretch of consecutive entries.

    Args:
        config: Configuration of the runtime, used to read a snapshot's values at first access.
        fold: The thread up to the entry before the stretch.
        loaded: The thread in its current state.
        before: Only snapshots of entries before this one; None for no limit.
    """

    def __init__(self, config: RunConfig, fold: Fold, loaded: StoredThread, before: int | None) -> None:
        self._config = config
        self._fold = fold
        self._before = before
        self._head = loaded.head
        self.began: int = fold.seq
        """Number of the last entry before the stretch."""
        self.found: list[Snapshot[Any]] = []
        """The snapshots, oldest first."""
        self._oldest = fold.seq < loaded.head.first
        """Whether no entry remains before the stretch: it starts at the first entry, or right after the pruned ones."""
        self.changed: bool | None = False if self._oldest else None
        """Whether the newest snapshot so far is of a commit. None while there is no snapshot, as it is in an earlier
        stretch; False if no earlier stretch has one either."""
        self.shares: bool = False
        """Whether the first snapshot is of a completion that shares the last commit of the previous stretch."""
        if self._oldest and fold.seq and (before is None or fold.seq < before):  # the snapshot that a prune kept
            at = loaded.head.created_at  # no remaining entry has its time
            values = _values(config, fold.reader.thread, fold.seq)
            self.found.append(Snapshot(fold, seq=fold.seq, at=at, status=fold.status, head=self._head, values=values))

    def read(self, records: Iterable[Record], last: int) -> None:
        """Fold *records*, the last of which holds the entry *last*, and collect their snapshots.

        Raises:
            StoreError: A record is missing or damaged.
        """
        fold, before = self._fold, self._before
        for record in records:
            first = record.seq - record.count + 1
            batch = fold.read(record)
            for entry, logged in zip(batch.entries(first), batch.logged, strict=True):
                completed = (
                    entry.event.__class__ is events.RunCompleted and not entry.path and self.changed is not False
                )
                if before is not None and entry.seq >= before:  # not listed; examined only for a shared snapshot
                    if entry.seq == before and completed:
                        self._share()
                    break
                fold.fold([logged], entry.seq, batch.run)
                if not entry.path:  # entries of nested graphs have a path and no snapshots
                    self._note(entry, completed=completed)
        # *before* itself was examined but not folded.
        wanted = last if before is None or before > last else before - 1
        check_end(fold.reader.thread, fold.seq, max(wanted, self.began))

    def _note(self, entry: Entry, *, completed: bool) -> None:
        """Add the snapshot of *entry*, if it changed the state or ended a run.

        Args:
            completed: The entry is a completion that shares the snapshot of the commit before it.
        """
        kind = entry.event.__class__
        if kind in CHANGES:
            self._add(entry, entry.seq)
            self.changed = True
        elif kind in ENDS and (self.found or not self._oldest):  # without an earlier state, an end has none to show
            if completed:
                self._share()
            self._add(entry, self._fold.steps_at)  # `steps_at`: the last entry that changed the state
            self.changed = False

    def _share(self) -> None:
        """Drop the snapshot of the last commit, since the completion right after it gets the snapshot of both."""
        if self.changed:
            self.found.pop()
        else:
            self.shares = True

    def _add(self, entry: Entry, values_at: int) -> None:
        """Add the snapshot of *entry*, with the values that the state had after the entry *values_at*."""
        fold = self._fold
        values = _values(self._config, fold.reader.thread, values_at)
        self.found.append(
            Snapshot(fold, seq=entry.seq, at=entry.at, status=fold.status, head=self._head, values=values)
        )


def _values(config: RunConfig, thread: str, at: int) -> Callable[[], Any]:
    """Return a function that reads the values after the entry *at*, for `Snapshot.values`.

    Values are read only at first access, since most snapshots of a history are listed without them.
    """
    return lambda: state(config, thread, at).values
