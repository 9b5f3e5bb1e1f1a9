"""Thread pool of a runtime: runs sync nodes away from the caller or the event loop.

Under `arun` it runs all sync nodes that are not `inline`; under `run`, *helpers* run tasks of a superstep beside the
caller, and nodes with a timeout (rule R19 says who runs where; decisions 0049 and 0087 have the reasons).

Data: a queue of jobs, first in, first out, and the worker threads that serve it. One starts when there is a job and
none is idle, so a chain of nodes needs a single one. They are reused, and end when the last holder of the pool has
released it: a run, or the runtime itself in its `with` block.

Not a `concurrent.futures.ThreadPoolExecutor`: the interpreter waits at its exit for the threads of every executor, and
a node that was abandoned after a timeout, a failure or Ctrl-C (rule R9) may never return. Its thread would also keep
its place in the executor. Here worker threads are daemons, and one whose job was abandoned no longer counts. Not the
default executor of the loop: stores use that one, and a fan-out of slow nodes must not keep a commit waiting.
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
        """Hand the result over; must not raise. Called after `run`, when the worker thread is free for the next job."""
        ...


@final
class ThreadPool:
    """At most *most* worker threads for all runs of one runtime together; abandoned ones do not count.

    A job is *abandoned* when its run gives up waiting for it, after a timeout for instance. Python cannot stop its
    thread, which ends after the job; another one may take its place.
    """

    __slots__ = ("_home", "_idle", "_inner", "_jobs", "_number", "_users", "_wake", "_workers", "most")

    def __init__(self, most: int) -> None:
        self.most: int = most
        self._home = Home("This thread pool")
        self._wake = threading.Condition()
        """Its lock guards the other fields. Idle worker threads wait for its signal. The lock is reentrant: the garbage
        collector may end a dropped stream, and with it a run, while this thread holds it."""
        self._jobs: deque[Job] = deque()
        """Jobs that have not begun."""
        self._workers: set[threading.Thread] = set()
        """Worker threads that serve the pool. A thread that is no longer in this set ends after its job."""
        self._idle = 0
        """How many of `_workers` run no job: they wait for one, or are about to."""
        self._number = 0
        """Number of the last worker thread, for its name."""
        self._users = 0
        """Runs, and perhaps the runtime, that hold the pool."""
        self._inner: ThreadPool | None = None
        """Pool for runs and nested graphs that begin inside jobs of this one; see `here`."""

    def here(self) -> ThreadPool:
        """Return the pool for tasks that are started here: this one, or an inner one inside a job of this one.

        A node may start a run of its own runtime, for instance by an agent's tool, and a nested graph is driven by
        the worker thread that runs its task. If both levels shared one pool, the inner tasks could wait for a worker
        thread while all of them wait for inner tasks. With a pool for each level, worker threads only wait for those
        of a later pool, so there is no deadlock.

        Raises:
            InputError: The pool belongs to another process, of which this one is a forked child. So for all methods.
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
        """Undo one `hold`; the last one ends the worker threads and waits for them."""
        self._home.check()
        with self._wake:
            self._users -= 1
            if self._users:
                return
            ending, self._workers, self._idle = self._workers, set(), 0
            self._wake.notify_all()  # idle ones see that they do not serve any more
        for worker in ending:
            if worker is not threading.current_thread():  # a thread cannot join itself
                worker.join()

    @property
    def crowded(self) -> bool:
        """True if a job waits because all worker threads are busy; a helper of a sync run then gives up its place.

        Read without the lock, since an answer that is out of date does no harm.
        """
        return len(self._jobs) > self._idle

    def submit(self, job: Job) -> None:
        """Queue *job* for an idle worker thread, a new one, or the first that becomes idle if `most` are busy.

        Raises:
            RuntimeError: The system refused to start a thread, and the pool has no other.
        """
        self._home.check()
        with self._wake:
            self._jobs.append(job)
            try:
                self._another()
            except BaseException:  # also a Ctrl-C, while a new thread starts
                self._jobs.remove(job)
                raise

    def withdraw(self, job: Job) -> bool:
        """Take *job* out of the queue; return False if it has begun or ended."""
        self._home.check()
        with self._wake:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
            return True

    def abandon(self, job: Job) -> None:
        """Take *job* back, or give it up if it is running: its worker thread no longer counts, and ends after it.

        Another worker thread is started in its place if jobs wait. `land` of *job* is still called when it ends.

        Raises:
            RuntimeError: As for `submit`.
        """
        if self.withdraw(job):
            return
        with self._wake:
            if job.worker not in self._workers:  # it has ended, or was abandoned before
                return
            self._workers.remove(job.worker)
            self._another()

    def _another(self) -> None:
        """Wake a worker thread for the queue, or start a new one if there may be more; called with the lock held.

        If the system refuses to start one, the others serve.

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
        # Under the lock, so that `release`, perhaps in another thread, never finds one that it cannot join yet. The new
        # thread takes the lock only after `start` has returned.
        try:
            worker.start()
        except RuntimeError:
            if not self._workers:
                raise
            return
        self._workers.add(worker)
        self._idle += 1

    def _serve(self) -> None:
        """Run jobs in a worker thread until it does not count any more; the body of each worker thread.

        It stops counting when its job is abandoned, and when the last holder releases the pool.
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
            self._home.check()  # a node that forks may return in the child too: this thread then ends there
            # Idle before `land`: what lands may submit the next job at once, which must not start another thread.
            with self._wake:
                job.worker = None
                if me in self._workers:
                    self._idle += 1
            job.land()
            del job  # an idle worker thread must not keep a job alive


def waits_for(pool: ThreadPool) -> None:
    """Note in the surroundings that a worker thread of *pool* waits for the code that runs here.

    It is called in the context variables of a job, so that `here` finds a free pool inside the job.
    """
    around = surroundings()
    SURROUNDINGS.set(around.replaced(pools=(*around.pools, pool)))
