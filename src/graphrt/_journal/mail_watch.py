"""Looking for mail and for followers while runs go on: one worker thread per store, one query each for all threads.

Another process cannot interrupt a run. It posts a letter, and this worker thread hands it to the run, which is
cancelled by it or takes it at its next pause. Likewise a process that wants to see a run live notes its interest in the
store, and this worker thread tells the run and hands over what it shows (`stores.live`). The runs themselves never
query the store, so a step costs nothing. For a run that is shorter than the interval, there is no query at all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, final

from graphrt._journal.per_store import PerStore, StoreWorker
from graphrt.stores.filters import FollowerFilter, MailFilter, ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import MailMessage

POLL_S: Final = 0.1
"""Seconds between two looks at the store. A request to cancel is to be seen within 0.2 s on a server."""
LIVE_S: Final = 0.05
"""The same while a run has something to show: how long its items wait at most until a follower gets them."""
IDLE_S: Final = 0.5
"""Seconds until the worker thread ends if no run goes on."""

Deliver: TypeAlias = Callable[[Sequence[MailMessage]], None]
"""Called with all letters that wait for a thread, again at each look until a commit has taken them."""


class Shown(Protocol):
    """The part of a run that shows live items (such as tokens) to followers: readers in other processes."""

    def follow(self, *, wanted: bool) -> bool:
        """Begin or end to hand items over; return whether to look again soon, since there is something to show."""
        ...

    def flush(self) -> None:
        """Hand over to the followers, through the store, what was collected."""
        ...


@final
class MailWatch(StoreWorker):
    """Hands the mail of the threads of one store to the runs that drive them in this process."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "graphrt-mail")
        self._runs: dict[str, tuple[Deliver, Shown | None]] = {}
        """Runs that go on, by thread."""
        self._pause_s = POLL_S
        """Seconds until the next look."""

    def add(self, thread: str, deliver: Deliver, shown: Shown | None) -> None:
        """Call *deliver* with mail of *thread* from now on, and *shown* with whether it has a follower, if it is not None.

        A run calls this when it begins, and `remove` when it ends.
        """
        with self._changed:
            self._start()
            self._runs[thread] = deliver, shown

    def remove(self, thread: str, deliver: Deliver) -> None:
        """Stop calling *deliver*, unless another run of the thread has taken its place already."""
        with self._changed:
            # *deliver* is usually a bound method, and Python makes a new object of one for each access: hence `==`.
            if thread in self._runs and self._runs[thread][0] == deliver:
                del self._runs[thread]

    def _is_busy(self) -> bool:
        """Return whether a run goes on."""
        return bool(self._runs)

    def _next(self) -> dict[str, tuple[Deliver, Shown | None]] | None:
        """Return the runs to look for, after a pause; None if the worker thread is to end."""
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
        """Look for mail. After an error, the letters wait, and the next look finds them."""
        with contextlib.suppress(Exception):
            for head in store.query(ThreadFilter(ids=[*work], has_mail=True)):
                with contextlib.suppress(Exception):
                    work[head.thread][0](store.query(MailFilter(thread=head.thread)))  # calls its `deliver`
        self._look_for_followers(store, {thread: shown for thread, (_, shown) in work.items() if shown is not None})

    def _look_for_followers(self, store: Store, runs: dict[str, Shown]) -> None:
        """Say to each run whether it is followed, and let those that are hand over the items they have collected.

        Runs in a store that carries no live items are not among *runs*.
        """
        self._pause_s = POLL_S
        with contextlib.suppress(Exception):
            followed = {*store.query(FollowerFilter(threads=[*runs]))} if runs else set[str]()
            for thread, shown in runs.items():
                with contextlib.suppress(Exception):
                    if shown.follow(wanted=thread in followed):
                        shown.flush()
                        self._pause_s = LIVE_S


_WATCHES: Final = PerStore(MailWatch)
watch_of: Final = _WATCHES.of
end: Final = _WATCHES.end
