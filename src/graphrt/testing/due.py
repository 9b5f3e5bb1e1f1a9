"""`drive_due`: what workers would do now, done in the caller, for tests that move a `VirtualClock`."""

from __future__ import annotations

from typing import Any

from graphrt.runtime import RunResult, Runtime
from graphrt.stores.schedules import keeps_schedules
from graphrt.workers._checks import check_runtime
from graphrt.workers._due import due_threads


def drive_due(*runtimes: Runtime[Any], queues: bool = True) -> dict[str, RunResult[Any]]:
    """Start what schedules are due to start, and drive the threads that are due, until nothing is due any more.

    Tasks that wait for workers of queues run here, too.

        clock.advance(3 * 86_400)
        drive_due(runtime)

    Args:
        *runtimes: One for each graph whose threads are to be driven. Each decides by its own clock what is due.
        queues: Whether to run tasks of queues; if not, their threads wait.

    Returns:
        The last result of each thread that was driven, by thread, in the order in which they were driven last.

    Raises:
        GraphrtError: A run failed, as `drive` raises it, or a schedule's thread could not be started.
    """
    for runtime in runtimes:
        check_runtime(runtime)
    results: dict[str, RunResult[Any]] = {}
    driven = True
    while driven:
        driven = False
        for runtime in runtimes:
            if keeps_schedules(runtime.store):
                runtime.schedules.start_due()
            for info in due_threads(runtime, runtime.graph.name, lambda _: True):
                result = runtime.drive(info.thread)
                results.pop(info.thread, None)
                results[info.thread] = result
                driven = True
            if queues:
                driven = _run_tasks(runtime) or driven
    return results


def _run_tasks(runtime: Runtime[Any]) -> bool:
    """Run the tasks of the runtime's graph that wait for queues; return whether there was one."""
    if not runtime.graph.queues:
        return False
    found = runtime.inbox(kind="task", graph=runtime.graph.name, limit=None)
    # A list, since each of them is to run.
    return "ended" in [runtime.run_task(item.thread, item.interrupt.task_id) for item in found]
