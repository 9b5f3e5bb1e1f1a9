"""Writing a thread's commits to the store: each is durable before it is visible (rule R11).

A claim is the right to write a thread; the store refuses commits under a void one. A letter is mail that a store keeps
for a thread; a commit may post letters, and delete those that it has taken. An audit log (`Recorder`) and sinks that
measure (`Watcher`) are called after each commit that was stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, final

from graphrt._journal.leases import give_back
from graphrt.errors import StoreError
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit


class Recorder(Protocol):
    """Records commits once they are stored, for an audit log. Implemented by `audit._recorder`."""

    def stored(self, commit: Commit) -> None:
        """Record *commit*, which is stored. An error ends the run."""
        ...

    def close(self) -> None:
        """Release held data. May be called repeatedly."""
        ...


class Watcher(Protocol):
    """Receives the durations of commits; the part of `_runs.listeners.RunWatcher` that is used here."""

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Note that the store accepted a commit.

        Args:
            seq: Number of the thread's last entry after it.
            count: Number of its entries.
            size: Bytes of its bodies and large values.
            seconds: The duration of the commit in the store.
        """
        ...


@final
class ThreadCommits:
    """The commits of one claim.

    The methods are not thread-safe: the journal calls them from one thread at a time.
    """

    __slots__ = ("_closed", "_error", "_released", "_store", "before", "claim", "recorder", "watcher")

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self.claim: Claim = claim
        """The claim under which the commits are written."""
        self.recorder: Recorder | None = None
        """Records each commit once it is stored; None without an audit log."""
        self.before: Callable[[], None] | None = None
        """Called before each commit, to pass on live items (such as tokens) that were shown before it; None as long as
        the run has shown none and has no follower."""
        self.watcher: Watcher | None = None
        """Receives the duration of each commit; None if no sink measures it."""
        self._released = False
        """Whether the claim was released, which the last commit can do itself."""
        self._error: BaseException | None = None
        """The first error of a commit with entries, which every later `put` raises.

        The journal has numbered and sealed those entries already, so later entries do not fit the stored ones.
        """
        self._closed = False

    def settle(self, seq: int, taken: Sequence[int]) -> None:
        """Delete the letters at the positions *taken*, none of which changes the thread, and release the thread.

        No entry is written, so the thread's last entry *seq* and the time of its last commit are unchanged, and the
        audit log gets no commit. Called instead of `put`.
        """
        self._store.commit(self.claim, Commit(seq, self.claim.head.updated_at, release=True, taken=taken))
        self._released = True
        if self.recorder is not None:
            self.recorder.close()

    def put(self, commit: Commit) -> None:
        """Store *commit*. When this returns, it is durable.

        After `close` the store refuses it, because the claim is void. So a late outcome of an abandoned task is not
        lost silently.

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
                self._store.commit(self.claim, commit)  # inlined `_commit`, to save a call
            else:
                self._commit(commit)
        except BaseException as error:
            # Without records the journal is intact and staging can be repeated. After `close` the store refuses every
            # commit.
            if commit.records and not self._closed:
                self._error = error if isinstance(error, Exception) else _broken_off(self.claim.thread, error)
            raise
        if self.recorder is not None:
            self.recorder.stored(commit)
            if commit.release:  # operations that edit a thread, such as `fork`, end this way and never call `close`
                self.recorder.close()
        self._released = commit.release

    def break_off(self, error: BaseException) -> None:
        """Record that Ctrl-C, or another *error* that is not an Exception, interrupted the preparation of a commit.

        Its entries are lost, and no others may follow: an end of the run without its beginning would hide the loss.
        """
        if self._error is None and not isinstance(error, Exception) and not self._closed:
            self._error = _broken_off(self.claim.thread, error)

    def _commit(self, commit: Commit) -> None:
        """Store *commit*, and report its size and duration to the watcher, if there is one."""
        started = time.perf_counter()
        self._store.commit(self.claim, commit)
        if self.watcher is not None:
            seconds, count = time.perf_counter() - started, 0
            size = sum(map(len, commit.blobs.values())) if commit.blobs else 0
            for record in commit.records:  # usually one; a plain loop is cheapest, and every traced step pays for it
                count += record.count
                size += len(record.body)
            self.watcher.committed(commit.expected + count, count, size, seconds)

    def close(self) -> None:
        """Release the claim, if the last commit has not. May be called repeatedly."""
        self._closed = True
        try:
            if self.recorder is not None:
                self.recorder.close()
        finally:
            if not self._released:
                self._released = True  # set first, so that a second `close` does not release again
                give_back(self._store, self.claim)


def _broken_off(thread: str, error: BaseException) -> StoreError:
    """Return the error for later commits after Ctrl-C, or another *error* that is not an Exception, interrupted one.

    It is not known whether that commit is stored.
    """
    from graphrt.errors._codes.databases import COMMIT_BROKEN_OFF  # imported late: rarely needed

    return COMMIT_BROKEN_OFF(thread=thread, error=type(error).__name__)
