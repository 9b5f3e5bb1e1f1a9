"""Errors of queues, whose workers run single tasks of threads: their names and limits, and tasks that others run."""

from __future__ import annotations

from graphrt.errors import ConflictError, UpdateError
from graphrt.errors._codes.threads import WAITS_FOR_SIGNAL
from graphrt.errors._error_code import ErrorCode

TASK_TAKEN_OVER = ErrorCode(
    "task-taken-over",
    ConflictError,
    "Another worker has reported on task {task!r} of thread {thread!r} since this one began it.",
    known="its lease ran out here, and the other worker continues with what was reported before",
    fix="Let the node end: nothing more that it does is recorded. If this happens often, raise lease_s of the runtime.",
)
UNTRACKED_ON_QUEUE = ErrorCode(
    "untracked-on-queue",
    UpdateError,
    "Node {node!r} writes the untracked field {field!r}, and runs on the queue {queue!r}.",
    known="an untracked field is stored nowhere, so another process cannot report it",
    fix="Let the node write a field that is stored, or run it without queue=.",
)
WAITS_FOR_QUEUE = WAITS_FOR_SIGNAL.variant(
    "Interrupt {interrupt} waits for a worker of the queue {payload}, and takes no answer.",
    known="a task of node {asker!r}",
    fix="Start a worker that serves the queue, or cancel({thread!r}).",
)
