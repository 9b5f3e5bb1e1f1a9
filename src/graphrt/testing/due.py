"""`drive_due`: does in the caller what workers would do now, for tests that advance a `VirtualClock`."""

from __future__ import annotations

from typing import Any

from graphrt.errors import GraphrtError, describe_error
from graphrt.runtime import RunResult, Runtime
from graphrt.workers._checks import check_runtime
from graphrt.workers._due import due_threads


def drive_due(
    *runtimes: Runtime[Any, Any], queues: bool = True, results: dict[str, RunResult[Any]] | None = None
) -> dict[str, RunResult[Any]]:
    """Start the threads of due schedules, and drive due threads until nothing is due.

    Tasks that wait for queue workers are also run here.

        clock.advance(3 * 86_400)
        drive_due(runtime)

    Args:
        *runtimes: One for each graph whose threads are to be driven. Each decides by its own clock which threads are
            due.
        queues: Whether to run tasks of queues; if not, their threads wait.
        results: A dict that is filled and returned, so that the results of other threads are there if a run fails.

    Returns:
        The last result of each driven thread, by thread, in the order in which the threads were last driven.

    Raises:
        GraphrtError: A run failed. As with workers, all other threads are still driven first. The first failure is
            raised, with a note for each further one. A failure to start a schedule's thread is raised at once.
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
                    failures[info.thread] = error  # not driven again, since a refused thread stays due
            if queues:
                driven = _run_tasks(runtime) or driven
    if failures:
        first, *others = failures
        for thread in others:
            failures[first].add_note(f"Thread {thread!r} failed too: {describe_error(failures[thread])}")
        raise failures[first]
    return results


def _run_tasks(runtime: Runtime[Any, Any]) -> bool:
    """Run the tasks of the runtime's graph that wait for queues; return whether there were any."""
    if not runtime.graph.queues:
        return False
    waiting = runtime.inbox(kind="task", graph=runtime.graph.name, limit=None)
    # A list, so that all of them run.
    return "ended" in [runtime.run_task(item.thread, item.interrupt.task_id) for item in waiting]
