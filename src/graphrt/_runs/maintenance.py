"""Maintenance verbs of `Runtime`: sweep and verify a whole store; copy, delete, export and import a thread.

Some functions here serve a single verb and only pass the runtime's data (its store, clock and graph) to a function of
the stores. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import sleep
from typing import Any, Final, TypeVar

import typing_extensions as te

from graphrt._display import html_table
from graphrt._drivers.child_threads import Tags
from graphrt._journal import leases, mail_watch
from graphrt._journal.batch_format import blob_names
from graphrt._journal.copies import named
from graphrt._journal.leases import release_now
from graphrt._journal.reader import WORLD
from graphrt._runs.arguments import check_age, check_number, check_status
from graphrt._runs.finding import threads, wanted_threads
from graphrt._runs.inspection import replay
from graphrt._runs.loading import the_store
from graphrt._runs.mail import moves
from graphrt._runs.results import ThreadInfo
from graphrt._runs.run_config import RunConfig
from graphrt._runs.watching import answers_itself, waits_for
from graphrt.errors import ConflictError, GraphrtError, InputError
from graphrt.errors._codes.threads import THREAD_EXISTS, UNKNOWN_THREAD
from graphrt.events.status import Status
from graphrt.stores._copying import some_blobs, whole_of, write_claimed
from graphrt.stores._verifying import Verification, verify
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.ids import check_id, shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.wrapper import StoreWrapper

T = TypeVar("T")

_TOGETHER: Final = 100
"""Number of threads deleted in one transaction. Other writers of the store wait for it to end."""

_PAUSE_S: Final = 0.1
"""Seconds between two such transactions. SQLite has no queue for writers: a waiting one retries about every 0.1 s and,
without pauses, would be locked out until the sweep ends (decision 0045)."""


def delete(config: RunConfig, thread: str) -> None:
    """Delete the thread and everything that belongs to it."""
    store = the_store(config)
    check_id(thread)
    release_now(store, thread)  # a run that met a full disk could not release its claim
    _check_log(config, thread)
    store.delete(thread)
    config.kept.forget(thread)
    _end_log(config, thread)


def _check_log(config: RunConfig, thread: str) -> None:
    """Check that the file of the thread's audit log can be ended, before the thread is deleted."""
    if config.audit is not None:
        config.audit.check_deletable(the_store(config), thread)


def _end_log(config: RunConfig, thread: str) -> None:
    """End or remove the file of the audit log of a thread that was deleted."""
    if config.audit is not None:
        config.audit.deleted(the_store(config), thread, config.clock(), config.user)


def _logged(step: Callable[[], None], failed: list[GraphrtError]) -> bool:
    """Return whether *step* succeeded. A problem with one log does not stop a sweep from processing other threads."""
    try:
        step()
    except GraphrtError as error:
        if error.code in WORLD:
            raise
        if error.code != UNKNOWN_THREAD.code:  # another sweep has deleted it meanwhile
            failed.append(error)
        return False
    return True


class Which(te.TypedDict, total=False):
    """Which threads of a store to sweep, apart from their age; see `Runtime.sweep`. A filter of None matches all."""

    status: Status | None
    """None sweeps those that have ended."""
    graph: str | None
    tenant: str | None
    tags: Tags
    """Only threads that have all of these tags."""
    limit: int | None
    """Maximum number of threads; None deletes all."""


_PAGE: Final = 1_000
"""Threads that are listed at once, so that a sweep with a limit does not list a whole store."""
_ENDED: Final[tuple[Status, ...]] = ("completed", "failed", "cancelled")
"""Statuses of threads that are swept if none is named."""


def old_threads(config: RunConfig, older_than_s: float, filters: Which) -> tuple[ThreadInfo, ...]:
    """Return the threads that `sweep` would delete, by status, then in order of creation.

    Raises:
        InputError: An argument is not valid, or the store cannot find threads by tenant and tags (`store-lacks`).
    """
    return _old(config, _time_before(config, older_than_s), filters)


def _time_before(config: RunConfig, older_than_s: float) -> float:
    """Return the time before which a thread must have been written last, in seconds since the epoch."""
    check_age("older_than_s", older_than_s)
    return config.clock() - older_than_s


def _going_on(store: Store, page: Sequence[ThreadInfo]) -> set[str]:
    """Return the threads of *page* that are or will be due. They are not deleted, however old they are.

    A completed thread is due if it has mail: an input begins its next run. A paused one continues by itself if it has
    mail, or waits for a time, a child thread or a worker of a queue, and not for a person.
    """
    mailed: set[str] = set()
    if "mail" in store.offers:
        having = ThreadFilter(ids=[info.thread for info in page], has_mail=True)
        mailed = {head.thread for head in store.query(having)}
    continuing: set[str] = set()
    for info in page:
        if info.status == "running" or (info.status == "completed" and info.thread in mailed):
            continuing.add(info.thread)
        elif info.status == "interrupted":
            with suppress(InputError):  # another sweep has deleted it meanwhile
                head = store.head(info.thread)
                # By a timer, a child or a worker of a queue; by the expiry of a question; by mail.
                if waits_for(store, head) or answers_itself(store, head) or moves(store, head):
                    continuing.add(info.thread)
    return continuing


def _old(config: RunConfig, before: float, filters: Which) -> tuple[ThreadInfo, ...]:
    """Return the threads to sweep: last written before *before*, not owned, and not continuing by themselves.

    Owned threads are excluded here because `delete_many` skips them, and they must not count towards the limit.
    """
    store, status, limit = the_store(config), filters.get("status"), filters.get("limit")
    check_status(status)
    check_number("limit", limit)
    old: list[ThreadInfo] = []
    for wanted_status in _ENDED if status is None else (status,):
        wanted = wanted_threads(
            wanted_status,
            filters.get("graph"),
            None,  # any beginning of the id
            filters.get("tenant"),
            filters.get("tags", ()),
            None,  # any title
            updated_after=None,
            updated_before=before,
        )
        after: str | None = None
        while limit is None or len(old) < limit:
            page = threads(config, wanted, after=after, limit=_PAGE)
            continuing = _going_on(store, page)
            old += [info for info in page if not info.owned and info.thread not in continuing]
            if len(page) < _PAGE:
                break
            after = page[-1].thread
    return tuple(old[:limit])


def sweep(config: RunConfig, older_than_s: float, filters: Which) -> int:
    """Delete threads not written for *older_than_s* seconds and not held by a run; see `Runtime.sweep`.

    Returns:
        The number of deleted threads.

    Raises:
        GraphrtError: The log file of a thread could not be ended. All other threads were deleted.
    """
    store, before = the_store(config), _time_before(config, older_than_s)
    old = _old(config, before, filters)
    deleted_count, at = 0, 0  # how many were deleted, and how many of *old* were tried
    failed: list[GraphrtError] = []
    while at < len(old):
        if at and store.blocking:  # a store in memory has no other writers to let in
            sleep(_PAUSE_S)
        batch = [info.thread for info in old[at : at + _TOGETHER]]
        at += _TOGETHER
        batch = [thread for thread in batch if _logged(partial(_check_log, config, thread), failed)]
        deleted = store.delete_many(batch, updated_before=before)  # not those that were claimed or written meanwhile
        deleted_count += len(deleted)
        for thread in deleted:
            _logged(partial(_end_log, config, thread), failed)
    if failed:
        raise failed[0]
    return deleted_count


def verified(config: RunConfig, *, replayed: bool) -> Verification:
    """Verify the runtime's store; with *replayed*, also replay the threads of its graph. See `Runtime.verify`."""

    def further(store: Store, thread: str) -> None:
        """Replay *thread* if it belongs to this graph. `verify` calls this for each thread and reports any error."""
        if store.head(thread).graph == config.plan.name:
            replay(config, thread)

    return verify(the_store(config), further if replayed else None)


def shown(config: RunConfig) -> str:
    """Return the configuration of the runtime, as an HTML table for notebooks (`Runtime._repr_html_`)."""
    options = {"store": config.store, "harness": config.harness, "deps": config.deps}
    rows = [(name, type(value).__name__) for name, value in options.items() if value is not None]
    rows += [("limits", repr(config.limits))]
    rows += [] if config.budget is None else [("budget", repr(config.budget))]
    return html_table(f"Runtime of {config.plan.name!r}", rows)


def exported(config: RunConfig, thread: str, to: Any, *, decrypted: bool) -> None:
    """Write the thread to a file, or to another target (*to*); see `Store.export_thread`.

    Args:
        decrypted: Whether an encrypted store may write it in plain.
    """
    from graphrt.stores._moving import export_thread  # imported late: it loads OpenSSL

    store = the_store(config)
    release_now(store, check_id(thread))  # tries again to release a claim of this process whose release failed
    export_thread(store, thread, to, decrypted=decrypted)


def imported(config: RunConfig, source: Any, thread: str | None) -> str:
    """Create a thread from a file, and return its id; see `Store.import_thread`."""
    from graphrt.stores._moving import import_thread  # imported late: it loads OpenSSL

    adopt = config.audit is not None and config.audit.adopt
    return import_thread(
        the_store(config), source, thread=thread, keys=config.keys, at=config.clock(), adopt=adopt, seed=config.seed
    )


def copied(config: RunConfig, thread: str, to: str | None) -> str:
    """Copy a thread, and return the id of the copy; see `Runtime.copy_thread`."""
    target, store, at = check_id(to if to is not None else config.ids()), the_store(config), config.clock()
    loaded = store.load(check_id(thread))
    if not loaded.head.seq:  # it was claimed, and never written
        raise UNKNOWN_THREAD(thread=thread)
    source = whole_of(store, loaded)
    copy = named(
        source,
        shared_id(store, target),
        source=shared_id(store, thread),
        at=at,
        keys=config.keys,
        adopt=config.audit is not None and config.audit.adopt,
        seed=config.seed,
    )
    bodies = (
        *(record.body for record in source.records),
        *source.snapshots.values(),
        *(body for _, body in source.staged),
    )
    blobs = sorted({name for body in bodies for name in blob_names(body)})
    try:
        claim = leases.take(store, target, create=True, lease_s=config.lease_s, at=at)
    except ConflictError:
        raise THREAD_EXISTS(thread=target) from None
    try:
        if claim.head.seq:  # the claim did not create it
            raise THREAD_EXISTS(thread=target)
        write_claimed(store, claim, lambda: copy, lambda: some_blobs(store, loaded, blobs))  # releases it
    except BaseException:
        leases.give_back(store, claim)  # later, if the store fails now; else the id would stay taken
        raise
    return target


def close(config: RunConfig, *, owns_store: bool) -> None:
    """Cancel the active runs, end the shared worker threads, and close an owned store once no run uses it any more."""
    config.active.cancel_all("the runtime was closed")
    config.threads.close()
    if owns_store and config.store is not None:
        config.active.close_when_idle(partial(_close_store, config.store))


def _close_store(store: Store) -> None:
    """Close a store that the runtime opened, and end the worker threads that work for it."""
    try:
        store.close()
    finally:
        leases.end(store)
        mail_watch.end(store)
        while isinstance(store, StoreWrapper):  # readers wait for news of the innermost store
            store = store.store
            mail_watch.end(store)
