"""Polling for mail, followers and news: one worker thread per store, with one query each for all threads.

Another process cannot interrupt a run directly. It posts a letter, and this worker thread delivers it to the run, which
is cancelled by it or processes it at its next pause. A process that wants to follow a run live registers its interest
in the store. This worker thread notifies the run and passes on its items (`stores.live`). The runs themselves never
query the store, so steps have no overhead. A run that is shorter than the interval causes no query at all.

The readers of this process that wait for news are served by the same thread, right after the items were handed over
(`Readers`). Each time that a thread of an idle process wakes, its first queries cost ten times as much as later ones,
so two threads would cost twice as much (decision 0318).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from math import inf
from threading import Condition
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast, final

from graphrt._journal.per_store import PerStore, StoreWorker
from graphrt.stores.filters import FollowerFilter, MailFilter, ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import MailMessage, NewBatch

POLL_S: Final = 0.125
"""Seconds between two queries of the store. A request to cancel must be noticed within 0.2 s on a server."""
LIVE_S: Final = 0.05
"""The same while a run shows live items: the maximum delay until a follower gets them."""
_MORE_S: Final = 0.0025
"""Seconds by which that grows for each further run that shows items, up to `POLL_S`. A hand-over costs as much
processor time as four tokens, so a busy process makes fewer."""
IDLE_S: Final = 0.5
"""Seconds until the worker thread ends if no run is active and no reader waits."""
_EARLY: Final = 0.5
"""Fraction of its pause by which a query may be early, to share a waking of the thread with the readers."""

Deliver: TypeAlias = Callable[[Sequence[MailMessage]], None]
"""Called with all letters that wait for a thread, at each query until a commit has deleted them."""


class Shown(Protocol):
    """The part of a run that shows live items (such as tokens) to followers, that is, readers in other processes."""

    def follow(self, *, wanted: bool) -> bool:
        """Start or stop passing on items. Returns whether to check again soon, because there are items to show."""
        ...

    def handing_over(self) -> AbstractContextManager[Handover]:
        """Return a context that yields the collected items. The caller stores them for the followers, and adds places."""
        ...


class Readers(Protocol):
    """The readers of one store in this process that wait for news."""

    def due_at(self, handed_over_at: float) -> float:
        """Return the monotonic time of their next poll; infinite if none waits. Called with the lock held.

        Those that can wait for live items are due at *handed_over_at* at the earliest.
        """
        ...

    def look(self, store: Store) -> None:
        """Poll for those that are due, or nearly so. Must not raise."""
        ...


R = TypeVar("R", bound=Readers)


class Handover(NamedTuple):
    """Items of one run on their way into the store."""

    batches: Sequence[NewBatch]
    """The items."""
    places: list[int]
    """The places of these batches, once they are stored."""


@final
class MailWatch(StoreWorker):
    """Delivers the mail of one store's threads to the runs that drive them in this process, and serves its readers."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "graphrt-watch")
        self._runs: dict[str, tuple[Deliver, Shown | None]] = {}
        """Active runs, by thread."""
        self._pause_s = POLL_S
        """Seconds between two queries for the runs."""
        self._mail_at = 0.0
        """Monotonic time of the next one."""
        self._is_showing = False
        """Whether a run showed live items at the last one."""
        self._readers: Readers | None = None
        self._wakes_at = -inf
        """Monotonic time at which the worker thread wakes by itself; in the past while it works."""

    @property
    def changed(self) -> Condition:
        """The lock of this object, which its readers share. It wakes the worker thread early."""
        return self._changed

    def readers(self, make: Callable[[MailWatch], R]) -> R:
        """Return the readers of the store, which *make* creates at the first call."""
        with self._changed:
            if self._readers is None:
                self._readers = make(self)
            return cast("R", self._readers)

    def poll_by(self, at: float) -> None:
        """Poll for the readers at the monotonic time *at*, or earlier. The caller holds the lock."""
        self._start()
        if at < self._wakes_at:
            self._changed.notify_all()

    def add(self, thread: str, deliver: Deliver, shown: Shown | None) -> None:
        """Call *deliver* with mail of *thread* from now on, and *shown* with whether it has a follower, if it is not None.

        A run calls this when it begins, and `remove` when it ends.
        """
        with self._changed:
            self._start()  # without a notification, which would cost more than the rest of a short run
            if not self._runs:
                self._mail_at = time.monotonic() + self._pause_s
            self._runs[thread] = deliver, shown

    def remove(self, thread: str, deliver: Deliver) -> None:
        """Stop calling *deliver*, unless another run of the thread has already replaced it."""
        with self._changed:
            # Compared with `==`, because *deliver* is usually a bound method, and each access creates a new object.
            if thread in self._runs and self._runs[thread][0] == deliver:
                del self._runs[thread]

    def _is_busy(self) -> bool:
        """Return whether a run is active or a reader waits."""
        return bool(self._runs) or (self._readers is not None and self._readers.due_at(-inf) < inf)

    def _next(self) -> dict[str, tuple[Deliver, Shown | None]] | None:
        """Return the runs to check, after a pause, none if only readers are due; None if the worker thread should end."""
        idle_at = time.monotonic() + IDLE_S
        with self._changed:
            while True:
                now = time.monotonic()
                mail_at = self._mail_at if self._runs else inf
                handed_over_at = mail_at if self._runs and self._is_showing else -inf
                due_at = min(mail_at, inf if self._readers is None else self._readers.due_at(handed_over_at))
                if due_at <= now:
                    is_due = self._mail_at - self._pause_s * _EARLY <= now
                    return dict(self._runs) if is_due else {}
                if due_at == inf and (self._ending or now >= idle_at):
                    self._worker = None  # under the lock: the next `add` starts another one
                    return None
                # A new run does not wake the thread, so it never sleeps longer than such a run may wait.
                self._wakes_at = min(due_at, now + POLL_S)
                self._changed.wait(self._wakes_at - now)
                self._wakes_at = -inf

    def _do(self, store: Store, work: dict[str, tuple[Deliver, Shown | None]]) -> None:
        """Check for mail, then for news. After an error, the letters wait and the next query finds them."""
        if work:
            with contextlib.suppress(Exception):
                for head in store.query(ThreadFilter(ids=frozenset(work), has_mail=True)):
                    with contextlib.suppress(Exception):
                        work[head.thread][0](store.query(MailFilter(thread=head.thread)))  # calls its `deliver`
            self._look_for_followers(store, {thread: run for thread, (_, run) in work.items() if run is not None})
            self._mail_at = time.monotonic() + self._pause_s
        if self._readers is not None:
            self._readers.look(store)

    def _look_for_followers(self, store: Store, runs: dict[str, Shown]) -> None:
        """Notify each run whether it is followed, and make those that are pass on their collected items.

        *runs* does not include runs in a store without live items.
        """
        showing = 0
        with contextlib.suppress(Exception):
            followed = {*store.query(FollowerFilter(threads=[*runs]))} if runs else set[str]()
            for thread, run in runs.items():
                with contextlib.suppress(Exception):
                    showing += run.follow(wanted=thread in followed)
            _hand_over(store, runs.values())
        self._is_showing = showing > 0
        self._pause_s = min(LIVE_S + _MORE_S * (showing - 1), POLL_S) if showing else POLL_S


def _hand_over(store: Store, runs: Iterable[Shown]) -> None:
    """Store the items that *runs* have collected, in one call: for one run, it costs as much as for twenty."""
    with contextlib.ExitStack() as stack:
        handovers = [stack.enter_context(run.handing_over()) for run in runs]
        places = iter(store.relay([batch for handover in handovers for batch in handover.batches]))
        for handover in handovers:
            handover.places.extend(islice(places, len(handover.batches)))


_WATCHES: Final = PerStore(MailWatch)
watch_of: Final = _WATCHES.of
end: Final = _WATCHES.end
