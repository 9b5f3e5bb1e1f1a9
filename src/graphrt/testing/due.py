"""`drive_due`: what workers would do now, done in the caller, for tests that move a `VirtualClock`."""

from __future__ import annotations

from typing import Any

from graphrt.errors import GraphrtError, told
from graphrt.runtime import RunResult, Runtime
from graphrt.workers._checks import check_runtime
from graphrt.workers._due import due_threads


def drive_due(
    *runtimes: Runtime[Any, Any], queues: bool = True, results: dict[str, RunResult[Any]] | None = None
) -> dict[str, RunResult[Any]]:
    """Start what schedules are due to start, and drive the threads that are due, until nothing is due any more.

    Tasks that wait for workers of queues run here, too.

        clock.advance(3 * 86_400)
        drive_due(runtime)

    Args:
        *runtimes: One for each graph whose threads are to be driven. Each decides by its own clock what is due.
        queues: Whether to run tasks of queues; if not, their threads wait.
        results: A dict that is filled and returned, so that the results of other threads are there if a run fails.

    Returns:
        The last result of each thread that was driven, by thread, in the order in which they were driven last.

    Raises:
        GraphrtError: A run failed, as `drive` raises it. All other threads were driven before, as workers would do. The
            first failure is raised, with a note for each further one. A schedule's thread that could not be started is
            raised at once.
    """
    for runtime in runtimes:
        check_runtime(runtime)
    results = {} if results is None else results
    failures: dict[str, GraphrtError] = {}
    driven = True
    while driven:
        driven = False
        for runtime in runtimes:
            if runtime.store is not None and "schedules" in runtime.store.offers:
                runtime.schedules.start_due()
            for info in due_threads(runtime, runtime.graph.name, lambda info: info.thread not in failures):
                driven = True
                results.pop(info.thread, None)
                try:
                    results[info.thread] = runtime.drive(info.thread)
                except GraphrtError as error:
                    failures[info.thread] = error  # not driven again: one that is refused is still due
            if queues:
                driven = _run_tasks(runtime) or driven
    if failures:
        first, *others = failures
        for thread in others:
            failures[first].add_note(f"Thread {thread!r} failed too: {told(failures[thread])}")
        raise failures[first]
    return results


def _run_tasks(runtime: Runtime[Any, Any]) -> bool:
    """Run the tasks of the runtime's graph that wait for queues; return whether there was one."""
    if not runtime.graph.queues:
        return False
    found = runtime.inbox(kind="task", graph=runtime.graph.name, limit=None)
    # A list, since each of them is to run.
    return "ended" in [runtime.run_task(item.thread, item.interrupt.task_id) for item in found]
