"""Read-only verbs about one or two threads: state at any entry, replay, and the difference of two runs.

Nothing is written and no node runs. Replay calls routers and reducers, which are pure (R13).

Each event of an entry has a path, which is empty for the top graph. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import dropwhile
from typing import Any, Final

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.erased_values import erased_in
from graphrt._engine.erased_work import holds_erased
from graphrt._engine.evolve import evolve
from graphrt._engine.pending_as_data import due_parts
from graphrt._journal.leases import release_now
from graphrt._journal.migrate_thread import codec_to_show
from graphrt._journal.reader import Reader
from graphrt._journal.thread_fold import Fold
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.deep_equal import alike
from graphrt._runs.entries import entries
from graphrt._runs.entry_differences import common
from graphrt._runs.loading import folded, from_the_first, load, loaded_at, the_store
from graphrt._runs.mail import has_input
from graphrt._runs.results import Divergence, Snapshot, ThreadInfo
from graphrt._runs.run_config import RunConfig
from graphrt.errors import GraphrtError, ReplayDivergedError
from graphrt.errors._codes.threads import REPLAY_DIVERGED, UNKNOWN_RUN
from graphrt.events import Entry
from graphrt.stores.ids import check_id, shared_id
from graphrt.stores.values import Head


def state(config: RunConfig, thread: str, at: int | None = None) -> Snapshot[Any]:
    """Return the thread in its current state, or as it was after entry *at*; see `Runtime.state`."""
    check_id(thread)
    store = the_store(config)
    release_now(store, thread)  # an unreleased claim of this process would make an ended run look active
    loaded = loaded_at(store, thread, at)  # rejects an *at* that is not an int or not an entry
    head = loaded.head
    whole = at is None or at == head.seq  # then the open superstep is included
    fold = folded(config, loaded, upto=None if whole else at)
    if at is None or whole:
        # A thread driven by a run counts as running, even if its last commit says otherwise. A "new" thread has no
        # entries yet.
        status = head.status if not head.owned or head.status == "new" else "running"
        if status == "completed" and has_input(store, thread):  # the next run begins by itself
            status = "running"
        return Snapshot(fold, seq=head.seq, at=head.updated_at, status=status, head=head)
    return Snapshot(fold, seq=at, at=_time(fold, loaded.records, head.updated_at), status=fold.status, head=head)


def info(config: RunConfig, head: Head) -> ThreadInfo:
    """Return the thread of *head* for a listing.

    Its error is read only on access, since most callers do not need it.
    """
    return ThreadInfo(head, partial(_error, config, head.thread))


def _error(config: RunConfig, thread: str) -> str | None:
    """Return why the thread failed: the error's class and message; None if the journal does not have them."""
    event = last_failure(config, thread)
    return None if event is None else f"{event.error}: {event.message}"


def last_failure(config: RunConfig, thread: str) -> events.RunFailed | None:
    """Return the thread's last failure; None if no entry records one. Reads only the records after the newest snapshot.

    `Runtime.wait` raises that error for a run that failed in another process.
    """
    store = the_store(config)
    loaded = store.load(thread)
    meta = read_meta(loaded.meta, thread)
    codec = codec_to_show(config.plan, config.graph.fingerprint, meta)
    reader = Reader(store, thread, codec, meta=meta, keys=config.keys)
    for record in reversed(loaded.records):  # those after the newest snapshot; a failure is usually in the last one
        for path, event in reversed(list(reader.batch(record).logged)):
            if isinstance(event, events.RunFailed) and not path:
                return event
    return None


def _time(fold: Fold, records: Any, otherwise: float) -> float:
    """Return when the last folded entry was written; *otherwise* if its record was not loaded.

    Args:
        records: The loaded records, in order. They do not include the entry's record if a snapshot ends exactly there.
    """
    # The records end with the entry's own record, so if any of them has the entry, the last one does.
    last = next((record for record in reversed(records) if record.seq >= fold.seq), None)
    if last is None:
        return otherwise
    entries = fold.reader.batch(last).entries(last.seq - last.count + 1, fold.reader.thread)
    return next((entry.at for entry in entries if entry.seq == fold.seq), otherwise)


def replay(config: RunConfig, thread: str) -> Snapshot[Any]:
    """Fold the thread from its first entry, and call every router again; see `Runtime.replay`.

    The thread is folded twice: `present` as a resume folds it, from the newest snapshot, and `fold` from the oldest
    entry, where each commit and each route is computed again and compared with its entry. Both must end in the same
    state.

    Entries of an older graph, before a migration (R14), are folded without calling this graph's routers.

    Raises:
        ReplayDivergedError: A router makes a different choice, or a reducer produces different values, than when the
            entries were written. `seq` is the entry; `expected` and `got` show the difference. Values are compared at
            the end of each run.
        StoreError: An entry is damaged.
    """
    check_id(thread)
    store = the_store(config)
    current = load(config, thread)
    head = store.head(thread)
    fold = from_the_first(config, thread)
    # Routers of this graph did not decide the entries up to *older*. `migrated` is set if the journal ends before a
    # migration that the next run will write: all entries are older.
    older = _last_of_older_graph(config, thread) if current.migrated is None else head.seq
    for record in store.records(thread, after=fold.seq):
        batch = fold.read(record)
        first = record.seq - record.count + 1
        for at, (path, event) in enumerate(batch.logged):
            # Routers are not called with erased values; their choice is in the entry.
            if first + at <= older or (fold.reader.erased and (_meets_erased(event) or holds_erased(fold.engine))):
                fold.fold([(path, event)], first + at, batch.run)
            elif not path:  # entries of a nested graph do not change the top graph
                _again(fold, event, first + at, batch.run)
        fold.seq = record.seq
    replayed_values, stored_values = fold.engine.values, current.engine.values
    # With `migrated`, only `current` was migrated, so the two cannot be compared.
    if current.migrated is None and not alike(replayed_values, stored_values):
        changed = [
            name
            for name in {**stored_values, **replayed_values}
            if not alike(replayed_values.get(name), stored_values.get(name))
        ]
        raise _diverged(fold, fold.seq, f"the values of {', '.join(changed)}", "other values", "state")
    return Snapshot(current, seq=head.seq, at=head.updated_at, status=head.status, head=head)


def _meets_erased(event: Any) -> bool:
    """Return whether *event* writes or sends something that `Runtime.erase` replaced by `Erased()`.

    This includes the arguments of Sends to the next tasks, which are keyed by task position.
    """
    updates = event.updates if isinstance(event, events.TaskSucceeded) else ()
    parts = (*updates, getattr(event, "sends", {}))
    return any(erased_in(value) for part in parts for value in part.values())


def _last_of_older_graph(config: RunConfig, thread: str) -> int:
    """Return the number of the last migration entry, or 0. Routers of older graphs decided the entries before it."""
    went_over = (entry.seq for entry in entries(config, thread) if isinstance(entry.event, events.ThreadMigrated))
    return max(went_over, default=0)


def _again(fold: Fold, event: Any, seq: int, run: str) -> None:
    """Recompute and compare entry *seq* if a router or reducer decided it; fold any other event.

    Args:
        run: Id of the run that wrote the entry.

    Raises:
        ReplayDivergedError: The result differs from *event*.
    """
    engine = fold.engine
    try:
        if isinstance(event, events.SuperstepCommitted):
            if not engine.tasks:  # no task outcome was folded yet, so no event has opened the superstep
                engine.open_superstep()
            engine.forget_store()  # drops the codec; with it, the commit would encode values for a store
            # Reduces the folded outcomes and calls the routers. `after`: tasks at which an `interrupt_after` paused.
            # `past`: a reducer that returned None when the entry was written is not an error here.
            engine.commit(event.after, past=True)
            _compare(fold, event, seq)
            # Without events, only `fold.run` and `fold.seq` are set; the engine has done the rest. Below, `run` is not
            # set: it is for reports on a fold, and replay reports on `present`.
            fold.fold([], seq + 1, run)
            fold.seq = seq
            return
        # An `interrupt_after` holds a superstep after its commit; its routers are called once the pause is answered.
        if isinstance(event, events.TasksRouted) and event.reason == "answered" and engine.unrouted:
            engine.route()
            _compare(fold, event, seq)
            fold.fold([], seq + 1, run)  # as above
            fold.seq = seq
            return
        if isinstance(event, events.TasksRouted) and event.reason == "entry":  # the router of START
            engine.enter()
            _compare(fold, event, seq)
        evolve(engine, event)  # applies the event; after "entry" it sets the due nodes again
        if isinstance(event, (events.RunCompleted, events.RunInterrupted, events.RunFailed, events.RunCancelled)):
            _compare_folded(fold, event.folded, seq)  # checksums of values, by field
        fold.seq = seq
    except ReplayDivergedError:
        raise
    except GraphrtError as error:  # the router or reducer did not raise when the entry was written
        raise _diverged(fold, seq, type(event).__name__, error.what, "error") from error


def _compare(fold: Fold, event: events.SuperstepCommitted | events.TasksRouted, seq: int) -> None:
    """Check that the nodes that are due now, and their Send arguments, are those of *event*."""
    names, sends, _, _ = due_parts(
        fold.engine.following()
    )  # the other two are errors for handlers, which no router decides
    if names != event.next:
        raise _diverged(fold, seq, f"next {event.next}", f"next {names}", "routes")
    if not alike(dict(sends), dict(event.sends)):
        raise _diverged(fold, seq, f"sends {dict(event.sends)!r}", f"sends {dict(sends)!r}", "sends")


def _compare_folded(fold: Fold, before: Mapping[str, str], seq: int) -> None:
    """Check the fields of custom reducers against the checksums *before*, written at the end of the run.

    A field that has no checksum now is skipped: its value is missing or cannot be stored. `replay` compares all values
    at its end.
    """
    now = emit_events.folded(fold.engine)
    changed = [name for name, digest in before.items() if now.get(name, digest) != digest]
    if changed:
        reducers = {name: fold.engine.fields[name].reducer_name for name in changed if name in fold.engine.fields}
        raise _diverged(fold, seq, f"other values of {', '.join(changed)}", f"what {reducers} make now", "reducers")


def _diverged(fold: Fold, seq: int, expected: str, actual: str, part: str) -> ReplayDivergedError:
    """Return the error for the entry *seq*; *part* names what differs: routes, sends, reducers, state or an error."""
    return REPLAY_DIVERGED(
        thread=fold.reader.thread,
        seq=seq,
        part=part,
        expected_text=expected[:200],
        got_text=actual[:200],
        expected=expected,
        got=actual,
        where=fold.engine.where(),
    )


def diff(
    config: RunConfig, left: str, right: str, *, left_run: str | None = None, right_run: str | None = None
) -> Divergence | None:
    """Return the first entries in which two threads, or two of their runs, differ; None if they do not differ.

    Entries are compared by position. Thread and run ids, times and seeds are not compared.

    Raises:
        InputError: A thread has no such run.
    """
    for thread, run in ((left, left_run), (right, right_run)):
        if run is not None and not any(entry.run == run for entry in entries(config, thread)):
            raise UNKNOWN_RUN(thread=thread, run=run)
    left_log = _of_run(_since(config, left, right), left_run)
    right_log = _of_run(_since(config, right, left), right_run)
    while True:
        left_entry, right_entry = next(left_log, None), next(right_log, None)
        if left_entry is None and right_entry is None:
            return None
        if left_entry is None or right_entry is None:
            return Divergence(left=left_entry, right=right_entry, fields=())
        left_fields, right_fields = _bare(left_entry), _bare(right_entry)
        if not alike(left_fields, right_fields):
            differing = tuple(
                sorted(
                    name
                    for name in {*left_fields, *right_fields}
                    if not alike(left_fields.get(name), right_fields.get(name))
                )
            )
            return Divergence(left=left_entry, right=right_entry, fields=differing)


def _since(config: RunConfig, thread: str, other: str) -> Iterator[Entry]:
    """Iterate over the entries of *thread* to compare; if one thread is a fork of the other, only after the fork."""
    own_id, other_id = (shared_id(the_store(config), id_) for id_ in (thread, other))  # a fork names its source so
    fork = next(entries(config, thread), None)
    if fork is not None and isinstance(fork.event, events.ThreadForked) and fork.event.source == other_id:
        # A fork's first record repeats the tags, questions and answers that its source had then.
        return dropwhile(lambda entry: isinstance(entry.event, _REPEATED), entries(config, thread, after=1))
    source = next(entries(config, other), None)
    if source is not None and isinstance(source.event, events.ThreadForked) and source.event.source == own_id:
        return entries(config, thread, after=source.event.at)
    return entries(config, thread)


def _of_run(log: Iterator[Entry], run: str | None) -> Iterator[Entry]:
    """Filter the entries of one run; None keeps those of all runs."""
    # Resuming or copying a thread in between does not change what happened.
    return (entry for entry in log if (run is None or entry.run == run) and not isinstance(entry.event, _NO_DIFFERENCE))


_NO_DIFFERENCE: Final = (events.RunResumed, events.ThreadCopied)


_UNLIKE: Final = frozenset({"thread", "seed", "expires_at", "digests", "exception"})
"""Fields of events that differ between equal runs. Class and message of an exception are separate fields."""
_UNLIKE_STATE: Final = frozenset({"run", "seed", "cause", "names", "digests", "began"})
"""The same for the `StateSaved` of a fork: ids, positions, and encoding data."""
_REPEATED: Final = (events.InterruptRaised, events.InterruptAnswered, events.ThreadLabelled)
"""Events that may follow `ThreadForked` in the first record of a fork."""


def _bare(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry's event that are the same in equal runs; ids without their thread."""
    data = common(entry, _UNLIKE)
    if "state" in data:  # only in the event that a fork begins with
        state: Any = data.pop("state")
        data = {**common(replace(entry, event=state), _UNLIKE_STATE), **data}
    return data
