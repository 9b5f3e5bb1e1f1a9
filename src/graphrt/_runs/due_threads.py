"""Drives due threads for workers (rules R21, R23), and parks a thread whose runs die repeatedly.

To *park* a thread is to end it as failed, so that no worker drives it until a person calls `retry`.

`elapsed` returns the answers that the clock gives to open questions now. A thread *sleeps* if an open question is a
TIMER. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import TIMER
from graphrt._journal.leases import take
from graphrt._journal.migrate_thread import codec_to_show
from graphrt._journal.reader import Reader
from graphrt._journal.thread_meta import read_meta
from graphrt._runs import reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.answers import Given, elapsed, sleeping
from graphrt._runs.arguments import check_number
from graphrt._runs.detached import present_result
from graphrt._runs.loading import the_store
from graphrt._runs.open_run import claimed
from graphrt._runs.reopen_run import take_mail
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.run_to_end import drive
from graphrt._runs.state_edits import end
from graphrt.errors import InputError, RunFailedError
from graphrt.errors._codes.threads import NOT_DUE, PARKED
from graphrt.errors._codes.timers import SLEEPING
from graphrt.stores.ids import check_id
from graphrt.stores.values import Claim, StoredThread

_NOT_YET = (NOT_DUE.code, SLEEPING.code)
"""Error codes for a paused thread that has to wait: it is not due, or it is only sleeping."""


def drive_due(config: RunConfig, thread: str, max_tries: int | None) -> RunResult[Any]:
    """Drive a due thread to the end of its run; see `Runtime.drive`.

    Mail is processed first, in separate commits (`reopen_run.take_mail`). It may end the thread, or leave it with work
    to do.

    Args:
        max_tries: How many runs may take over the thread and die before storing anything; None for no limit.
    """
    check_number("max_tries", max_tries)
    has_taken_mail = take_mail(config, thread)
    ended = present_result(config, thread) if has_taken_mail else None
    if ended is not None:
        return ended  # the mail left nothing to drive
    try:
        opened = _open_due(config, thread, max_tries)
        opened.to_be_read()  # by `follow(live=True)` in other processes, from its beginning
        return drive(opened)
    except InputError as error:
        # A letter may have woken the thread needlessly, for instance one about a child that it does not wait for. Then
        # the thread is still paused, and that is the result even if it continues by itself later (`paused=True`).
        paused = present_result(config, thread, paused=True) if has_taken_mail and error.code in _NOT_YET else None
        if paused is None:
            raise
        return paused


def _open_due(config: RunConfig, thread: str, max_tries: int | None) -> ActiveRun:
    """Open the run of a due thread whose mail has been processed.

    Raises:
        InputError: The thread is not due (`not-due`), or is only sleeping (`sleeping`).
        RunFailedError: It was parked (`parked`).
        ConflictError: Another run has it.
    """
    # A paused thread is resumed with the answers given by the clock; a running thread that lost its owner is retried.
    claim = claimed(config, the_store(config), check_id(thread), create=False, at=0.0)
    waits = claim.head.status == "interrupted"

    def admit(claim: Claim, loaded: StoredThread) -> None:
        """Reject the thread if it is no longer due, or must be parked. Called before anything is changed.

        If it raises, the claim is released.
        """
        # Under the claim: another worker may have driven the thread since it was found to be due.
        if claim.head.status != ("interrupted" if waits else "running"):
            raise NOT_DUE(thread=thread, status=claim.head.status)
        if max_tries is not None and not waits and (tries := _tries(config, thread, loaded)) >= max_tries:
            raise PARKED(thread=thread, tries=tries)

    def fire(engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]:
        """Return the clock's answers to the open questions; implements `reopen_run.Prepare`.

        With *reported*, queue workers have reported on tasks of the thread, so it continues without any answer.
        """
        del failed  # only for resuming a failed thread; this one is paused
        open_ = engine.open_interrupts()
        if (due := elapsed(engine, config.clock())) or reported:
            return due
        if any(question.kind == TIMER for question in open_):
            raise sleeping(engine, open_, config.clock())
        raise NOT_DUE(thread=thread, status="interrupted")

    try:
        if waits:  # `continued` loads the thread, calls *admit*, and gets the answers from *fire*
            return reopen_run.continued(config, thread, "resume", fire, admit=admit, claim=claim)
        return reopen_run.continued(config, thread, "retry", None, admit=admit, claim=claim)
    except RunFailedError as error:
        if error.code == PARKED.code:
            _park(config, thread, str(error.what))
        raise


def _tries(config: RunConfig, thread: str, loaded: StoredThread) -> int:
    """Return how many consecutive runs took over the thread and ended without storing anything.

    Each left a `RunResumed` of the top graph (its path is empty) as its only entry. These entries are counted backwards
    from the end of the thread, among the records after the newest stored snapshot. A record holds the entries of one
    commit, as pairs of path and event.
    """
    meta = read_meta(loaded.meta, thread)
    codec = codec_to_show(config.plan, config.graph.fingerprint, meta)
    reader = Reader(the_store(config), thread, codec, meta=meta, keys=config.keys)
    count = 0
    for record in reversed(loaded.records):
        for path, event in reversed(list(reader.batch(record).logged)):
            if path or not isinstance(event, events.RunResumed):
                return count
            count += 1
    return count


def _park(config: RunConfig, thread: str, reason: str) -> None:
    """End a due thread as failed, with *reason* as its error, unless another worker was faster.

    Raises:
        ConflictError: Another worker has claimed the thread since `admit` refused it.
    """

    def parked(engine: Engine) -> None:
        """Record that the run failed. `folded` holds checksums of fields, which `replay` compares."""
        folded = emit_events.folded(engine)
        # `node=None`: no node failed.
        event = events.RunFailed(error="RunFailedError", message=reason, node=None, folded=folded)
        emit_events.note(engine, event)

    # `at` is the creation time for new threads; this one exists. `end` changes nothing if its status is no longer
    # "running".
    claim = take(the_store(config), thread, create=False, lease_s=config.lease_s, at=0.0)
    end(config, claim, parked, of=("running",))
