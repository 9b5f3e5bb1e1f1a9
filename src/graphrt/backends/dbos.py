"""`DbosHost`: threads driven through queues of DBOS 3.4 on PostgreSQL. Needs `graphrt[dbos]`.

DBOS delivers messages, limits how many run at once, and takes over those of dead processes. A message names a graph and
a thread and holds no state; its only effect is `Runtime.drive`. Finished work is in the journal. DBOS's own record of a
message says only that it was delivered, so its table can be emptied at any time.

Three rules of DBOS shape this module (decision 0157):

- An exception ends a workflow for good. The message therefore never raises; a later sweep of the store sends unfinished
  work again.
- By default the version of an application is a hash of its source, and messages of other versions are never delivered.
  Ours is a constant.
- A message with the id of one that was delivered is dropped without an error. Ids are therefore always new. DBOS's
  deduplication prevents a flood: it considers only messages that still wait or run. Its key contains the number of the
  thread's last entry, so a message for a later part of the run is never mistaken for an earlier one.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Literal, final

import typing_extensions as te

from graphrt.backends._dbos_records import Records
from graphrt.backends._dbos_recovery import Recovery
from graphrt.backends._dbos_tasks import WORKFLOW as TASK_WORKFLOW
from graphrt.backends._dbos_tasks import TaskMessages
from graphrt.backends._liveness import Liveness, with_timeouts
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, MISSING_PACKAGE
from graphrt.errors._codes.workers import UNKNOWN_GRAPH, WORKER_RUNS_ALREADY
from graphrt.limits import Queue
from graphrt.runtime import Runtime, ThreadInfo
from graphrt.workers._checks import checked_number, checked_pause, checked_runtimes
from graphrt.workers._delivery import WAS_LEFT, Delivery, deliver, log_end
from graphrt.workers._due import due_threads
from graphrt.workers._queues import checked_queues
from graphrt.workers._repeated_log import RepeatedLog
from graphrt.workers._serving import drain, serve

__all__ = ["DbosHost"]

try:
    import_module("dbos")  # imported here, so that a missing package is reported once and clearly
except ModuleNotFoundError as _missing:
    raise MISSING_PACKAGE(
        user="graphrt.backends.dbos", package=_missing.name, extra="dbos", value=_missing.name
    ) from _missing

from dbos import (
    DBOS,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    EnqueueOptions,
    WorkflowSerializationFormat,
)
from dbos import error as dbos_errors

_WIRE: Final = 1
"""Version of the message. A new number keeps older and newer processes from receiving each other's messages."""
_WORKFLOW: Final = "graphrt.drive"
_FORM: Final = WorkflowSerializationFormat.PORTABLE
"""JSON. The default of DBOS is pickle."""
_NO_INSTANCE: Final = "without a DBOS instance"
"""DBOS's error text when the process has no instance; there is no other public way to detect that."""
_FIRST: Final = 2**30
"""Priority of a message to a thread of priority 0: DBOS takes smaller numbers first, from 1 on."""
_CONNECTIONS: Final = 10
"""Maximum number of connections of a DBOS that the host starts, instead of DBOS's default of 20. DBOS never closes an
opened connection, so five processes would use up the 100 that PostgreSQL allows by default."""
_SENT_AT_ONCE: Final = 200
"""Maximum number of messages that one sweep of the store sends, so that the next sign of life is not late."""
_SLOWEST_REPEAT_S: Final = 30.0
"""Maximum delay before the same process sends another message for the same entry of a thread."""

log: Final = logging.getLogger("graphrt.backends.dbos")


@final
class DbosHost:
    """Drives threads through DBOS: any number of processes, on any number of machines, share its queues.

    There is one queue for each graph, named `graphrt.<graph>`. DBOS is a singleton of its process, so there is one host
    in a process. If the process already has its own `DBOS`, launched or not, the host registers with it and leaves its
    shutdown to the application.

    Args:
        *runtimes: The runtimes to drive with, one for each graph, all with the same store.
        system_database_url: The PostgreSQL database that DBOS keeps its tables in. It may be the store's own database.
        drives: Whether this process drives threads. A server that only starts them passes False.
        worker_concurrency: How many threads of one graph this process drives at once.
        concurrency: How many threads of one graph all processes drive at once; None for any number.
        limiter: How many threads of one graph may begin to be driven, in how many seconds: `(100, 60.0)`.
        polling_interval_s: Seconds between two polls of a queue by DBOS.
        sweep_s: Seconds between two sweeps, which look for due threads without a message in the store, and for dead
            executors.
        dead_after_s: Seconds after which a process that shows no sign of life, though its session is open, counts as
            dead. A killed process loses its session at once.
        recover: Whether to take over the messages of dead processes. Pass False where DBOS Conductor does that.
        keep_s: Seconds for which DBOS keeps the records of delivered messages.
        max_tries: As for `Worker`.
        queues: The queues whose tasks this process runs: names, or a mapping of names to their limits, which DBOS keeps.
            Each is a DBOS queue. All processes that serve a queue need the graphs whose nodes name it.

    Raises:
        InputError: An argument does not fit.
    """

    def __init__(
        self,
        *runtimes: Runtime[Any, Any],
        system_database_url: str,
        drives: bool = True,
        worker_concurrency: int = 8,
        concurrency: int | None = None,
        limiter: tuple[int, float] | None = None,
        polling_interval_s: float = 0.02,
        sweep_s: float = 0.5,
        dead_after_s: float = 15.0,
        recover: bool = True,
        keep_s: float = 3600.0,
        max_tries: int = 5,
        queues: Sequence[str] | Mapping[str, Queue] = (),
    ) -> None:
        self._runtimes: dict[str, Runtime[Any, Any]] = checked_runtimes(runtimes)
        if not str(system_database_url).startswith("postgresql://"):
            raise INVALID_ARGUMENT(
                argument="system_database_url=",
                value=system_database_url,
                known="DBOS keeps its queues in PostgreSQL; its mode on SQLite has one process",
                wanted='the URL of a PostgreSQL database, such as "postgresql://user@host/database"; '
                "it may be that of the store, without `schema=`",
            )
        self._queues = {f"graphrt.{name}": name for name in self._runtimes}
        served = checked_queues("queues=", queues, self._runtimes.values())
        self._recovery = Recovery(DBOS)
        self._tasks = TaskMessages(
            DBOS,
            self._recovery,
            dbos_errors.DBOSQueueDeduplicatedError,
            _FORM,
            self._runtimes,
            served,
            self.drive,
            self._works,
        )
        self._url = with_timeouts(system_database_url)
        self._drives = drives
        max_concurrency = None if concurrency is None else checked_number("concurrency", concurrency, whole=True)
        self._limits: dict[str, Any] = {
            "worker_concurrency": checked_number("worker_concurrency", worker_concurrency, whole=True),
            "global_concurrency": max_concurrency,
            "limiter": None if limiter is None else {"limit": limiter[0], "period": limiter[1]},
            "polling_interval_sec": checked_pause("polling_interval_s", polling_interval_s),
        }
        self._sweep_s = checked_pause("sweep_s", sweep_s)
        self._dead_after_s = checked_number("dead_after_s", dead_after_s, whole=False)
        self._recovers_dead = recover
        self._keep_s = checked_number("keep_s", keep_s, whole=False)
        self._max_tries = checked_number("max_tries", max_tries, whole=True)
        self._state: Literal["new", "working", "draining", "stopped"] = "new"
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._driving: set[str] = set()
        self._owns_dbos = False
        self._repeated = RepeatedLog(log)
        self._sent: dict[str, tuple[int, float, float]] = {}
        """Maps a thread to its `seq` at the last message, the time of that, and the delay before the next one."""
        names, all_queues = [_WORKFLOW, TASK_WORKFLOW], [*self._queues, *self._tasks.known]
        self._records = Records(DBOS, names, all_queues, self._keep_s, self._stopping)
        self._sweeper = threading.Thread(target=self._sweep_on, name="graphrt-sweep", daemon=True)

    # -- its life --------------------------------------------------------------------------------------------------

    def start(self) -> te.Self:
        """Launch DBOS, begin to drive threads in its threads, and return the host.

        Raises:
            InputError: The host has already been started.
        """
        with self._lock:
            if self._state != "new":
                raise WORKER_RUNS_ALREADY(state=self._state)
            self._state = "working"
        self._launch()
        for queue in self._queues:
            DBOS.register_queue(queue, **self._limits)
        self._tasks.register_queues(self._limits["polling_interval_sec"])
        self._sweeper.start()
        return self

    def _launch(self) -> None:
        """Launch the process's DBOS, or one of our own, with the message registered."""

        def drive(graph: str, thread: str) -> str:
            return self._deliver(graph, thread)

        DBOS.workflow(
            name=_WORKFLOW,
            # A thread whose runs die is parked by its journal; DBOS counts deliveries, which says less.
            max_recovery_attempts=None,
            serialization_type=_FORM,
        )(drive)
        self._tasks.register_message()
        try:
            DBOS.launch()
        except dbos_errors.DBOSException as error:
            if _NO_INSTANCE not in str(error):
                raise
        else:
            self._begin_recovery(DBOS.executor_id)
            return
        executor = uuid.uuid4().hex
        config: DBOSConfig = {
            "name": "graphrt",
            "system_database_url": self._url,
            "application_version": f"graphrt-{_WIRE}",
            "executor_id": executor,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "WARNING",
            "sys_db_pool_size": _CONNECTIONS,
        }
        DBOS(config=config)
        self._owns_dbos = True
        # Otherwise the process would take messages of every queue in the database, whatever graphs it has.
        DBOS.listen_queues([*(self._queues if self._drives else ()), *self._tasks.served])
        self._begin_recovery(executor)  # before it may take a message
        DBOS.launch()

    def _begin_recovery(self, executor: str) -> None:
        liveness = Liveness(self._url, executor, self._dead_after_s) if self._recovers_dead else None
        self._recovery.begin(executor, liveness)

    def serve(self, *, grace_s: float = 10.0) -> None:
        """Work until the process gets SIGTERM or SIGINT, then `stop`; a second signal gives no more time.

        Call it in the main thread, where Python runs signal handlers.
        """
        serve(self, grace_s, lambda: self._state == "stopped")

    def stop(self, *, grace_s: float = 10.0) -> int:
        """Take no more messages, hand over the threads being driven, and return their number.

        Each thread has *grace_s* seconds to finish its open superstep. Then its unfinished tasks are interrupted, and
        run again where the thread is next driven. It takes at least a second, the interval at which DBOS checks whether
        its workflows have ended. It may be called again.

        Raises:
            InputError: *grace_s* is not a number of seconds of 0 or more. Nothing was stopped.
        """
        checked_number("grace_s", grace_s, whole=False)
        with self._lock:
            if self._state in ("new", "stopped"):
                self._state = "stopped"
                return 0
            first, self._state = self._state == "working", "draining"
            number = len(self._driving)
        self._stopping.set()
        drains = drain(self._runtimes.values(), "the host stops", grace_s, lambda: len(self._driving))
        if first and self._owns_dbos:
            # Concurrently with the drains: it stops taking messages at once, and waits for those that run.
            DBOS.destroy(workflow_completion_timeout_sec=math.ceil(grace_s) + 5)
        for drain_thread in drains:
            drain_thread.join()
        if first:
            self._sweeper.join(timeout=5.0)
            self._state = "stopped"
        return number

    def __enter__(self) -> te.Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # -- messages --------------------------------------------------------------------------------------------------

    def drive(self, thread: str) -> None:
        """Request that any process drive a thread; return when the message is stored.

        The message is a hint: without it, the next sweep of the store would find the thread. Before `start` and after
        `stop` it does nothing, and another process finds the thread.

        Raises:
            InputError: There is no such thread, or this host has no runtime of its graph.
        """
        if self._state != "working":
            return
        store = next(iter(self._runtimes.values())).store
        assert store is not None  # noqa: S101 - checked by the constructor
        head = store.head(thread)
        if head.graph not in self._runtimes:
            raise UNKNOWN_GRAPH(thread=thread, name=head.graph, graphs=sorted(self._runtimes))
        self._send(head.graph, thread, head.seq, head.priority)

    def _send(self, graph: str, thread: str, seq: int, priority: int) -> None:
        version = DBOS.application_version
        options: EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "queue_name": f"graphrt.{graph}",
            "app_version": version,
            "deduplication_id": _key(version, thread, seq),
            "serialization_type": _FORM,
            "priority": _FIRST - priority,
        }
        with suppress(dbos_errors.DBOSQueueDeduplicatedError):  # a message already waits or runs
            # In a separate context; a call from a node would otherwise be recorded as a step of the node's message.
            Context().run(DBOS.enqueue_workflow_with_options, options, graph, thread)

    def _deliver(self, graph: str, thread: str) -> str:
        """Drive a thread when DBOS delivers its message; never raises."""
        runtime = self._runtimes.get(graph)
        if runtime is None or self._state != "working":
            return "left"
        with self._lock:
            self._driving.add(thread)
        try:
            with self._recovery.working():
                # A node is not a DBOS step, even if it calls one: its effects are in the journal.
                delivery: Delivery = Context().run(deliver, runtime, thread, self._max_tries)
        finally:
            with self._lock:
                self._driving.discard(thread)
        Context().run(self._tasks.send_for, graph, thread)
        if delivery.outcome in {"refused", "unreachable"}:
            self._repeated.say(f"{graph} {delivery.code}", logging.WARNING, WAS_LEFT, thread, delivery.what)
        elif delivery.outcome in {"failed", "parked"}:
            log_end(log, graph, thread, delivery)
        elif delivery.outcome == "broken":
            log.error("Thread %s ended with an error that no run should raise", thread, exc_info=delivery.error)
        return delivery.outcome

    # -- what repairs lost messages --------------------------------------------------------------------------------

    def _sweep_on(self) -> None:
        while not self._stopping.wait(self._sweep_s):
            try:
                self._sweep()
            except Exception as error:  # noqa: BLE001 - a database that is away: the next look is a new attempt
                text = "Cannot look for threads, and will try again: %s"
                self._repeated.say(type(error).__name__, logging.WARNING, text, error)
            self._repeated.tell_more()
        self._recovery.close()

    def _sweep(self) -> None:
        self._recovery.beat()
        rows = self._records.with_status("ENQUEUED", "PENDING")
        self._recovery.put_back(rows)
        self._send_what_is_due({row.deduplication_id for row in rows})
        self._tasks.send_what_waits([row.deduplication_id for row in rows], self._sweep_s)
        self._records.tidy()

    def _send_what_is_due(self, waiting: set[str | None]) -> None:
        """Send a message for each due thread without one: it was lost, or never sent."""
        now, version = time.monotonic(), DBOS.application_version
        sent, self._sent = self._sent, {}
        room = _SENT_AT_ONCE

        def wants(info: ThreadInfo) -> bool:
            seq, at, pause_s = sent.get(info.thread, (-1, 0.0, 0.0))
            if seq == info.seq:
                self._sent[info.thread] = seq, at, pause_s
                if now - at < pause_s:
                    return False
            return _key(version, info.thread, info.seq) not in waiting

        for name, runtime in self._runtimes.items():
            for info in due_threads(runtime, name, wants)[:room]:
                seq, _, pause_s = sent.get(info.thread, (-1, 0.0, 0.0))
                # A message that changed nothing is repeated at growing intervals.
                longer_s = min(pause_s * 2, _SLOWEST_REPEAT_S) if seq == info.seq else self._sweep_s
                self._sent[info.thread] = info.seq, now, longer_s
                self._send(name, info.thread, info.seq, info.priority)
                room -= 1

    def _works(self) -> bool:
        return self._state == "working"


def _key(version: str, thread: str, seq: int) -> str:
    """Return DBOS's deduplication key, with the version: messages of other versions are not delivered here."""
    return f"{version} {seq} {thread}"
