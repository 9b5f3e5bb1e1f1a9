"""The states that a thread went through: one snapshot for each commit, pause, failure and cancellation (R18).

All of them are read forward, from the first entry on. The newest few are read backward, a stretch of records at a time,
each folded from the stored snapshot before it: what they cost does not depend on the length of the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, final

from graphrt import events
from graphrt._journal.reader import check_end
from graphrt._journal.thread_fold import CHANGES, Fold
from graphrt._runs.arguments import check_number
from graphrt._runs.inspection import state
from graphrt._runs.loading import Reads, begun, fold_all, folded, from_the_first, start_from, the_store
from graphrt._runs.results import Snapshot
from graphrt.events import Entry
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Loaded, Record, Store

ENDS: Final = frozenset({events.RunInterrupted, events.RunCompleted, events.RunFailed, events.RunCancelled})


def history(runtime: Reads, thread: str, *, limit: int | None, before: int | None) -> tuple[Snapshot[Any], ...]:
    """One snapshot for each commit and each pause, failure or cancellation, newest first.

    A run that completed right after its last commit changed nothing more: the two share a snapshot.

    Raises:
        StoreError: An entry that is read is missing, or not what was written.
    """
    check_id(thread)
    check_number("limit", limit)
    check_number("before", before)
    store = the_store(runtime)
    loaded = store.load(thread)
    newest = _all(runtime, store, loaded, before) if limit is None else _newest(runtime, store, loaded, limit, before)
    if newest and newest[0].seq == loaded.head.seq:
        # Only what is staged beside the journal tells of outcomes in an open superstep.
        newest[0] = Snapshot(
            folded(runtime, loaded),
            seq=newest[0].seq,
            at=newest[0].at,
            status=loaded.head.status,
            values=_values(runtime, thread, newest[0].seq),
        )
    return tuple(newest)


def _all(runtime: Reads, store: Store, loaded: Loaded, before: int | None) -> list[Snapshot[Any]]:
    thread, last = loaded.head.thread, _last(loaded, before)
    stretch = _Stretch(runtime, from_the_first(runtime, thread), loaded, before)
    stretch.read(store.records(thread, after=stretch.began, upto=last), last)
    return stretch.found[::-1]


def _newest(runtime: Reads, store: Store, loaded: Loaded, limit: int, before: int | None) -> list[Snapshot[Any]]:
    """At most *limit* of them, a stretch of records at a time; what comes before it is folded, and not shown."""
    thread, last = loaded.head.thread, _last(loaded, before)
    newest: list[Snapshot[Any]] = []
    shared, most = False, 2 * limit + 8
    while last >= loaded.head.first and len(newest) < limit:
        part = store.load(thread, upto=last - 1)
        fold, _ = begun(runtime, loaded)
        if part.snapshot is not None:
            start_from(fold, part.snapshot)
        read = part.records[-1].seq if part.records else fold.seq
        records = [*part.records, *(store.records(thread, after=read, upto=last) if read < last else ())]
        fold_all(fold, records[:-most])
        stretch = _Stretch(runtime, fold, loaded, before)
        stretch.read(records[-most:], last)
        if shared and stretch.changed:
            stretch.found.pop()  # it is the snapshot of the completion, in the stretch after this one
        newest += stretch.found[::-1]
        shared = stretch.shares or (shared and stretch.changed is None)
        last, before, most = stretch.began, None, 2 * most
    return newest[:limit]


def _last(loaded: Loaded, before: int | None) -> int:
    """The last entry to look at: it may say that it shares the snapshot of the one before it."""
    return loaded.head.seq if before is None else min(before, loaded.head.seq)


@final
class _Stretch:
    """The snapshots of some entries that follow one another."""

    def __init__(self, runtime: Reads, fold: Fold, loaded: Loaded, before: int | None) -> None:
        self._runtime = runtime
        self._fold = fold
        self._before = before
        self.began: int = fold.seq
        """The entry that it begins after."""
        self.found: list[Snapshot[Any]] = []
        """Oldest first."""
        self._oldest = fold.seq < loaded.head.first
        self.changed: bool | None = False if self._oldest else None
        """Whether the newest snapshot so far is of a commit; None if that is the last one of the stretch before."""
        self.shares: bool = False
        """Whether its first snapshot is that of the completion of a run, whose last commit ends the stretch before."""
        if self._oldest and fold.seq and (before is None or fold.seq < before):  # what pruned entries came to
            at = loaded.head.created_at
            values = _values(runtime, fold.reader.thread, fold.seq)
            self.found.append(Snapshot(fold, seq=fold.seq, at=at, status=fold.status, values=values))

    def read(self, records: Iterable[Record], last: int) -> None:
        """Fold *records*, the last of which has the entry *last*.

        Raises:
            StoreError: One is missing or damaged.
        """
        fold, before = self._fold, self._before
        for record in records:
            first = record.seq - record.count + 1
            batch, take = fold.read(record)
            for entry, one in zip(batch.entries(first), batch.logged, strict=True):
                completed = (
                    entry.event.__class__ is events.RunCompleted and not entry.path and self.changed is not False
                )
                if before is not None and entry.seq >= before:
                    if entry.seq == before and completed:
                        self._share()
                    break
                fold.fold([one], entry.seq, batch.run, take)
                if not entry.path:
                    self._note(entry, completed=completed)
        wanted = last if before is None or before > last else before - 1
        check_end(fold.reader.thread, fold.seq, max(wanted, self.began))

    def _note(self, entry: Entry, *, completed: bool) -> None:
        kind = entry.event.__class__
        if kind in CHANGES:
            self._add(entry, entry.seq)
            self.changed = True
        elif kind in ENDS and (self.found or not self._oldest):
            if completed:
                self._share()
            self._add(entry, self._fold.steps_at)
            self.changed = False

    def _share(self) -> None:
        """Drop the snapshot of the last commit: that of the completion which follows it stands for both."""
        if self.changed:
            self.found.pop()
        else:
            self.shares = True

    def _add(self, entry: Entry, values_at: int) -> None:
        fold = self._fold
        values = _values(self._runtime, fold.reader.thread, values_at)
        self.found.append(Snapshot(fold, seq=entry.seq, at=entry.at, status=fold.status, values=values))


def _values(runtime: Reads, thread: str, at: int) -> Callable[[], Any]:
    """Reads the values after the entry *at*, when they are asked for."""
    return lambda: state(runtime, thread, at).values
