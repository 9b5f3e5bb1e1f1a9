"""`LiveShow`: shows a run, or a task that a worker of its queue runs, to followers, who may come at any time.

Whether the thread has a follower is looked for again and again, and once more before what comes after the items: a
commit, or the report about a task. So the reader of a short run gets its items too. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, final

from graphrt._drivers.run_services import RunServices
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
        relay: Keeps what is shown, and hands it over.
        changing: Guards the change between being followed and not, which several worker threads may find at once.
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
        """Show what happens as for a reader, who may come at any time: a worker drives the run, or runs the task.

        Models are streamed, unless the runtime says otherwise. A thread that a Worker finds due may be followed already.
        Other runs wait for the first look of `mail_watch`, to save a read.
        """
        services = self._services
        services.streams = True if services.streams is None else services.streams
        self.look()

    def _put(self, mode: str, item: Any, task: Task | None) -> None:
        """Keep an item for followers, who are looked for before each commit from now on. Called from any worker thread."""
        self._hand_over_first()
        self._relay.put(mode, item, task)

    def _hand_over_first(self) -> None:
        """Have items handed over before each commit from now on."""
        if self._commits is not None:
            self._commits.before = self.before_next

    def before_next(self) -> None:
        """Hand over what comes before a commit or a report; a run may end before anything has looked for followers."""
        relay = self._relay
        if relay.has_shown and not relay.is_followed:
            self.look()
        relay.flush()

    def look(self) -> bool:
        """Look for followers, and do as `follow`."""
        with suppress(StoreError):  # a failure to show items must not end the run
            return self.follow(wanted=bool(self._store.query(FollowerFilter(threads=[self._thread]))))
        return False

    def follow(self, *, wanted: bool) -> bool:
        """Begin or end to hand live items over; return whether to look again soon.

        That is so if the thread is followed, or if its open tasks have shown something for which a follower may come.
        """
        relay = self._relay
        with self._changing:
            if wanted != relay.is_followed:
                self._hand_over_first()
                if not wanted:
                    relay.flush()
                relay.follow(wanted=wanted)
                self._services.relay(self._put, is_followed=wanted)
        return wanted or relay.has_shown

    def flush(self) -> None:
        """Hand over the live items that were collected; called after each look at the store."""
        self._relay.flush(again=True)
