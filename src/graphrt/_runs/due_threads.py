"""Driving a thread that is due, as workers do (R21), and parking one whose runs die again and again."""

from __future__ import annotations

from typing import Any

from graphrt import events
from graphrt._engine import emit_events
from graphrt._journal.commit_queue import CommitQueue
from graphrt._journal.leases import give_back, take
from graphrt._journal.reader import Reader
from graphrt._journal.thread_meta import read_meta
from graphrt._runs import reopen_run
from graphrt._runs.arguments import check_number
from graphrt._runs.driving import drive
from graphrt._runs.forking import journal_of
from graphrt._runs.loading import folded, the_store
from graphrt._runs.open_run import adopted
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt.errors import RunFailedError
from graphrt.errors._codes.threads import NOT_DUE, PARKED
from graphrt.stores.protocol import Claim, Loaded


def drive_due(config: RunConfig, thread: str, max_tries: int | None) -> RunResult[Any]:
    """Drive a thread that is due to the end of its run; see `Runtime.drive`."""
    check_number("max_tries", max_tries)

    def admit(claim: Claim, loaded: Loaded) -> None:
        # Under the claim: another worker may have driven the thread since it was found to be due.
        if claim.head.status != "running":
            raise NOT_DUE(thread=thread, status=claim.head.status)
        if max_tries is not None and (tried := _tries(config, thread, loaded)) >= max_tries:
            raise PARKED(thread=thread, tries=tried)

    try:
        opened = reopen_run.continued(config, thread, "retry", None, admit=admit)
    except RunFailedError as error:
        if error.code == PARKED.code:
            _park(config, thread, str(error.what))
        raise
    return drive(opened)


def _tries(config: RunConfig, thread: str, loaded: Loaded) -> int:
    """Return how many runs in a row took the thread over, and ended before they stored anything more."""
    reader = Reader(the_store(config), thread, config.plan.codec, meta=read_meta(loaded.meta, thread), keys=config.keys)
    count = 0
    for record in reversed(loaded.records):
        for path, event in reversed(list(reader.batch(record).logged)):
            if path or not isinstance(event, events.RunResumed):
                return count
            count += 1
    return count


def _park(config: RunConfig, thread: str, reason: str) -> None:
    """End a thread that is due as failed, without running anything."""
    store = the_store(config)
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        if claim.head.status != "running":
            return  # another worker was faster
        fold = folded(config, store.load(thread))
        journal = journal_of(config, store, fold, CommitQueue(store, claim, "sync"))
        engine = fold.engine
        engine.listen(engine.plan.codec, stamps=journal.codec is not None)
        adopted(engine, fold)
        failed = events.RunFailed(error="RunFailedError", message=reason, node=None, folded=emit_events.folded(engine))
        emit_events.note(engine, failed)
        journal.write(emit_events.take(engine), release=True)
    finally:
        give_back(store, claim)
