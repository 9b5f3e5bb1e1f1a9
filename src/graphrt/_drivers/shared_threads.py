"""The thread pool and the event loop that the runs of one runtime share.

Both are created at first use. Sync runs need the event loop for async nodes, and the pool for sync nodes that do not
run in the caller. Without `keep`, each run has a separate loop, and the worker threads end with the last run that uses
them. A runtime calls `keep` when its `with` block begins, and `close` at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from graphrt._forks import FreshLock

if TYPE_CHECKING:
    from graphrt._drivers.loop_thread import LoopThread
    from graphrt._drivers.thread_pool import ThreadPool

_making = FreshLock()
"""Guards the parts that are created on first use. This is rare and quick, so all runtimes share one lock."""


@final
class SharedThreads:
    """The thread pool and the loop thread of one runtime.

    Args:
        max_threads: Maximum number of worker threads in the pool.
    """

    __slots__ = ("_kept", "_loop", "_pool", "loop_source", "most")

    def __init__(self, max_threads: int) -> None:
        self.most: int = max_threads
        self.loop_source: Callable[[], LoopThread] | None = None
        """Returns the loop thread that all runs share; None until `keep`."""
        self._loop: LoopThread | None = None
        self._pool: ThreadPool | None = None
        self._kept = False
        """True while this object holds the pool, which keeps the worker threads alive between two runs."""

    def pool(self) -> ThreadPool:
        """Return the thread pool; runs hold and release it themselves."""
        with _making:
            if self._pool is None:
                from graphrt._drivers.thread_pool import ThreadPool

                self._pool = ThreadPool(self.most)
            return self._pool

    def keep(self) -> None:
        """Share one loop thread among runs, and keep the worker threads, until `close`."""
        if not self._kept:
            self.pool().hold()
            self._kept = True
        self.loop_source = self._the_loop

    def close(self) -> None:
        """End the loop thread, and let the worker threads end with the runs that use them."""
        self.loop_source = None  # a run that begins after this has its own loop thread, which ends with it
        if self._kept:
            self._kept = False
            self.pool().release()
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _the_loop(self) -> LoopThread:
        """Return the shared loop thread, creating it if there is none. Used as `loop_source`."""
        with _making:
            if self._loop is None:
                from graphrt._drivers.loop_thread import LoopThread

                self._loop = LoopThread()
            return self._loop
