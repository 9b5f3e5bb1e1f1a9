"""Thread pool of a runtime: runs sync nodes away from the caller or the event loop.

With `arun` it runs all sync nodes that are not `inline`. With `run`, *helpers* run tasks of a superstep alongside the
caller, and nodes with a timeout (rule R19 defines where code runs; for the reasons, see decisions 0049 and 0087).

Data: a FIFO queue of jobs, and the worker threads that serve it. A thread is started when there is a job and none is
idle, so a chain of nodes needs only one. Threads are reused, and end when the last holder of the pool has released it:
a run, or the runtime itself in its `with` block.

Not a `concurrent.futures.ThreadPoolExecutor`: at exit, the interpreter waits for the threads of every executor, and a
node that was abandoned after a timeout, a failure or Ctrl-C (rule R9) may never return. Its thread would also occupy a
slot of the executor. Here worker threads are daemons, and one whose job was abandoned no longer counts. The loop's
default executor is not used either: stores need it, and a fan-out of slow nodes must not delay a commit.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol, final

from graphrt._ambient import SURROUNDINGS, surroundings
from graphrt._forks import Home


class Job(Protocol):
    """A unit of work for a worker thread."""

    worker: threading.Thread | None
    """The thread that runs it; None before and after. Set by the pool."""

    def run(self) -> None:
        """Do the work; must not raise."""
        ...

    def land(self) -> None:
        """Pass on the result; must not raise. Called after `run`, when the worker thread is free for the next job."""
        ...


@final
class ThreadPool:
    """At most *most* worker threads for all runs of one runtime together; abandoned ones do not count.

    A job is *abandoned* when its run stops waiting for it, for instance after a timeout. Python cannot stop its thread,
    which ends after the job; another one may replace it.
    """

    __slots__ = ("_home", "_idle", "_inner", "_jobs", "_number", "_users", "_wake", "_workers", "most")

    def __init__(self, max_threads: int) -> None:
        self.most: int = max_threads
        self._home = Home("This thread pool")
        self._wake = threading.Condition()
        """Its lock guards the other fields, and idle worker threads wait for its signal. The lock is reentrant, because
        the garbage collector may finalize a dropped stream, and with it a run, while this thread holds it."""
        self._jobs: deque[Job] = deque()
        """Jobs that have not begun."""
        self._workers: set[threading.Thread] = set()
        """Worker threads that serve the pool. A thread that is no longer in this set ends after its job."""
        self._idle = 0
        """Number of `_workers` without a job: they wait for one, or are about to."""
        self._number = 0
        """Number of the last worker thread, used for its name."""
        self._users = 0
        """Number of holders of the pool: runs, and possibly the runtime."""
        self._inner: ThreadPool | None = None
        """Pool for runs and nested graphs that begin inside jobs of this one; see `here`."""

    def here(self) -> ThreadPool:
        """Return the pool for tasks that are started here: this pool or, inside one of its jobs, an inner one.

        A node may start a run of its own runtime, for instance through an agent's tool, and a nested graph is driven by
        the worker thread that runs its task. If both levels shared one pool, the inner tasks could wait for a worker
        thread while all of them wait for inner tasks. With one pool per level, worker threads only wait for threads of
        an inner pool, so deadlocks are impossible.

        Raises:
            InputError: The pool belongs to another process, and this process is its forked child. All methods raise it.
        """
        pool, waiting = self, surroundings().pools
        while pool in waiting:
            pool._home.check()
            with pool._wake:
                if pool._inner is None:
                    pool._inner = ThreadPool(self.most)
                pool = pool._inner
        return pool

    def hold(self) -> None:
        """Keep started worker threads alive until the matching `release`."""
        self._home.check()
        with self._wake:
            self._users += 1

    def release(self) -> None:
        """Undo one `hold`. The last release ends the worker threads and waits for them."""
        self._home.check()
        with self._wake:
            self._users -= 1
            if self._users:
                return
            ending, self._workers, self._idle = self._workers, set(), 0
            self._wake.notify_all()  # idle threads see that they no longer belong to the pool
        for worker in ending:
            if worker is not threading.current_thread():  # a thread cannot join itself
                worker.join()

    @property
    def crowded(self) -> bool:
        """True if a job waits because all worker threads are busy.

        A helper of a sync run then makes room. Read without the lock, because a stale result does no harm.
        """
        return len(self._jobs) > self._idle

    def submit(self, job: Job) -> None:
        """Queue *job* for an idle or new worker thread or, if `most` are busy, for the first that becomes idle.

        Raises:
            RuntimeError: The system refused to start a thread, and the pool has no other.
        """
        self._home.check()
        with self._wake:
            self._jobs.append(job)
            try:
                self._another()
            except BaseException:  # including Ctrl-C while a new thread starts
                self._jobs.remove(job)
                raise

    def withdraw(self, job: Job) -> bool:
        """Remove *job* from the queue. Returns False if it has already started or ended."""
        self._home.check()
        with self._wake:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
            return True

    def abandon(self, job: Job) -> None:
        """Withdraw *job*, or abandon it if it is running: its worker thread no longer counts, and ends after it.

        A replacement worker thread is started if jobs are waiting. `land` of *job* is still called when it ends.

        Raises:
            RuntimeError: As for `submit`.
        """
        if self.withdraw(job):
            return
        with self._wake:
            if job.worker not in self._workers:  # it has ended or was already abandoned
                return
            self._workers.remove(job.worker)
            self._another()

    def _another(self) -> None:
        """Wake a worker thread for the queue, or start a new one if the limit allows.

        Called with the lock held. If the system refuses to start one, the existing threads serve the queue.

        Raises:
            RuntimeError: The system refused, and there is no other.
        """
        if self._idle >= len(self._jobs):
            self._wake.notify()
            return
        if len(self._workers) >= self.most:
            return
        self._number += 1
        worker = threading.Thread(target=self._serve, name=f"graphrt-worker-{self._number}", daemon=True)
        # Started under the lock, so that `release`, possibly in another thread, never finds a thread that it cannot
        # join yet. The new thread takes the lock only after `start` has returned.
        try:
            worker.start()
        except RuntimeError:
            if not self._workers:
                raise
            return
        self._workers.add(worker)
        self._idle += 1

    def _serve(self) -> None:
        """Run jobs until this worker thread no longer belongs to the pool; the body of each worker thread.

        It leaves the pool when its job is abandoned, and when the last holder releases the pool.
        """
        me = threading.current_thread()
        while True:
            with self._wake:
                while me in self._workers and not self._jobs:
                    self._wake.wait()
                if me not in self._workers:
                    return
                self._idle -= 1
                job = self._jobs.popleft()
                job.worker = me
            job.run()
            self._home.check()  # a node that forks may also return in the child, where this thread ends
            # Marked idle before `land`: `land` may submit the next job at once, which must not start another thread.
            with self._wake:
                job.worker = None
                if me in self._workers:
                    self._idle += 1
            job.land()
            del job  # an idle worker thread must not keep a job alive


def waits_for(pool: ThreadPool) -> None:
    """Record in the surroundings that a worker thread of *pool* waits for the code that runs here.

    Called in the context variables of a job, so that `here` returns an inner pool inside the job.
    """
    ambient = surroundings()
    SURROUNDINGS.set(ambient.replaced(pools=(*ambient.pools, pool)))
