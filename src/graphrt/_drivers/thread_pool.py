"""Thread pool of a runtime: runs the sync nodes of its asyncio runs (rule R19, decision 0049).

Not the loop's default executor: stores use that one, and a fan-out of slow nodes must not keep a commit waiting. A
worker thread starts when there is a job and none is idle, so a chain of nodes needs a single one. Worker threads are
reused. They end when the last run that holds the pool has ended, or with the runtime if that holds the pool too.

Jobs wait in one backlog, first in, first out. An idle worker thread has an inbox of its own, `_Worker.jobs`.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Final, Protocol, final

from graphrt._forks import watch_forks

INSIDE: Final[ContextVar[tuple[ThreadPool, ...]]] = ContextVar("graphrt_inside_pools", default=())
"""Pools that have a worker thread waiting for the code that is running; set in the context of each job."""


class Job(Protocol):
    """A unit of work for a worker thread."""

    done: bool
    """True after it has run. Set by the pool."""
    abandoned: bool
    """True if its result is no longer wanted, so that its worker thread ends after it. Set by the pool."""

    def run(self) -> None:
        """Do the work; must not raise."""
        ...

    def land(self) -> None:
        """Hand the result over; must not raise."""
        ...


@final
class _Worker:
    """A worker thread and its inbox."""

    __slots__ = ("jobs", "thread")

    def __init__(self, pool: ThreadPool, job: Job, number: int) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        """Jobs handed to it while it is idle; None ends it."""
        self.thread = threading.Thread(
            target=pool._serve, args=(self, job), name=f"graphrt-worker-{number}", daemon=True
        )


@final
class ThreadPool:
    """At most *most* worker threads for all runs of one runtime together; abandoned ones do not count."""

    __slots__ = ("__weakref__", "_backlog", "_idle", "_inner", "_lock", "_number", "_threads", "_users", "most")

    def __init__(self, most: int) -> None:
        self.most: int = most
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        """Idle worker threads, used as a stack: the one that became idle last is used first."""
        self._backlog: deque[Job] = deque()
        """Jobs that wait for a worker thread; empty while one is idle."""
        self._threads = 0
        """Number of worker threads, without those whose job was abandoned."""
        self._number = 0
        """Number of the last worker thread, for its name."""
        self._users = 0
        """Runs, and perhaps the runtime, that hold the pool."""
        self._inner: ThreadPool | None = None
        """Pool for runs that begin inside jobs of this one; see `here`."""
        watch_forks(self)

    def here(self) -> ThreadPool:
        """Return the pool for a run that begins here: this one, or an inner one inside a job of this one.

        A node may start a run of its own runtime, for instance by an agent's tool. If both runs shared one pool, the
        inner run could wait for a worker thread while all of them wait for inner runs. With a pool for each level,
        worker threads only wait for those of a later pool, so there is no deadlock.
        """
        pool, waiting = self, INSIDE.get()
        while pool in waiting:
            with pool._lock:
                if pool._inner is None:
                    pool._inner = ThreadPool(self.most)
                pool = pool._inner
        return pool

    def hold(self) -> None:
        """Keep started worker threads alive until the matching `release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Undo one `hold`; the last one ends the idle worker threads and waits for them."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            ending, self._idle = self._idle, []
            self._threads -= len(ending)
        for worker in ending:
            worker.jobs.put(None)
        for worker in ending:
            if worker.thread is not threading.current_thread():  # a thread cannot join itself
                worker.thread.join()

    def submit(self, job: Job) -> None:
        """Hand *job* to an idle worker thread or a new one, or queue it if `most` are busy.

        Raises:
            RuntimeError: See `_start`.
        """
        with self._lock:
            if self._idle:
                self._idle.pop().jobs.put(job)
                return
            if self._threads >= self.most:
                self._backlog.append(job)
                return
            self._threads += 1
        self._start(job)

    def _start(self, job: Job) -> None:
        """Start a worker thread for *job*; `_threads` counts it already.

        If the system refuses another thread, the job waits for one that is running.

        Raises:
            RuntimeError: The system refused, and the pool has no other worker thread.
        """
        self._number += 1
        try:
            _Worker(self, job, self._number).thread.start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    raise
                self._backlog.append(job)

    def withdraw(self, job: Job) -> bool:
        """Take *job* out of the queue; return False if it has begun or ended."""
        with self._lock:
            if job not in self._backlog:
                return False
            self._backlog.remove(job)
            return True

    def abandon(self, job: Job) -> None:
        """Give up a running *job*: its worker thread no longer counts, is replaced if jobs wait, and ends after it."""
        with self._lock:
            if job.done or job.abandoned:
                return
            job.abandoned = True
            if not self._backlog:
                self._threads -= 1
                return
            waiting = self._backlog.popleft()
        self._start(waiting)

    def _serve(self, worker: _Worker, job: Job | None) -> None:
        """Run *job* and the ones after it, in the worker thread, until none is left and no run holds the pool."""
        while job is not None:
            job.run()
            following: Job | None = None
            # Idle before `land`: a run that ends on this result calls `release`, which must find this thread idle.
            with self._lock:
                job.done = True
                leaves = job.abandoned  # set under the lock: a later `abandon` sees `done`
                if leaves:
                    pass  # `abandon` has taken it off the count
                elif self._backlog:
                    following = self._backlog.popleft()
                elif not self._users:
                    self._threads -= 1
                    leaves = True
                else:
                    self._idle.append(worker)
            job.land()
            if leaves:
                return
            job = following if following is not None else worker.jobs.get()
            del following  # an idle worker thread must not keep a job alive

    def before_fork(self) -> None:
        """Do nothing: the child drops all state."""

    def after_fork_in_parent(self) -> None:
        """Do nothing."""

    def after_fork_in_child(self) -> None:
        """Forget the worker threads, which do not exist in the child, and the jobs of the parent."""
        self._lock = threading.Lock()
        self._idle, self._threads = [], 0
        self._backlog.clear()


def inside(pool: ThreadPool) -> tuple[ThreadPool, ...]:
    """Return the value of `INSIDE` for a job of *pool* that is submitted here."""
    return (*INSIDE.get(), pool)
