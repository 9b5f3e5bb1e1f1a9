"""Tasks of queues through DBOS: one queue of DBOS for each queue of nodes, and messages `invoke(graph, thread, task)`.

DBOS keeps the limits of these queues. As for threads, a message holds only ids. A lost message costs time, and a
repeated one is harmless, because the result of a task is in the mail of its thread. DBOS itself is an argument, since
only `dbos` imports it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, final

from graphrt.backends._dbos_recovery import Recovery
from graphrt.errors import GraphrtError
from graphrt.limits import Queue
from graphrt.runtime import Runtime

WORKFLOW: Final = "graphrt.invoke"
_PAGE: Final = 200
"""Maximum number of tasks per graph for which one sweep sends messages."""
_SLOWEST_REPEAT_S: Final = 30.0
"""Maximum delay before the same process sends another message for the same task."""

log: Final = logging.getLogger("graphrt.backends.dbos")


def queue_of(name: str) -> str:
    """Return DBOS's name for the queue *name*. Its colon keeps it distinct from the queues of graphs."""
    return f"graphrt:queue:{name}"


@final
class TaskMessages:
    """The messages about tasks that one host sends and delivers.

    Args:
        dbos: The class `DBOS`.
        recovery: Tracks the messages that this process works on.
        duplicated: The error that DBOS raises for a message that already waits or runs.
        form: The serialization format in which DBOS stores the arguments of a message.
        runtimes: Graph name to its runtime.
        queues: The queues that are served here, with their limits.
        drive: Function that sends the message `drive(thread)`.
        works: Returns whether the host takes messages now.
    """

    def __init__(
        self,
        dbos: Any,
        recovery: Recovery,
        duplicated: type[Exception],
        form: Any,
        runtimes: Mapping[str, Runtime[Any, Any]],
        queues: Mapping[str, Queue],
        drive: Callable[[str], None],
        works: Callable[[], bool],
    ) -> None:
        self._dbos = dbos
        self._duplicated = duplicated
        self._form = form
        self._runtimes = runtimes
        self._queues = queues
        self._drive = drive
        self._works = works
        self._any = any(runtime.graph.queues for runtime in runtimes.values())
        self._recovery = recovery
        self._sent: dict[str, tuple[float, float]] = {}
        """Maps the id of a task's question to the time of its last message and the delay before the next one."""

    @property
    def served(self) -> list[str]:
        """Names of the DBOS queues from which this host takes messages."""
        return [queue_of(name) for name in self._queues]

    @property
    def known(self) -> list[str]:
        """The names of all queues of DBOS that tasks of these graphs go through."""
        names = {name for runtime in self._runtimes.values() for name in runtime.graph.queues}
        return [queue_of(name) for name in sorted(names)]

    def register_message(self) -> None:
        """Register the workflow of the message with DBOS, before DBOS is launched."""

        def invoke(graph: str, thread: str, task: str) -> str:
            return self._deliver(graph, thread, task)

        self._dbos.workflow(name=WORKFLOW, max_recovery_attempts=None, serialization_type=self._form)(invoke)

    def register_queues(self, polling_interval_s: float) -> None:
        """Configure the limits of the served queues in DBOS."""
        for name, queue in self._queues.items():
            limiter = queue.limiter
            self._dbos.register_queue(
                queue_of(name),
                worker_concurrency=queue.worker_concurrency,
                global_concurrency=queue.concurrency,
                limiter=None if limiter is None else {"limit": limiter[0], "period": limiter[1]},
                polling_interval_sec=polling_interval_s,
            )

    def send_for(self, graph: str, thread: str) -> None:
        """Send messages for the tasks of *thread*, which was just driven."""
        runtime = self._runtimes[graph]
        if not runtime.graph.queues:
            return
        with suppress(GraphrtError):  # the next sweep finds them
            for interrupt in runtime.state(thread).interrupts:
                if interrupt.kind == "task":
                    self._send(graph, thread, interrupt.task_id, interrupt.id, str(interrupt.payload))

    def send_what_waits(self, waiting: Iterable[str | None], first_pause_s: float) -> None:
        """Send a message for each waiting task without one: it was lost, or never sent."""
        if not self._any:
            return
        now, known, version = time.monotonic(), set(waiting), self._dbos.application_version
        sent, self._sent = self._sent, {}
        for graph, runtime in self._runtimes.items():
            for item in runtime.inbox(kind="task", graph=graph, limit=_PAGE) if runtime.graph.queues else ():
                question = item.interrupt
                at, pause_s = sent.get(question.id, (-1.0, 0.0))
                if f"{version} {question.id}" in known or (at >= 0 and now - at < pause_s):
                    self._sent[question.id] = (at if at >= 0 else now), max(pause_s, first_pause_s)
                    continue
                self._sent[question.id] = now, min(pause_s * 2, _SLOWEST_REPEAT_S) or first_pause_s
                self._send(graph, item.thread, question.task_id, question.id, str(question.payload))

    def _send(self, graph: str, thread: str, task: str, question: str, queue: str) -> None:
        version = self._dbos.application_version
        options: Any = {
            "workflow_name": WORKFLOW,
            "queue_name": queue_of(queue),
            "app_version": version,
            "deduplication_id": f"{version} {question}",
            "serialization_type": self._form,
        }
        with suppress(self._duplicated):  # a message already waits or runs
            # In a separate context; otherwise it would be recorded as a step of the message that is being delivered.
            Context().run(self._dbos.enqueue_workflow_with_options, options, graph, thread, task)

    def _deliver(self, graph: str, thread: str, task: str) -> str:
        """Run a task when DBOS delivers its message; never raises."""
        runtime = self._runtimes.get(graph)
        if runtime is None or not self._works():
            return "left"
        try:
            with self._recovery.working():
                outcome: str = Context().run(runtime.run_task, thread, task)
            if outcome == "ended":
                Context().run(self._drive, thread)
        except GraphrtError as error:
            log.warning("Task %s of thread %s was left: %s", task, thread, error.what)
            return "left"
        except Exception:
            log.exception("Task %s of thread %s ended with an error that no task should raise", task, thread)
            return "broken"
        return outcome
