"""Tasks of queues in a run that is executed again: they run before the resumption that took what was reported of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from graphrt import events
from graphrt._engine.queued import ENDED, KEY
from graphrt._runs import reopen_run
from graphrt._runs.driving import drive
from graphrt._runs.run_config import RunConfig

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._runs.timers import Given
    from graphrt.events import Entry


def reported_again(after: Iterable[Entry], thread: str) -> Callable[[RunConfig], Any] | None:
    """Return what runs the tasks whose end a resumption took, and resumes; None if it took none.

    Args:
        after: The entries after `RunResumed`, in order.
        thread: The thread.
    """
    tasks: list[str] = []
    for entry in after:
        event = entry.event
        if not isinstance(event, events.InterruptWithdrawn) or event.reason != ENDED:
            break
        tasks.append(event.id.partition("/")[2].rpartition(f"#{KEY}")[0])
    if not tasks:
        return None

    def nothing(engine: Engine, *, failed: bool, reported: bool) -> dict[str, Given]:  # noqa: ARG001 - of `Prepare`
        return {}

    def again(config: RunConfig) -> Any:
        from graphrt._runs.remote_tasks import run_task

        for task in tasks:
            run_task(config, thread, task, None)
        return drive(reopen_run.continued(config, thread, "resume", nothing))

    return again
