"""Handles queued tasks when the runs of a thread are re-executed.

Queue workers report the ends of tasks by mail. The next `RunResumed` takes the reports. After it, an
`InterruptWithdrawn` with the reason ENDED closes the question of each task. The key of such a question starts with
QUEUE.

`reexecution` repeats the runs of a thread on an in-memory thread, which has no workers. So it runs these tasks itself
before it resumes the thread. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from graphrt import events
from graphrt._engine.open_interrupt import ENDED, QUEUE
from graphrt._runs import reopen_run
from graphrt._runs.run_config import RunConfig
from graphrt._runs.run_to_end import drive

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._runs.answers import Given
    from graphrt.events import Entry


def reported_again(after: Iterable[Entry], thread: str) -> Callable[[RunConfig], Any] | None:
    """Return a function that runs the tasks whose reports a resumption took, and then resumes; None if it took none.

    The function gets the configuration of the second execution. `reexecution` calls it in place of a plain resume.

    Args:
        after: The entries of the log after `RunResumed`, in order.
        thread: The thread.
    """
    tasks: list[str] = []
    for entry in after:
        event = entry.event
        if not isinstance(event, events.InterruptWithdrawn) or event.reason != ENDED:
            break
        # The id is `thread/task#queue`, or `thread/task#queue:2` if the task was queued a second time.
        tasks.append(event.id.partition("/")[2].rpartition(f"#{QUEUE}")[0])
    if not tasks:
        return None

    def nothing(engine: Engine, *, failed: bool, reported: bool) -> dict[str, Given]:  # noqa: ARG001 - of `Prepare`
        """Return no answers, since the reports alone make the thread continue."""
        return {}

    def again(config: RunConfig) -> Any:
        """Run the tasks as a worker would, without the limits of the queue, and then resume the thread."""
        from graphrt._runs.remote_tasks import run_task  # imported late: few logs have tasks of queues

        for task in tasks:
            run_task(config, thread, task, None)  # None: no limits
        # The resumption takes the reports, which `run_task` has posted to the thread.
        return drive(reopen_run.continued(config, thread, "resume", nothing))

    return again
