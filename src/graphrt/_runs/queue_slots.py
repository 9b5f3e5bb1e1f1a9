"""Places that are held by claims: who runs a task, and how many tasks of a queue run or begin (decision 0159).

`remote_tasks`, which runs a task of a queue for a worker, calls the functions here first.

A *place* is the id of a thread that never gets entries. A worker holds it by a claim. The store knows who has the
claim, frees it when its owner dies, and deletes the thread when it is released. So a limit of *n* over all processes
needs no table of its own: there are *n* places, and a task holds one of them.

A *rate* is a limit of how many tasks may begin in a period. Its places are claimed for the length of the period, and
neither renewed nor released. For the terms, see docs/glossary.md.
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
"""What the ids of places begin with, so that they are not those of a user's threads."""


def place_of(what: str, name: str) -> str:
    """Return the id of the place *name* of the kind *what*.

    Args:
        what: `task`, `slot.<queue>` or `rate.<queue>`. The name of a queue was checked with its node: at most 64
            letters, digits and the characters `_.-`. So it fits into the id of a thread, of at most 200 characters.
        name: Of a task: `thread/task`, or the thread alone if its tasks run one at a time. Of a slot or a rate: the
            number of the place, from 0. It is hashed, since the first kind may be long and have any character.
    """
    return f"{_BEFORE}{what}.{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


@contextlib.contextmanager
def held(config: RunConfig, store: Store, place: str) -> Generator[Callable[[], None] | None, None, None]:
    """Hold *place* while the block runs. The value is None if another worker has it; the block runs all the same.

    Else it is a function that raises ConflictError if another worker has taken the place, because this process was
    stopped for longer than its lease. It costs nothing while the lease was renewed in time.

    `remote_tasks` holds the place of a task by this, so that two workers do not run it at once.
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
        return None  # a claim would be refused too, after it had waited to see whether the owner has just died
    claim: Claim | None = None
    try:
        # *at*: when it was created, never shown. A place gets no entries, so a commit of nothing stores the claim.
        claim = leases.take(store, place, create=True, lease_s=lease_s, at=0.0)
        store.commit(claim, Commit(0, 0.0))
    except BaseException as error:
        if claim is not None:
            leases.give_back(store, claim)
        if isinstance(error, ConflictError):  # another process claimed it after the look
            return None
        raise
    return claim


@contextlib.contextmanager
def admitted(config: RunConfig, store: Store, name: str, queue: Queue | None) -> Generator[bool, None, None]:
    """Hold one of the places of the queue *name* while the block runs, and take one of its rate.

    Args:
        queue: The limits of the queue, as the worker was given them; None for none.

    Yields:
        Whether there were such places. If not, the task may not begin now.
    """
    with contextlib.ExitStack() as stack:
        if queue is not None and queue.concurrency is not None:
            claim = _any(store, f"slot.{name}", queue.concurrency, config.lease_s)
            if claim is None:
                yield False
                return
            stack.enter_context(_renewed(store, claim))
        if queue is not None and queue.limiter is not None:
            number, period_s = queue.limiter  # so many tasks may begin in so many seconds
            claim = _any(store, f"rate.{name}", number, period_s)  # not renewed: free again when the period is over
            if claim is None:
                yield False  # leaving the block gives the slot back
                return
            if not store.blocking:  # a claim in memory has no lease that runs out
                timer = threading.Timer(period_s, leases.give_back, (store, claim))
                timer.daemon = True
                timer.start()
        yield True


def _any(store: Store, what: str, number: int, lease_s: float) -> Claim | None:
    """Claim one of the *number* places of the kind *what*; None if all are taken."""
    first = random.randrange(number)  # noqa: S311 - so that workers do not all try the same place first
    for at in range(number):
        claim = _claimed(store, place_of(what, str((first + at) % number)), lease_s)
        if claim is not None:
            return claim
    return None
