"""The worker threads of a runtime: they run the sync nodes of its asyncio runs, and are used again by the next ones.

A pool of our own and not the loop's default executor: stores use that one, and a fan-out of slow nodes must not keep
a commit waiting. A worker thread starts when there is a job and none is idle, so a chain of nodes needs a single one.
They end when the last run that uses the pool has ended, or the runtime that keeps it.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Final, Protocol, final

from graphrt._forks import watch_forks

INSIDE: Final[ContextVar[tuple[ThreadPool, ...]]] = ContextVar("graphrt_inside_pools", default=())
"""The pools whose worker threads may be waiting for what runs here; set in the context of each job."""


class Job(Protocol):
    """What a worker thread does."""

    done: bool
    """It has run. Set by the pool."""
    abandoned: bool
    """Nobody waits for it any more, and its worker thread ends with it. Set by the pool."""

    def run(self) -> None:
        """Do it; never raises."""
        ...

    def land(self) -> None:
        """Hand over what came of it; never raises."""
        ...


@final
class _Worker:
    __slots__ = ("jobs", "thread")

    def __init__(self, pool: ThreadPool, job: Job, number: int) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        """Jobs that it is handed while it is idle; None ends it."""
        self.thread = threading.Thread(
            target=pool._serve, args=(self, job), name=f"graphrt-worker-{number}", daemon=True
        )


@final
class ThreadPool:
    """At most *most* worker threads, for all runs of one runtime together."""

    __slots__ = ("__weakref__", "_backlog", "_idle", "_inner", "_lock", "_number", "_threads", "_users", "most")

    def __init__(self, most: int) -> None:
        self.most: int = most
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        """The one that was idle last is used first."""
        self._backlog: deque[Job] = deque()
        """Jobs that wait for a worker thread; empty while one is idle."""
        self._threads = 0
        """Worker threads, but those whose job was abandoned."""
        self._number = 0
        self._users = 0
        self._inner: ThreadPool | None = None
        watch_forks(self)

    def here(self) -> ThreadPool:
        """The pool for a run that begins here: another one where a worker thread of this one may wait for that run.

        A node that makes a run of the same runtime, by itself or by way of an agent's tool, would wait for a worker
        thread that waits for it.
        """
        pool, waiting = self, INSIDE.get()
        while pool in waiting:
            with pool._lock:
                if pool._inner is None:
                    pool._inner = ThreadPool(self.most)
                pool = pool._inner
        return pool

    def hold(self) -> None:
        """Keep worker threads, once they have started, until `release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """End the worker threads, if nobody else holds the pool."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            ending, self._idle = self._idle, []
            self._threads -= len(ending)
        for worker in ending:
            worker.jobs.put(None)
        for worker in ending:
            if worker.thread is not threading.current_thread():
                worker.thread.join()

    def submit(self, job: Job) -> None:
        """Let a worker thread do *job*, as soon as one is free."""
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
        """Start a worker thread for *job*, which is counted already.

        Raises:
            RuntimeError: The system gives no more threads, and none of this pool is there that could do the job.
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
        """Take *job* back, unless it has begun."""
        with self._lock:
            if job not in self._backlog:
                return False
            self._backlog.remove(job)
            return True

    def abandon(self, job: Job) -> None:
        """Nobody waits for *job* any more: its worker thread takes no place from others, and ends with it."""
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
        while job is not None:
            job.run()
            following: Job | None = None
            with self._lock:  # idle first, then heard of: who hears of it can end the worker thread
                job.done = True
                leaves = job.abandoned
                if leaves:
                    pass  # it was counted off
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
            del following

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing was begun."""

    def after_fork_in_child(self) -> None:
        """Begin without the worker threads, and without the jobs that the parent does."""
        self._lock = threading.Lock()
        self._idle, self._threads = [], 0
        self._backlog.clear()


def inside(pool: ThreadPool) -> tuple[ThreadPool, ...]:
    """What `INSIDE` is in a job of *pool* that is submitted here."""
    return (*INSIDE.get(), pool)
