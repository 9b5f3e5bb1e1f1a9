"""`QueueRunner`: a loop that polls for queue tasks and runs them on worker threads (decision 0159).

The open questions of the kind `task` are the queue: one indexed query for each graph. The claim on a task decides who
runs it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, final

from graphrt.errors import GraphrtError, InputError
from graphrt.limits import Queue
from graphrt.runtime import InboxItem, Runtime
from graphrt.workers._repeated_log import RepeatedLog

PAGE: Final = 200
"""Maximum number of tasks listed at once."""
_OTHERS_S: Final = 1.0
"""Seconds until a task that another worker had, or that was no longer waiting, is tried again."""
_REFUSED_S: Final = 60.0
"""Seconds until a task that this worker cannot run is tried again."""
_UNSERVED_S: Final = 30.0
"""Seconds that a task waits before this worker logs that it does not serve its queue, and between two such checks."""

log: Final = logging.getLogger("graphrt.workers")


@final
class QueueRunner:
    """Runs tasks of queues for a worker.

    Args:
        runtimes: Graph name to its runtime.
        queues: Names of the served queues, with their limits. Without any, the runner only checks from time to time
            whether tasks wait for queues that are not served here.
        most: Maximum number of concurrent tasks.
        poll_s: Seconds between two polls while nothing waits.
        repeated: Its log.
        reported: Called when the end of a task was reported, which makes its thread due.
    """

    def __init__(
        self,
        runtimes: Mapping[str, Runtime[Any, Any]],
        queues: Mapping[str, Queue],
        max_tasks: int,
        poll_s: float,
        repeated: RepeatedLog,
        reported: Callable[[], None],
    ) -> None:
        self._runtimes = {name: runtime for name, runtime in runtimes.items() if runtime.graph.queues}
        self._queues = queues
        self._most = max_tasks
        self._poll_s = poll_s
        self._repeated = repeated
        self._say = repeated.say
        self._reported = reported
        self._lock = threading.Condition()
        self._running: dict[str, str] = {}
        """Maps the question id of a task that runs here to the name of its queue."""
        self._later: dict[str, float] = {}
        """Maps the question id of a task that is left to others to the monotonic time at which it is tried again."""
        self._full: dict[str, float] = {}
        """Maps a queue whose limits were reached to the monotonic time at which it is tried again."""
        self._ended = 0
        self._unserved: tuple[str, ...] = ()
        self._unserved_at = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the tasks that run here, as `thread/task`; longest first."""
        with self._lock:
            return tuple(id_.partition("#")[0] for id_ in self._running)

    @property
    def ended(self) -> int:
        """Number of tasks whose end was reported."""
        return self._ended

    @property
    def unserved(self) -> tuple[str, ...]:
        """Names of queues that are not served here and whose tasks have waited for some time."""
        return self._unserved

    def start(self) -> None:
        """Start polling, in a worker thread."""
        self._thread = threading.Thread(target=self._work, name="graphrt-queues", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more tasks. `Runtime.hand_over`, which the worker calls, gives up the running ones."""
        with self._lock:
            self._stopping.set()
            self._lock.notify_all()

    def join(self) -> None:
        """Wait until no task is running."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def wake(self) -> None:
        """Look now."""
        with self._lock:
            self._lock.notify_all()

    def _work(self) -> None:
        with ThreadPoolExecutor(self._most, thread_name_prefix="graphrt-task") as pool:
            while not self._stopping.is_set():
                pause_s = self._poll_s if self._queues else _UNSERVED_S
                try:
                    taken = self._look(pool) if self._queues else 0
                    if time.monotonic() >= self._unserved_at:
                        self._look_for_unserved()
                    pause_s = 0.0 if taken else pause_s
                except Exception as error:  # noqa: BLE001 - without looks, no task would be run any more
                    self._repeated.cannot_look("tasks", error)
                with self._lock:
                    if not self._stopping.is_set() and pause_s > 0:
                        self._lock.wait(pause_s)
                    while not self._stopping.is_set() and len(self._running) >= self._most:
                        self._lock.wait()

    def _look(self, pool: ThreadPoolExecutor) -> int:
        """Take tasks while there is room, and return the number taken."""
        taken = 0
        now = time.monotonic()
        with self._lock:
            self._later = {id_: until for id_, until in self._later.items() if until > now}
        for name, runtime in self._runtimes.items():
            items = [item for item in self._waiting(runtime, name) if self._may_take(item, now)]
            # In random order, so that several workers do not all try the same task first.
            random.shuffle(items)
            for item in items:
                with self._lock:
                    if self._stopping.is_set() or len(self._running) >= self._most:
                        return taken
                    if not self._has_room(str(item.interrupt.payload)):
                        continue
                    self._running[item.interrupt.id] = str(item.interrupt.payload)
                taken += 1
                try:
                    pool.submit(self._run, runtime, item)
                except BaseException:
                    self._end(item.interrupt.id)
                    raise
        return taken

    def _waiting(self, runtime: Runtime[Any, Any], graph: str) -> list[InboxItem]:
        """Return a page of waiting tasks of the queues served here: the oldest that this worker may take."""
        items: list[InboxItem] = []
        after: str | None = None
        now = time.monotonic()
        while len(items) < PAGE:
            page = runtime.inbox(kind="task", graph=graph, after=after, limit=PAGE)
            items += [item for item in page if self._may_take(item, now)]
            if len(page) < PAGE:
                break
            after = page[-1].token
        return items

    def _may_take(self, item: InboxItem, now: float) -> bool:
        queue, id_ = str(item.interrupt.payload), item.interrupt.id
        if queue not in self._queues or self._full.get(queue, 0.0) > now:
            return False
        return id_ not in self._running and id_ not in self._later

    def _has_room(self, queue: str) -> bool:
        """Return whether the limit of one worker allows a further task; the caller holds the lock."""
        limit = self._queues[queue].worker_concurrency
        return limit is None or Counter(self._running.values())[queue] < limit

    def _run(self, runtime: Runtime[Any, Any], item: InboxItem) -> None:
        """Run one task; never raises an `Exception`."""
        question, queue = item.interrupt, str(item.interrupt.payload)
        later_s = _OTHERS_S
        try:
            if self._stopping.is_set():
                return
            match runtime.run_task(item.thread, question.task_id, queue=self._queues[queue]):
                case "ended":
                    with self._lock:
                        self._ended += 1
                    self._reported()
                    return
                case "full":
                    later_s = 0.0
                    self._full[queue] = time.monotonic() + self._poll_s
                case "left":
                    pass
        except GraphrtError as error:
            refused = isinstance(error, InputError)  # another version of the graph, for instance
            later_s = _REFUSED_S if refused else _OTHERS_S
            text = "Task %s is left to others: %s" if refused else "Task %s was left: %s"
            # One line per graph, however many of its tasks are left.
            self._say(f"tasks of {runtime.graph.name} {error.code}", logging.WARNING, text, question.id, error.what)
        except Exception:
            later_s = _REFUSED_S
            log.exception("Task %s ended with an error that no task should raise", question.id)
        finally:
            self._end(question.id, later_s)

    def _end(self, question: str, later_s: float = 0.0) -> None:
        with self._lock:
            if later_s:
                self._later[question] = time.monotonic() + later_s
            self._running.pop(question, None)
            self._lock.notify_all()

    def _look_for_unserved(self) -> None:
        """Look for tasks of queues that are not served here, and log each such queue once."""
        self._unserved_at = time.monotonic() + _UNSERVED_S
        queues: set[str] = set()
        for name, runtime in self._runtimes.items():
            before = runtime.clock() - _UNSERVED_S
            for item in runtime.inbox(kind="task", graph=name, limit=PAGE):
                queue = str(item.interrupt.payload)
                if queue not in self._queues and item.asked_at <= before:
                    queues.add(queue)
        self._unserved = tuple(sorted(queues))
        for queue in self._unserved:
            text = "Tasks wait for the queue %r, and this worker does not serve it"
            self._say(f"queue {queue}", logging.WARNING, text, queue)
