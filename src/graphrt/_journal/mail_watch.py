"""Polling for mail and followers while runs continue: one worker thread per store, with one query each for all threads.

Another process cannot interrupt a run directly. It posts a letter, and this worker thread delivers it to the run, which
is cancelled by it or processes it at its next pause. A process that wants to follow a run live registers its interest
in the store. This worker thread notifies the run and passes on its items (`stores.live`). The runs themselves never
query the store, so steps have no overhead. A run that is shorter than the interval causes no query at all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias, final

from graphrt._journal.per_store import PerStore, StoreWorker
from graphrt.stores.filters import FollowerFilter, MailFilter, ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import MailMessage, NewBatch

POLL_S: Final = 0.1
"""Seconds between two queries of the store. A request to cancel must be noticed within 0.2 s on a server."""
LIVE_S: Final = 0.05
"""The same while a run shows live items: the maximum delay until a follower gets them."""
IDLE_S: Final = 0.5
"""Seconds until the worker thread ends if no run is active."""

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


class Handover(NamedTuple):
    """Items of one run on their way into the store."""

    batches: Sequence[NewBatch]
    """The items."""
    places: list[int]
    """The places of these batches, once they are stored."""


@final
class MailWatch(StoreWorker):
    """Delivers the mail of one store's threads to the runs that drive them in this process."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "graphrt-mail")
        self._runs: dict[str, tuple[Deliver, Shown | None]] = {}
        """Active runs, by thread."""
        self._pause_s = POLL_S
        """Seconds until the next query."""

    def add(self, thread: str, deliver: Deliver, shown: Shown | None) -> None:
        """Call *deliver* with mail of *thread* from now on, and *shown* with whether it has a follower, if it is not None.

        A run calls this when it begins, and `remove` when it ends.
        """
        with self._changed:
            self._start()
            self._runs[thread] = deliver, shown

    def remove(self, thread: str, deliver: Deliver) -> None:
        """Stop calling *deliver*, unless another run of the thread has already replaced it."""
        with self._changed:
            # Compared with `==`, because *deliver* is usually a bound method, and each access creates a new object.
            if thread in self._runs and self._runs[thread][0] == deliver:
                del self._runs[thread]

    def _is_busy(self) -> bool:
        """Return whether a run is active."""
        return bool(self._runs)

    def _next(self) -> dict[str, tuple[Deliver, Shown | None]] | None:
        """Return the runs to check, after a pause; None if the worker thread should end."""
        idle_since = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ending and not self._runs, self._pause_s)
                if self._runs:
                    return dict(self._runs)
                if self._ending or time.monotonic() - idle_since >= IDLE_S:
                    self._worker = None  # under the lock: the next `add` starts another one
                    return None

    def _do(self, store: Store, work: dict[str, tuple[Deliver, Shown | None]]) -> None:
        """Check for mail. After an error, the letters wait and the next query finds them."""
        with contextlib.suppress(Exception):
            for head in store.query(ThreadFilter(ids=[*work], has_mail=True)):
                with contextlib.suppress(Exception):
                    work[head.thread][0](store.query(MailFilter(thread=head.thread)))  # calls its `deliver`
        self._look_for_followers(store, {thread: shown for thread, (_, shown) in work.items() if shown is not None})

    def _look_for_followers(self, store: Store, runs: dict[str, Shown]) -> None:
        """Notify each run whether it is followed, and make those that are pass on their collected items.

        *runs* does not include runs in a store without live items.
        """
        self._pause_s = POLL_S
        with contextlib.suppress(Exception):
            followed = {*store.query(FollowerFilter(threads=[*runs]))} if runs else set[str]()
            for thread, shown in runs.items():
                with contextlib.suppress(Exception):
                    if shown.follow(wanted=thread in followed):
                        self._pause_s = LIVE_S
            _hand_over(store, runs.values())


def _hand_over(store: Store, runs: Iterable[Shown]) -> None:
    """Store the items that *runs* have collected, in one call: for one run, it costs as much as for twenty."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(shown.handing_over()) for shown in runs]
        places = iter(store.relay([one for some in found for one in some.batches]))
        for some in found:
            some.places.extend(islice(places, len(some.batches)))


_WATCHES: Final = PerStore(MailWatch)
watch_of: Final = _WATCHES.of
end: Final = _WATCHES.end
