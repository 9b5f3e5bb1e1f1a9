"""`LiveShow`: shows a run, or a task executed by a queue worker, to followers, which may arrive at any time.

It polls for followers of the thread, and checks once more before the entry that follows the items: a commit, or the
report about a task. So the reader of a short run also gets its items. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, final

from graphrt._drivers.run_services import RunServices
from graphrt._journal.mail_watch import Handover
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._runs.live_relay import LiveRelay
from graphrt.errors import StoreError
from graphrt.stores.filters import FollowerFilter
from graphrt.stores.protocol import Store

if TYPE_CHECKING:
    from graphrt._engine.task import Task


@final
class LiveShow:
    """Connects a relay with the services of its run.

    Implements `_journal.mail_watch.Shown`.

    Args:
        store: The store.
        thread: The thread.
        services: Services of the run, or of the task.
        relay: Keeps the shown items, and hands them over.
        changing: Guards switching between followed and not followed, since several worker threads may detect a change
            at once.
        commits: The commits of the run; None for a task of a queue, which has none.
    """

    __slots__ = ("_changing", "_commits", "_relay", "_services", "_store", "_thread")

    def __init__(
        self,
        store: Store,
        thread: str,
        services: RunServices,
        relay: LiveRelay,
        changing: AbstractContextManager[Any],
        commits: ThreadCommits | None = None,
    ) -> None:
        self._store = store
        self._thread = thread
        self._services = services
        self._relay = relay
        self._changing = changing
        self._commits = commits
        services.relay(self._put, is_followed=False)

    def to_be_read(self) -> None:
        """Show items as if there were a reader, for runs and tasks of workers: a follower may arrive at any time.

        Models are streamed unless the runtime disables it. A thread that a Worker finds due may already have followers.
        Other runs wait for the first poll by `mail_watch`, which saves a read.
        """
        services = self._services
        services.streams = True if services.streams is None else services.streams
        self.look()

    def _put(self, mode: str, item: Any, task: Task | None) -> None:
        """Keep an item for followers, and check for followers before each commit from now on.

        Called from any worker thread.
        """
        self._hand_over_first()
        self._relay.put(mode, item, task)

    def _hand_over_first(self) -> None:
        """From now on, hand over items before each commit."""
        if self._commits is not None:
            self._commits.before = self.before_next

    def before_next(self) -> None:
        """Hand over the items before a commit or a report, since a run may end before the first check for followers."""
        relay = self._relay
        if relay.has_shown and not relay.is_followed:
            self.look()
        relay.flush()

    def look(self) -> bool:
        """Check for followers, then act like `follow`."""
        with suppress(StoreError):  # a failure to show items must not end the run
            return self.follow(wanted=bool(self._store.query(FollowerFilter(threads=[self._thread]))))
        return False

    def follow(self, *, wanted: bool) -> bool:
        """Start or stop handing over live items; return whether to poll again soon because something was just shown."""
        relay = self._relay
        with self._changing:
            if wanted != relay.is_followed:
                self._hand_over_first()
                if not wanted:
                    relay.flush()
                relay.follow(wanted=wanted)
                self._services.relay(self._put, is_followed=wanted)
        return relay.shows_now

    def handing_over(self) -> AbstractContextManager[Handover]:
        """Return a context that yields the live items that were collected; see `_journal.mail_watch.Shown`."""
        return self._relay.handing_over(again=True)

    def flush(self) -> None:
        """Hand over the live items that were collected."""
        self._relay.flush(again=True)
