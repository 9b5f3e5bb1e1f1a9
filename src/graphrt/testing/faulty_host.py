"""`FaultyHost`: an in-process host whose messages arrive twice, late, out of order, or not at all."""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, final

import typing_extensions as te

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.workers import WORKER_RUNS_ALREADY
from graphrt.limits import Queue
from graphrt.runtime import InboxItem, Runtime
from graphrt.workers._checks import checked_number, checked_runtimes
from graphrt.workers._delivery import deliver
from graphrt.workers._due import due_threads
from graphrt.workers._queues import checked_queues
from graphrt.workers._serving import drain

log: Final = logging.getLogger("graphrt.testing.faulty_host")


@final
class FaultyHost:
    """Drives threads by messages that a test disturbs. Without faults it is the simplest possible host.

    A message is `drive(thread)`, or `run_task(thread, task)` for a task of a queue. It is kept in memory until its time
    has come, and is then delivered on a worker thread. Every *look_s* seconds the host asks the store for due threads
    and for waiting tasks, and sends them messages, with the same faults: lost ones are sent again.

    Args:
        *runtimes: The runtimes to drive with, one for each graph, all with the same store.
        seed: Determines which messages are disturbed.
        drop: Share of messages that are lost, from 0.0 to below 1.0.
        duplicate: Share of messages that arrive twice, 0.0 to 1.0.
        delay_s: Maximum delay in seconds; delays differ, so later messages overtake earlier ones.
        look_s: Seconds between two sweeps of the store.
        concurrency: Number of messages delivered at once.
        max_tries: As for `Worker`.
        queues: As for `Worker`; only limits over all workers count.

    Raises:
        InputError: An argument does not fit.
    """

    def __init__(
        self,
        *runtimes: Runtime[Any, Any],
        seed: int = 0,
        drop: float = 0.0,
        duplicate: float = 0.0,
        delay_s: float = 0.0,
        look_s: float = 0.1,
        concurrency: int = 8,
        max_tries: int = 5,
        queues: Sequence[str] | Mapping[str, Queue] = (),
    ) -> None:
        self._runtimes: dict[str, Runtime[Any, Any]] = checked_runtimes(runtimes)
        for option, share, below in (("drop", drop, 1.0), ("duplicate", duplicate, 1.0 + 1e-9)):
            if not 0.0 <= share < below:
                raise INVALID_ARGUMENT(
                    argument=f"{option}=",
                    value=share,
                    wanted="the share of the messages, from 0.0; drop= must be below 1.0, for a host that loses all can drive nothing",
                )
        self._chance = random.Random(seed)  # noqa: S311 - a test repeats it
        self._drop, self._duplicate = drop, duplicate
        self._delay_s = checked_number("delay_s", delay_s, whole=False)
        self._look_s = checked_number("look_s", look_s, whole=False)
        self._most = checked_number("concurrency", concurrency, whole=True)
        self._max_tries = checked_number("max_tries", max_tries, whole=True)
        self._queues = checked_queues("queues=", queues, self._runtimes.values())
        self._lock = threading.Condition()
        self._messages: list[tuple[float, int, str, InboxItem | None]] = []
        """A heap of messages: delivery time, a number that keeps their order, the thread, and possibly a task."""
        self._numbers = itertools.count()
        self._driving: list[str] = []
        self._state = "new"
        self._look_at = 0.0
        self._loop = threading.Thread(target=self._work, name="graphrt-faulty-host", daemon=True)

    def start(self) -> te.Self:
        """Start delivering messages, in worker threads, and return the host."""
        with self._lock:
            if self._state != "new":
                raise WORKER_RUNS_ALREADY(state=self._state)
            self._state = "working"
        self._loop.start()
        return self

    def drive(self, thread: str) -> None:
        """Send a message, which may be lost, delayed or duplicated."""
        self._send(thread, None)

    def _send(self, thread: str, task: InboxItem | None) -> None:
        with self._lock:
            if self._state != "working" or self._chance.random() < self._drop:
                return
            for _ in range(1 + (self._chance.random() < self._duplicate)):
                at = time.monotonic() + self._chance.uniform(0.0, self._delay_s)
                heapq.heappush(self._messages, (at, next(self._numbers), thread, task))
            self._lock.notify_all()

    def stop(self, *, grace_s: float = 10.0) -> int:
        """Stop delivering, hand over the threads being driven, and return their number."""
        with self._lock:
            begun, self._state = self._state == "working", "stopped"
            number = len(self._driving)
            self._lock.notify_all()
        if begun:
            for drain_thread in drain(self._runtimes.values(), "the host stops", grace_s, lambda: len(self._driving)):
                drain_thread.join()
            self._loop.join()
        return number

    def __enter__(self) -> te.Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _work(self) -> None:
        with ThreadPoolExecutor(self._most, thread_name_prefix="graphrt-faulty-drive") as pool:
            while self._state == "working":
                if time.monotonic() >= self._look_at:
                    self._look()
                with self._lock:
                    while self._messages and self._messages[0][0] <= time.monotonic():
                        _, _, thread, task = heapq.heappop(self._messages)
                        if task is None:
                            pool.submit(self._deliver, thread)
                        else:
                            pool.submit(self._run_task, thread, task)
                    until = min([self._look_at, *(message[0] for message in self._messages[:1])])
                    if self._state == "working":
                        self._lock.wait(max(0.0, until - time.monotonic()))

    def _look(self) -> None:
        """Send a message for each due thread and each waiting task."""
        self._look_at = time.monotonic() + self._look_s
        for name, runtime in self._runtimes.items():
            try:
                due = due_threads(runtime, name, lambda info: info.thread not in self._driving)
                waiting = runtime.inbox(kind="task", graph=name, limit=None) if self._queues else ()
            except Exception as error:  # noqa: BLE001 - the next look is a new attempt
                log.warning("Cannot look for threads: %s", error)
                continue
            for info in due:
                self.drive(info.thread)
            for item in waiting:
                if item.interrupt.payload in self._queues and item.interrupt.id not in self._driving:
                    self._send(item.thread, item)

    def _run_task(self, thread: str, task: InboxItem) -> None:
        question = task.interrupt
        self._driving.append(question.id)
        try:
            if self._state == "working":
                queue = self._queues[str(question.payload)]
                outcome = self._runtimes[task.graph].run_task(thread, question.task_id, queue=queue)
                log.debug("Task %s: %s", question.id, outcome)
        except Exception as error:  # noqa: BLE001 - a thread that was deleted, a store that fails: the message is lost
            log.debug("A message for task %s was lost: %s", question.id, error)
        finally:
            self._driving.remove(question.id)

    def _deliver(self, thread: str) -> None:
        self._driving.append(thread)
        try:
            store = next(iter(self._runtimes.values())).store
            assert store is not None  # noqa: S101 - checked by the constructor
            runtime = self._runtimes.get(store.head(thread).graph)
            if runtime is not None and self._state == "working":
                delivery = deliver(runtime, thread, self._max_tries)
                log.debug("Thread %s: %s", thread, delivery.outcome, exc_info=delivery.error)
        except Exception as error:  # noqa: BLE001 - an unknown thread, a store that fails: the message is lost
            log.debug("A message for thread %s was lost: %s", thread, error)
        finally:
            self._driving.remove(thread)
