"""How commits reach the store under each durability (rule R11): at once, in the background, or at the end; in order.

    sync    `put` stores the commit
    async   a worker thread stores it; `put` waits while too many entries are not stored yet
    exit    `flush` and `close` store it

Commits that wait are merged into few: their records are joined. What is staged (outcomes and effects of an open
superstep, kept beside the journal) is dropped by a later commit with `unstage`, which ends that superstep.

A claim is the right to write a thread; the store refuses commits under a void one. A letter is mail that a store keeps
for a thread; a commit may post letters, and delete those that it has taken. An audit log (`Recorder`) and sinks that
measure (`Watcher`) are called after each commit that was stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from graphrt._journal.durability import Durability
from graphrt._journal.family_letters import family_letters
from graphrt._journal.leases import give_back
from graphrt.errors import StoreError
from graphrt.stores.protocol import Claim, Commit, Record, Store

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine

MOST_WAITING: Final = 256
"""Most entries that wait under `async`, and are lost if the process dies (R11)."""


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
class CommitQueue:
    """The commits of one claim, on their way to the store.

    Args:
        mode: The durability: `sync`, `async` or `exit`.

    The methods are not locked against each other: the journal calls them from one thread at a time.
    """

    __slots__ = (
        "_busy",
        "_claim",
        "_done",
        "_error",
        "_mode",
        "_more",
        "_released",
        "_size",
        "_store",
        "_waiting",
        "_worker",
        "before",
        "recorder",
        "watcher",
    )

    def __init__(self, store: Store, claim: Claim, mode: Durability) -> None:
        self._store = store
        self._claim = claim
        self.recorder: Recorder | None = None
        """Records each commit once it is stored; None without an audit log."""
        self.before: Callable[[], None] | None = None
        """Called before each commit. While another process follows the run live, it hands over the items (such as
        tokens) that were shown before the commit. None without a follower."""
        self.watcher: Watcher | None = None
        """Sees how long each commit takes; None if no sink measures that."""
        self._mode = mode
        self._released = False
        """Whether the claim was given back, which the last commit can do itself."""
        self._waiting: list[Commit] = []
        """Commits to store under `async` and `exit`, in order."""
        self._size = 0
        """Entries that are not stored yet, those being stored included."""
        self._error: BaseException | None = None
        """The first error of a commit with entries. Every later `put` raises it, and `flush` too, except under `sync`.

        The journal has numbered and sealed those entries already, so nothing that it makes later fits what is stored.
        """
        self._more: threading.Condition | None = threading.Condition() if mode == "async" else None
        """Guards what the worker thread shares, and announces changes of it. None unless `async`."""
        self._worker: threading.Thread | None = None
        self._done = False
        """Whether `close` was called."""
        self._busy = False
        """Whether the worker thread has taken commits that are not all stored yet."""

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
        same reason the audit log gets no commit. Called in place of `put`, under `sync`.
        """
        self._store.commit(self._claim, Commit(seq, self._claim.head.updated_at, release=True, taken=taken))
        self._released = True
        if self.recorder is not None:
            self.recorder.close()

    def put(self, commit: Commit) -> None:
        """Store *commit*, or queue it.

        After `close` it goes to the store at once, which refuses it because the claim is void: so a late outcome of an
        abandoned task neither waits for ever nor is lost in silence.

        Raises:
            StoreError: The commit, or one before it, could not be stored.
            ConflictError: The claim is void.
        """
        if self.before is not None:
            self.before()
        if self._mode == "sync" or self._done:
            if self._error is not None:
                raise self._error
            try:
                if self.watcher is None:
                    self._store.commit(self._claim, commit)  # as `_commit`, at the cost of one call less
                else:
                    self._commit(commit)
            except BaseException as error:
                # Without records the journal is intact: staging can be repeated. After `close` the store refuses each.
                if commit.records and not self._done:
                    self._error = error if isinstance(error, Exception) else _broken_off(self._claim.thread, error)
                raise
            if self.recorder is not None:
                self._record(self.recorder, commit)
            self._released = commit.release
            return
        if self._mode == "exit":
            self._raise()
            self._waiting.append(commit)
            return
        more = self._more
        assert more is not None  # noqa: S101 - made for this mode
        count = sum(record.count for record in commit.records)
        with more:
            if self._worker is None:
                worker = threading.Thread(target=self._work, name="graphrt-journal", daemon=True)
                worker.start()  # before it is kept: `flush` would wait for one that could not be started
                self._worker = worker
            # An empty queue accepts a commit of any size: one with more entries than the limit would otherwise wait for
            # ever.
            while self._error is None and self._size and self._size + count > MOST_WAITING:
                more.wait()
            self._raise()
            self._waiting.append(commit)
            self._size += count
            more.notify_all()

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

    @staticmethod
    def _record(recorder: Recorder, commit: Commit) -> None:
        """Record *commit*, which is stored, in the audit log."""
        recorder.stored(commit)
        if commit.release:  # verbs that edit a thread, such as `fork`, end with such a commit and never call `close`
            recorder.close()

    def _raise(self) -> None:
        """Raise the error of an earlier commit, if there is one."""
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        """Store what is put until the queue is closed or the store fails; runs in the worker thread."""
        more = self._more
        assert more is not None  # noqa: S101 - made for this mode
        while True:
            with more:
                while not self._waiting and not self._done:
                    more.wait()
                if not self._waiting:
                    return
                batch, self._waiting = self._waiting, []
                self._busy = True
            for merged in merged_groups(batch):
                try:
                    self._commit(merged)
                    if self.recorder is not None:
                        self._record(self.recorder, merged)
                except BaseException as error:  # noqa: BLE001 - the next call raises it
                    with more:
                        self._error = error
                        # Commits behind the failed one expect its entries, and cannot be stored either.
                        self._waiting, self._size = [], 0
                        more.notify_all()
                    return
                with more:
                    self._released = merged.release
                    # Only now, because the limit counts entries that a crash would lose, until the store has them.
                    self._size -= sum(record.count for record in merged.records)
                    more.notify_all()
            with more:
                self._busy = False
                more.notify_all()

    def flush(self) -> None:
        """Return once everything that was put is stored.

        Raises:
            StoreError: A commit could not be stored.
        """
        if self._mode == "sync":
            return  # `put` has stored everything, or said that it could not
        more = self._more
        if more is not None:
            with more:
                while self._error is None and (self._waiting or self._busy):
                    more.wait()
                self._raise()
            return
        self._raise()
        waiting, self._waiting = self._waiting, []
        for merged in merged_groups(waiting):
            try:
                self._commit(merged)
                if self.recorder is not None:
                    self._record(self.recorder, merged)
            except BaseException as error:
                self._error = error  # later commits expect the entries of this one
                raise
            self._released = merged.release

    def close(self) -> None:
        """Store what waits, end the worker thread, and release the claim.

        Raises:
            StoreError: What waited could not be stored.
        """
        try:
            self.flush()
        finally:
            more, worker = self._more, self._worker
            if more is not None and worker is not None:
                with more:
                    self._done = True
                    more.notify_all()
                worker.join()
            self._done = True
            if self.recorder is not None:
                self.recorder.close()
            if not self._released:
                self._released = True  # first, so that a second `close` does not release again
                give_back(self._store, self._claim)


def _broken_off(thread: str, error: BaseException) -> StoreError:
    """Return what later commits raise after Ctrl-C, or another *error* that is not an Exception, interrupted one.

    It is not known whether that commit is stored.
    """
    from graphrt.errors._codes.databases import COMMIT_BROKEN_OFF  # imported late: rarely needed

    return COMMIT_BROKEN_OFF(thread=thread, error=type(error).__name__)


def merged_groups(commits: Sequence[Commit]) -> list[Commit]:
    """Merge *commits* into as few as possible.

    A commit with a snapshot closes its group: the merged commit has one snapshot, and it must be of the last record.
    """
    groups: list[list[Commit]] = [[]]
    for commit in commits:
        groups[-1].append(commit)
        if commit.snapshot is not None:
            groups.append([])
    return [merge(group) for group in groups if group]


def merge(commits: Sequence[Commit]) -> Commit:
    """Merge consecutive commits, of which only the last may have a snapshot, into one with the same effect."""
    if len(commits) == 1:
        return commits[0]
    records: list[Record] = []
    stage: dict[str, Any] = {}
    blobs: dict[str, bytes] = {}
    last: dict[str, Any] = {}  # fields of which the last value counts; None leaves them unchanged
    taken: list[int] = []
    posts: list[tuple[str, str, Any]] = []
    unstage = False
    for commit in commits:
        records += commit.records
        # A store applies `unstage` before `stage`, so what is staged from here on stays.
        if commit.unstage:
            unstage = True
            stage.clear()
        stage.update(commit.stage)
        blobs.update(commit.blobs)
        taken += commit.taken
        posts += commit.posts
        for name in ("meta", "status", "graph", "labels", "questions"):
            value = getattr(commit, name)
            if value is not None:
                last[name] = value
    return Commit(
        expected=commits[0].expected,
        at=commits[-1].at,
        records=tuple(records),
        unstage=unstage,
        stage=tuple(stage.items()),
        snapshot=commits[-1].snapshot,
        blobs=blobs,
        release=commits[-1].release,
        taken=tuple(taken),
        posts=tuple(posts),
        **last,
    )
