"""All threads of a store at once: swept, verified. And single ones that go from store to store."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any, Final, Literal, TypeVar, overload

from graphrt._journal.leases import release_now
from graphrt._runs.active_run import Owner
from graphrt._runs.arguments import check_age, check_number, check_status
from graphrt._runs.inspection import info, replay
from graphrt._runs.loading import Reads, the_store
from graphrt._runs.results import ThreadInfo
from graphrt.errors import StoreError
from graphrt.stores._verifying import Verification, verify
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Status, Store
from graphrt.stores.verbs import delete_many

T = TypeVar("T")

_TOGETHER: Final = 100
"""Threads that are deleted at once: other writers of the store wait meanwhile."""

_PAUSE_S: Final = 0.1
"""Between two such batches. Whoever waits for a SQLite file asks again after 0.1 s at most: without a pause, not before
all is done."""


def freeing(store: Store, work: Callable[[], T]) -> T:
    """What *work* returns, which frees room; where the disk is full, it begins anew on what the store kept for this."""
    try:
        return work()
    except StoreError as error:
        make_room = getattr(store, "_make_room", None)
        if error.code != "store-full" or make_room is None or not make_room():
            raise
    return work()


def delete(runtime: Owner, thread: str) -> None:
    """Forget the thread and everything of it."""
    store = the_store(runtime)
    check_id(thread)

    def work() -> None:
        release_now(store, thread)  # a run that found the disk full could not give it back
        store.delete(thread)

    freeing(store, work)


@overload
def sweep(
    runtime: Owner, older_than_s: float, status: Status | None, limit: int | None, *, dry_run: Literal[True]
) -> tuple[ThreadInfo, ...]: ...
@overload
def sweep(
    runtime: Owner, older_than_s: float, status: Status | None, limit: int | None, *, dry_run: Literal[False]
) -> int: ...
def sweep(
    runtime: Owner, older_than_s: float, status: Status | None, limit: int | None, *, dry_run: bool
) -> int | tuple[ThreadInfo, ...]:
    """Delete threads that nobody wrote for *older_than_s* seconds; returns how many went.

    Args:
        limit: Delete so many at most.
        dry_run: Delete nothing, and return those that would go.
    """
    store = the_store(runtime)
    check_age("older_than_s", older_than_s)
    check_status(status)
    check_number("limit", limit)
    before = runtime.clock() - older_than_s
    wanted: tuple[Status, ...] = (status,) if status is not None else ("completed", "failed", "cancelled")
    old = [
        info(runtime, head)
        for one in wanted
        for head in store.heads(status=one, updated_before=before)
        if not head.owned
    ]
    if dry_run:
        return tuple(old[:limit])
    gone, at = 0, 0
    while at < len(old) and (limit is None or gone < limit):
        if at and store.blocking:
            sleep(_PAUSE_S)
        size = _TOGETHER if limit is None else min(_TOGETHER, limit - gone)
        some = [info.thread for info in old[at : at + size]]
        at += size
        gone += len(delete_many(store, some, updated_before=before))  # but those that were taken or written meanwhile
    tidy = getattr(store, "_tidy", None)
    if tidy is not None:
        tidy()
    return gone


def verified(runtime: Reads, *, replayed: bool) -> Verification:
    """Verify the store of the runtime; replay its graph's threads too, if that is asked for."""

    def further(store: Store, thread: str) -> None:
        if store.head(thread).graph == runtime.graph.name:
            replay(runtime, thread)

    return verify(the_store(runtime), further if replayed else None)


def exported(runtime: Owner, thread: str, to: Any, *, decrypted: bool) -> None:
    """Write the thread to a file."""
    from graphrt.stores._moving import export_thread  # loads OpenSSL

    store = the_store(runtime)
    release_now(store, check_id(thread))
    export_thread(store, thread, to, decrypted=decrypted)


def imported(runtime: Owner, source: Any, thread: str | None) -> str:
    """Bring in a thread from a file; returns its id."""
    from graphrt.stores._moving import import_thread  # loads OpenSSL

    return import_thread(the_store(runtime), source, thread=thread)
