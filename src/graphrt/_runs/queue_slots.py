"""Places held by claims: they decide who runs a task, and how many tasks of a queue run or begin (decision 0159).

`remote_tasks`, which runs queued tasks for a worker, calls the functions here first.

A *place* is the id of a thread that never gets entries. A worker holds it with a claim. The store knows who has the
claim, frees it when its owner dies, and deletes the thread when it is released. So a limit of *n* across all processes
needs no table: there are *n* places, and a task holds one of them.

A *rate* limits how many tasks may begin in a period. Its places are claimed for the length of the period, and neither
renewed nor released. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Generator
from functools import partial
from hashlib import blake2b
from typing import Final

from graphrt._journal import leases
from graphrt._runs.loading import present_head
from graphrt._runs.run_config import RunConfig
from graphrt.errors import ConflictError
from graphrt.limits import Queue
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit

_BEFORE: Final = "graphrt."
"""Id prefix of places, which sets them apart from user threads."""


def place_of(kind: str, name: str) -> str:
    """Return the id of the place *name* of the kind *kind*.

    Args:
        kind: `task`, `slot.<queue>` or `rate.<queue>`. The queue name was checked with its node: at most 64 letters,
            digits and the characters `_.-`. So it fits into a thread id of at most 200 characters.
        name: For a task: `thread/task`, or just the thread if its tasks run one at a time. For a slot or a rate: the
            number of the place, from 0. It is hashed, since the first kind may be long and contain any character.
    """
    return f"{_BEFORE}{kind}.{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


@contextlib.contextmanager
def held(config: RunConfig, store: Store, place: str) -> Generator[Callable[[], None] | None, None, None]:
    """Hold *place* while the block runs. The value is None if another worker has it; the block still runs.

    Otherwise the value is a function that raises ConflictError if another worker has taken the place because this
    process was suspended for longer than its lease. The function costs nothing while the lease is renewed in time.

    `remote_tasks` holds a task's place this way, so that two workers do not run it at once.
    """
    claim = _claimed(store, place, config.lease_s)
    if claim is None:
        yield None
        return
    with _renewed(store, claim):
        if store.blocking:
            prove = partial(store.commit, claim, Commit(0, 0.0))
            yield partial(leases.renewer_of(store).check, claim, prove)
        else:
            yield lambda: None  # a claim of a store in memory holds until it is released


@contextlib.contextmanager
def _renewed(store: Store, claim: Claim) -> Generator[None, None, None]:
    """Renew *claim* while the block runs, and release it then."""
    if store.blocking:  # a claim of a store in memory holds until it is released: it has no lease to renew
        leases.renewer_of(store).add(claim)
    try:
        yield
    finally:
        if store.blocking:
            leases.renewer_of(store).remove(claim)
        leases.give_back(store, claim)


def _claimed(store: Store, place: str, lease_s: float) -> Claim | None:
    """Claim *place*; None if another owner has it."""
    head = present_head(store, place)
    if head is not None and head.owned:
        return None  # a claim would be refused too, but only after waiting to see whether the owner just died
    claim: Claim | None = None
    try:
        # *at*: the creation time, which is never shown. A place gets no entries, so an empty commit stores the claim.
        claim = leases.take(store, place, create=True, lease_s=lease_s, at=0.0)
        store.commit(claim, Commit(0, 0.0))
    except BaseException as error:
        if claim is not None:
            leases.give_back(store, claim)
        if isinstance(error, ConflictError):  # another process claimed it after the check
            return None
        raise
    return claim


@contextlib.contextmanager
def admitted(config: RunConfig, store: Store, name: str, queue: Queue | None) -> Generator[bool, None, None]:
    """Hold one of the slots of the queue *name* while the block runs, and take one place of its rate.

    Args:
        queue: The limits of the queue, as given to the worker; None for no limits.

    Yields:
        Whether places were free. If not, the task may not begin now.
    """
    with contextlib.ExitStack() as stack:
        if queue is not None and queue.concurrency is not None:
            claim = _any(store, f"slot.{name}", queue.concurrency, config.lease_s)
            if claim is None:
                yield False
                return
            stack.enter_context(_renewed(store, claim))
        if queue is not None and queue.limiter is not None:
            number, period_s = queue.limiter  # at most *number* tasks may begin in *period_s* seconds
            claim = _any(store, f"rate.{name}", number, period_s)  # not renewed: free again when the period is over
            if claim is None:
                yield False  # leaving the block releases the slot
                return
            if not store.blocking:  # a claim in memory has no lease that expires
                timer = threading.Timer(period_s, leases.give_back, (store, claim))
                timer.daemon = True
                timer.start()
        yield True


def _any(store: Store, kind: str, number: int, lease_s: float) -> Claim | None:
    """Claim one of the *number* places of the kind *kind*; None if all are taken."""
    first = random.randrange(number)  # noqa: S311 - so that workers do not all try the same place first
    for at in range(number):
        claim = _claimed(store, place_of(kind, str((first + at) % number)), lease_s)
        if claim is not None:
            return claim
    return None
