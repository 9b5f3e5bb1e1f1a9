"""The way of a thread's commits to the store: each is durable before anyone sees it (rule R11).

A claim is the right to write a thread; the store refuses commits under a void one. A letter is mail that a store keeps
for a thread; a commit may post letters, and delete those that it has taken. An audit log (`Recorder`) and sinks that
measure (`Watcher`) are called after each commit that was stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, final

from graphrt._journal.leases import give_back
from graphrt._journal.letters import family_letters
from graphrt.errors import StoreError
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine


class Recorder(Protocol):
    """Records commits once they are stored, for an audit log. Implemented by `audit._recorder`."""

    def stored(self, commit: Commit) -> None:
        """Take note of *commit*, which is stored. An error ends the run."""
        ...

    def close(self) -> None:
        """Free what is held. May be called again."""
        ...


class Watcher(Protocol):
    """Sees how long commits take; the part of `_runs.listeners.RunWatcher` that is used here."""

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Note that the store took a commit.

        Args:
            seq: Number of the thread's last entry after it.
            count: Number of its entries.
            size: Bytes of its bodies and large values.
            seconds: How long the store took.
        """
        ...


@final
class ThreadCommits:
    """The commits of one claim.

    The methods are not locked against each other: the journal calls them from one thread at a time.
    """

    __slots__ = ("_claim", "_closed", "_error", "_released", "_store", "before", "recorder", "watcher")

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self.recorder: Recorder | None = None
        """Records each commit once it is stored; None without an audit log."""
        self.before: Callable[[], None] | None = None
        """Called before each commit, to hand over live items (such as tokens) that were shown before it; None as long
        as the run has shown none, and has no follower."""
        self.watcher: Watcher | None = None
        """Sees how long each commit takes; None if no sink measures that."""
        self._released = False
        """Whether the claim was given back, which the last commit can do itself."""
        self._error: BaseException | None = None
        """The first error of a commit with entries, which every later `put` raises.

        The journal has numbered and sealed those entries already, so nothing that it makes later fits what is stored.
        """
        self._closed = False

    @property
    def claim(self) -> Claim:
        """The claim that the commits are written under."""
        return self._claim

    def addressed(self, commit: Commit, engine: Engine | None, logged: Sequence[Logged]) -> Commit:
        """Return *commit* with letters that its events *logged* cause, to the thread's parent and child threads (R24).

        The journal calls it for commits that set the thread's status or labels. Without *engine* there are no letters.
        """
        if engine is None:
            return commit
        # The last argument is the number of the commit's last entry.
        posts = family_letters(engine, self._claim.thread, logged, commit.expected + len(logged))
        return commit._replace(posts=posts) if posts else commit

    def settle(self, seq: int, taken: Sequence[int]) -> None:
        """Delete the letters at the places *taken*, none of which changes the thread, and release the thread.

        No entry is written, so the thread's last entry stays *seq*, and the time of its last commit stays too. For the
        same reason the audit log gets no commit. Called in place of `put`.
        """
        self._store.commit(self._claim, Commit(seq, self._claim.head.updated_at, release=True, taken=taken))
        self._released = True
        if self.recorder is not None:
            self.recorder.close()

    def put(self, commit: Commit) -> None:
        """Store *commit*. When this returns, it is durable.

        After `close` the store refuses it, because the claim is void: so a late outcome of an abandoned task is not
        lost in silence.

        Raises:
            StoreError: The commit, or one before it, could not be stored.
            ConflictError: The claim is void.
        """
        if self.before is not None:
            self.before()
        if self._error is not None:
            raise self._error
        try:
            if self.watcher is None:
                self._store.commit(self._claim, commit)  # as `_commit`, at the cost of one call less
            else:
                self._commit(commit)
        except BaseException as error:
            # Without records the journal is intact: staging can be repeated. After `close` the store refuses each.
            if commit.records and not self._closed:
                self._error = error if isinstance(error, Exception) else _broken_off(self._claim.thread, error)
            raise
        if self.recorder is not None:
            self.recorder.stored(commit)
            if commit.release:  # verbs that edit a thread, such as `fork`, end so and never call `close`
                self.recorder.close()
        self._released = commit.release

    def break_off(self, error: BaseException) -> None:
        """Note that Ctrl-C, or another *error* that is not an Exception, interrupted the making of a commit.

        Its entries are lost, and none may follow them: an end of the run without its beginning would hide that.
        """
        if self._error is None and not isinstance(error, Exception) and not self._closed:
            self._error = _broken_off(self._claim.thread, error)

    def _commit(self, commit: Commit) -> None:
        """Store *commit*, and report its size and duration to the watcher, if there is one."""
        started = time.perf_counter()
        self._store.commit(self._claim, commit)
        if self.watcher is not None:
            seconds, count = time.perf_counter() - started, 0
            size = sum(map(len, commit.blobs.values())) if commit.blobs else 0
            for record in commit.records:  # usually one; a plain loop is cheapest, and every traced step pays for it
                count += record.count
                size += len(record.body)
            self.watcher.committed(commit.expected + count, count, size, seconds)

    def close(self) -> None:
        """Release the claim, if the last commit has not. May be called again."""
        self._closed = True
        try:
            if self.recorder is not None:
                self.recorder.close()
        finally:
            if not self._released:
                self._released = True  # first, so that a second `close` does not release again
                give_back(self._store, self._claim)


def _broken_off(thread: str, error: BaseException) -> StoreError:
    """Return what later commits raise after Ctrl-C, or another *error* that is not an Exception, interrupted one.

    It is not known whether that commit is stored.
    """
    from graphrt.errors._codes.databases import COMMIT_BROKEN_OFF  # imported late: rarely needed

    return COMMIT_BROKEN_OFF(thread=thread, error=type(error).__name__)
