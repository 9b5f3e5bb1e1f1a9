"""The remains of an interrupted drive: after a conflict, or after the death of its process."""

from __future__ import annotations

from .flow import Flow
from .playing import pause


def fail_writers(flow: Flow, jobs: list[int]) -> None:
    """R9: after a conflict the tasks that wrote the field run again. They did not fail: their attempts continue."""
    for at in jobs:
        job = flow.jobs[at]
        job.status, job.updates, job.goto, job.known, job.dropped = "due", [], None, False, True
        job.loose = set()  # the execution ended
        if job.child is not None and job.child.log[-1:] and job.child.log[-1].kind == "run-completed":
            del job.child.log[-1]  # the end of a nested graph is stored only with the outcome of its task
            job.child.flushed = min(job.child.flushed, len(job.child.log))


def stand_failed(flow: Flow) -> None:
    """Failures reported by a nested graph count until they are reported again: an interrupted retry has all attempts
    again.
    """
    last: dict[int, str] = {}
    for entry in flow.log:
        if entry.path == flow.path and entry.kind == "superstep-committed":
            last = {}
        elif entry.path == flow.path and entry.job is not None and entry.kind.startswith("task-"):
            last[entry.job] = entry.kind
    for at, job in enumerate(flow.jobs):
        if job.status == "due" and last.get(at) == "task-failed":
            job.status = "failed"
        if job.child is not None:
            stand_failed(job.child)


def forget_loose(flow: Flow) -> None:
    """Results of pure effects of running tasks are not stored."""
    for job in flow.jobs:
        if job.status == "due":
            job.results = {number: result for number, result in job.results.items() if number not in job.loose}
        if job.child is not None:
            forget_loose(job.child)


def stand_paused(flow: Flow) -> None:
    """A nested graph that waits for answers is loaded as waiting, although its task was not notified before the death."""
    for job in flow.jobs:
        if job.child is not None:
            stand_paused(job.child)
            # Its failed tasks run again, like after a retry.
            has_failed = any(one.status == "failed" for one in job.child.jobs)
            if job.status == "due" and not has_failed and not job.child.goes_on():
                pause(flow, job, job.child)
