"""`Worker`: a loop that polls for due threads and drives them on worker threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, NamedTuple, final

import typing_extensions as te

from graphrt._forks import Home
from graphrt.errors import GraphrtError, names
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.workers import WORKER_RUNS_ALREADY
from graphrt.limits import Queue
from graphrt.runtime import Runtime, ThreadInfo
from graphrt.workers._checks import checked_number, checked_pause, checked_runtimes
from graphrt.workers._delivery import LEFT_TO_OTHERS, WAS_LEFT, deliver, log_end
from graphrt.workers._due import due_threads
from graphrt.workers._health import WorkerHealth
from graphrt.workers._queues import checked_queues
from graphrt.workers._repeated_log import RepeatedLog
from graphrt.workers._retention import Retention, Sweeper
from graphrt.workers._scheduled import start_scheduled
from graphrt.workers._serving import drain, serve
from graphrt.workers._tasks import QueueRunner

_LOOK_AGAIN_S: Final = 60.0
"""Seconds until a thread that this worker cannot drive is tried again, and between two checks for unknown graphs."""
_SOON_S: Final = 1.0
"""Seconds until a thread whose mail cannot change anything yet is tried again."""
_LISTING_S: Final = 0.1
"""Seconds for which a list of due threads is reused. A worker with a backlog polls after each run that ends; listing
the backlog every time took a fifth of its processor time with 200 threads due."""
_SCHEDULES_S: Final = 1.0
"""Seconds between two polls of schedules, which are due at full minutes."""
_LONGEST_PAUSE_S: Final = 30.0
"""Maximum delay between two polls of a failing store."""
_SILENT_S: Final = 10.0
"""Seconds without an answer of the store after which the worker reports it as trouble."""

log: Final = logging.getLogger("graphrt.workers")


class _Due(NamedTuple):
    """A due thread, with the runtime that can drive it."""

    info: ThreadInfo
    runtime: Runtime[Any, Any]


@final
class Worker:
    """Drives the due threads of one store: started or abandoned ones, those with mail, and those whose time has come.

    Any number of workers may share a store, on SQLite in several processes of one machine, on PostgreSQL on several
    machines. The claim on a thread decides who drives it; a worker that loses the race takes another thread.

    Args:
        *runtimes: The runtimes to drive with, one for each graph, all with the same store. Threads of other graphs are
            left to other workers.
        concurrency: Maximum number of threads driven at once.
        per_graph: Maps graph names to the maximum number of their threads driven at once; other graphs have only
            *concurrency*.
        poll_s: Seconds between two polls of the store while nothing is due.
        max_tries: How many runs in a row may take a thread over and die before they store anything more. Then the
            thread is parked: it fails, is listed with the failed ones, and waits for a `retry`.
        queues: The queues whose tasks it runs: names, or a mapping of names to their limits (`graphrt.limits.Queue`).
        task_concurrency: Maximum number of queue tasks run at once; None for *concurrency*.
        retention: Rules by which old threads are deleted; see `Retention`. A thread that matches any of them is
            deleted.
        retention_every_s: Seconds between two sweeps by these rules.

    Raises:
        InputError: There is no runtime, one has no store, two have graphs of the same name, or a number does not fit.
    """

    def __init__(
        self,
        *runtimes: Runtime[Any, Any],
        concurrency: int = 8,
        per_graph: Mapping[str, int] | None = None,
        poll_s: float = 0.1,
        max_tries: int = 5,
        queues: Sequence[str] | Mapping[str, Queue] = (),
        task_concurrency: int | None = None,
        retention: Sequence[Retention] = (),
        retention_every_s: float = 3_600.0,
    ) -> None:
        self._runtimes: dict[str, Runtime[Any, Any]] = checked_runtimes(runtimes)
        self._most = checked_number("concurrency", concurrency, whole=True)
        self._per_graph = {
            name: checked_number(f"per_graph[{name!r}]", n, whole=True) for name, n in (per_graph or {}).items()
        }
        unknown = sorted(self._per_graph.keys() - self._runtimes.keys())
        if unknown:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument="per_graph=",
                name=unknown[0],
                what="graph of the worker's runtimes",
                known_names=sorted(self._runtimes),
            )
        self._poll_s = checked_pause("poll_s", poll_s)
        self._max_tries = checked_number("max_tries", max_tries, whole=True)
        served = checked_queues("queues=", queues, self._runtimes.values())
        tasks = (
            self._most if task_concurrency is None else checked_number("task_concurrency", task_concurrency, whole=True)
        )
        self._repeated = RepeatedLog(log)
        self._say = self._repeated.say
        self._tasks = QueueRunner(self._runtimes, served, tasks, self._poll_s, self._repeated, self._wake)
        every_s = checked_pause("retention_every_s", retention_every_s)
        self._sweeper = Sweeper(next(iter(self._runtimes.values())), retention, every_s, self._sweep_failed)
        self._home = Home("This worker")
        self._lock = threading.Condition()
        self._state = "new"
        self._driving: dict[str, str] = {}
        """Maps a thread to the name of its graph, in the order in which they were taken."""
        self._refused: dict[str, tuple[int, float]] = {}
        """Maps a thread that cannot be driven here to its `seq` and the monotonic time at which it is tried again."""
        self._unknown: tuple[str, ...] = ()
        self._look_around_at = self._schedules_at = self._list_at = 0.0
        self._listed: list[_Due] = []
        """Threads of the last list that were not taken, in order."""
        self._waiting = self._ended = self._failed = self._parked = 0
        self._looked_at: float | None = None
        self._polling_since: float | None = None
        """Monotonic time at which the poll under way began; None between polls."""
        self._trouble: str | None = None
        self._thread: threading.Thread | None = None
        self._turn = 0

    # -- its life --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work in the calling thread until another thread, or a signal handler, calls `stop`.

        Raises:
            InputError: The worker is already working, or was stopped.
        """
        self._begin()
        self._work()

    def start(self) -> te.Self:
        """Work in a background thread until `stop`, and return the worker.

        Raises:
            InputError: The worker is already working, or was stopped.
        """
        self._begin()
        self._thread = threading.Thread(target=self._work, name="graphrt-worker", daemon=True)
        self._thread.start()
        return self

    def serve(self, *, grace_s: float = 10.0) -> None:
        """Work until the process gets SIGTERM or SIGINT, then `stop`: what a deployed worker process calls.

        A second signal ends the grace period of open supersteps. Call it in the main thread, where Python runs signal
        handlers.

        Args:
            grace_s: As for `stop`.
        """
        serve(self, grace_s, lambda: self._state == "stopped")

    def stop(self, *, grace_s: float = 10.0) -> int:
        """Take no more threads, hand over those being driven, and return their number.

        Each thread has *grace_s* seconds to finish its open superstep. After that, the unfinished tasks of the
        superstep are interrupted, and run again where the thread is next driven. Nothing that was stored is lost. May
        be called again, and from a signal handler's thread. In a forked child, it does nothing: the worker belongs to
        the parent.

        Raises:
            InputError: *grace_s* is not a number of seconds of 0 or more. Nothing was stopped.
        """
        checked_number("grace_s", grace_s, whole=False)
        if self._home.elsewhere:
            return 0
        with self._lock:
            if self._state in ("new", "stopped"):
                self._state = "stopped"
                return 0
            self._state = "draining"
            number = len(self._driving)
            self._lock.notify_all()
        self._tasks.stop()  # first, so that no further task is started while running ones are being stopped
        drains = drain(self._runtimes.values(), "the worker stops", grace_s, self._at_work)
        for drain_thread in drains:
            drain_thread.join()
        self._tasks.join()
        self._sweeper.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        return number

    def _at_work(self) -> int:
        """Return the number of threads and tasks running here, including those that are just being opened."""
        return len(self._driving) + len(self._tasks.running)

    def drive(self, thread: str) -> None:  # noqa: ARG002 - a worker drives what is due, and is told of it by the store
        """Poll the store now instead of after `poll_s`; a process that starts a thread may call this."""
        self._wake()
        self._tasks.wake()

    def _wake(self) -> None:
        self._home.check()
        with self._lock:
            self._lock.notify_all()

    def __enter__(self) -> te.Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def health(self) -> WorkerHealth:
        """Return the current and past activity of the worker."""
        self._home.check()
        with self._lock:
            return WorkerHealth(
                state=self._state,
                driving=tuple(self._driving),
                free=max(0, self._most - len(self._driving)),
                waiting=self._waiting,
                ended=self._ended,
                failed=self._failed,
                parked=self._parked,
                deleted=self._sweeper.deleted,
                tasks=self._tasks.running,
                tasks_ended=self._tasks.ended,
                unserved=self._tasks.unserved,
                unknown=self._unknown,
                refused=tuple(self._refused),
                looked_at=self._looked_at,
                trouble=self._trouble or self._silence(),
            )

    def _silence(self) -> str | None:
        """Return a sentence if the store has not answered the poll under way for a long time, else None."""
        since = self._polling_since
        silent_s = 0.0 if since is None else time.monotonic() - since
        return f"The store has not answered for {silent_s:.0f} seconds." if silent_s >= _SILENT_S else None

    def _begin(self) -> None:
        self._home.check()
        for runtime in self._runtimes.values():
            _ = runtime.schedules  # raises now if the parent of this process has used the runtime
        with self._lock:
            if self._state != "new":
                raise WORKER_RUNS_ALREADY(state=self._state)
            self._state = "working"
        try:
            self._sweeper.start()
            if any(runtime.graph.queues for runtime in self._runtimes.values()):
                self._tasks.start()
        except BaseException:
            self._state = "stopped"
            raise
        stores = sorted({type(runtime.store).__name__ for runtime in self._runtimes.values()})
        log.info(
            "Worker drives up to %d threads at once of graphs %s in %s",
            self._most,
            names(self._runtimes),
            ", ".join(stores),
        )

    # -- its loop --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            with ThreadPoolExecutor(self._most, thread_name_prefix="graphrt-drive") as pool:
                self._look_on(pool)
        finally:
            # The pool has waited for its last run. `stop` may be called again until the last task has ended as well.
            self._tasks.stop()
            self._tasks.join()
            with self._lock:
                self._state = "stopped"

    def _look_on(self, pool: ThreadPoolExecutor) -> None:
        """Look for threads, and drive them in *pool*, until `stop`."""
        pause_s = self._poll_s
        try:
            while self._state == "working":
                self._polling_since = time.monotonic()
                try:
                    taken = self._look(pool)
                    pause_s = 0.0 if taken else self._poll_s
                    self._trouble = None
                except Exception as error:  # noqa: BLE001 - what is due is still due, and the store may come back
                    pause_s = min(max(pause_s, self._poll_s) * 2, _LONGEST_PAUSE_S)
                    self._repeated.cannot_look("threads", error)
                    self._trouble = error.what if isinstance(error, GraphrtError) else repr(error)
                self._polling_since = None
                self._repeated.tell_more()
                self._pause(pause_s)
        finally:
            with self._lock:
                self._state = "draining"

    def _pause(self, seconds: float) -> None:
        """Wait for *seconds*, or while there is no room. The end of a run, or `stop`, ends the wait."""
        with self._lock:
            if self._state == "working" and seconds > 0:
                self._lock.wait(seconds)
            while self._state == "working" and len(self._driving) >= self._most:
                self._lock.wait()

    def _look(self, pool: ThreadPoolExecutor) -> int:
        """Take due threads while there is room, and return the number taken."""
        self._start_scheduled()
        now = time.monotonic()
        if now >= self._list_at or not self._listed:
            self._list_at, self._listed = now + _LISTING_S, self._due()
        self._looked_at = time.time()
        taken, due, self._listed = 0, self._listed, []
        for at, (info, runtime) in enumerate(due):
            with self._lock:
                if self._state != "working" or len(self._driving) >= self._most:
                    self._listed += due[at:]
                    break
                name = info.graph
                if info.thread in self._driving or self._is_full(name):
                    self._listed.append(due[at])
                    continue
                self._driving[info.thread] = name
            taken += 1
            try:
                pool.submit(self._drive, info, runtime)
            except BaseException:
                self._end(info.thread)
                raise
        self._waiting = len(due) - taken
        if time.monotonic() >= self._look_around_at:
            self._look_around()
        return taken

    def _start_scheduled(self) -> None:
        """Start the threads of due schedules of this worker's graphs."""
        now = time.monotonic()
        if now < self._schedules_at:
            return
        self._schedules_at = now + _SCHEDULES_S
        start_scheduled(self._runtimes, self._say)

    def _is_full(self, graph: str) -> bool:
        limit = self._per_graph.get(graph)
        return limit is not None and sum(name == graph for name in self._driving.values()) >= limit

    def _due(self) -> list[_Due]:
        """Return the due threads: by priority, then alternating between graphs, then by waiting time."""
        now = time.monotonic()
        names = list(self._runtimes)
        self._turn = (self._turn + 1) % len(names)  # each poll begins with another graph, so that none starves
        lines: list[list[_Due]] = []
        for name in names[self._turn :] + names[: self._turn]:
            runtime = self._runtimes[name]
            infos = due_threads(runtime, name, lambda info: self._may_try(info, now))
            infos.sort(key=lambda info: info.updated_at)
            lines.append([_Due(info, runtime) for info in infos])
        due = [line[at] for at in range(max(map(len, lines), default=0)) for line in lines if at < len(line)]
        return sorted(due, key=lambda item: -item.info.priority)  # stable: keeps the alternation

    def _may_try(self, info: ThreadInfo, now: float) -> bool:
        if info.thread in self._driving:
            return False
        seq, until = self._refused.get(info.thread, (-1, 0.0))
        return seq != info.seq or now >= until

    def _drive(self, info: ThreadInfo, runtime: Runtime[Any, Any]) -> None:
        """Drive one thread to the end of its run; never raises."""
        thread = info.thread
        try:
            if self._state != "working":
                return
            delivery = deliver(runtime, thread, self._max_tries)
            match delivery.outcome:
                case "ended":
                    with self._lock:
                        self._ended += 1
                        self._refused.pop(thread, None)
                case "parked" | "failed":
                    self._count(f"_{delivery.outcome}")
                    log_end(log, info.graph, thread, delivery)
                case "refused":
                    again = thread in self._refused  # tried each minute, but counted once
                    self._refuse(info)
                    if not again:
                        self._say(
                            f"refused {info.graph} {delivery.code}",
                            logging.WARNING,
                            LEFT_TO_OTHERS,
                            thread,
                            delivery.what,
                        )
                case "unreachable":
                    self._trouble = delivery.what
                    self._say(f"left {info.graph} {delivery.code}", logging.WARNING, WAS_LEFT, thread, delivery.what)
                case "broken":  # the thread is tried again later
                    self._refuse(info)
                    log.error("Thread %s ended with an error that no run should raise", thread, exc_info=delivery.error)
                case "left":
                    if delivery.code in ("not-due", "sleeping"):  # its mail may be an input that waits for an answer
                        self._refuse(info, _SOON_S)
        finally:
            self._end(thread)

    def _refuse(self, info: ThreadInfo, for_s: float = _LOOK_AGAIN_S) -> None:
        """Leave a thread to others for a while."""
        with self._lock:
            self._refused[info.thread] = info.seq, time.monotonic() + for_s

    def _look_around(self) -> None:
        """Look for graphs with due threads that this worker does not have, and log each graph once."""
        now = time.monotonic()
        self._look_around_at = now + _LOOK_AGAIN_S
        with self._lock:
            # Kept for a while after their time, so that a thread that is refused again is recognised.
            self._refused = {
                thread: refusal for thread, refusal in self._refused.items() if refusal[1] > now - _LOOK_AGAIN_S
            }
        runtime = next(iter(self._runtimes.values()))
        graphs = {info.graph for info in due_threads(runtime, None, lambda info: info.graph not in self._runtimes)}
        self._unknown = tuple(sorted(graphs))
        for name in self._unknown:
            self._say(
                f"graph {name}", logging.WARNING, "Threads of graph %r are due, and this worker does not have it", name
            )

    def _sweep_failed(self, error: Exception) -> None:
        description = error.what if isinstance(error, GraphrtError) else repr(error)
        self._say(f"sweep {description}", logging.WARNING, "Old threads were not deleted: %s", description)

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)

    def _end(self, thread: str) -> None:
        with self._lock:
            self._driving.pop(thread, None)
            self._lock.notify_all()
        self._tasks.wake()  # it may have left tasks to a queue that is served here
