"""Failed tasks: location, note on the node's exception, the error for the caller, and permanent failure.

Whether a failure is retried or handled is decided in `outcome`. An exception of a node or its libraries reaches the
caller as the cause of a NodeError. An error of graphrt about the task, such as an UpdateError or a LimitError, reaches
the caller as it is (decision 0055): such a failure is marked `raise_as_is`.

`said` returns the text of an error, and `describe_error` its class and text.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final

from graphrt import _retry_policy as retry
from graphrt._engine.advice import advice, other_answer
from graphrt._engine.task import DONE, FAILED, HANDLED, Task
from graphrt._plan.tables import NodePlan
from graphrt.errors import AuditError, GraphrtError, Place, ReplayDivergedError, StoreError, describe_error, said
from graphrt.errors._codes.nodes import NODE_FAILED, NODE_TIMEOUT

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

_OURS: Final = __name__.partition(".")[0] + "."
"""Prefix of the names of graphrt's own modules."""
WHOLE: Final = (AuditError, ReplayDivergedError, StoreError)
"""Errors that keep their full traceback, since its frames may show a problem in a store or in graphrt itself."""


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return *trace* without the frames of graphrt's own modules. A traceback cannot be changed, so a copy is built."""
    entries: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
            entries.append(trace)
        trace = trace.tb_next
    trimmed: TracebackType | None = None
    for entry in reversed(entries):
        trimmed = TracebackType(trimmed, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trimmed


def progress(engine: RunState) -> tuple[int, int] | None:
    """Return the number of finished tasks and of all tasks in the superstep that is open or due next.

    If its only task runs a nested graph, the counts are those of the superstep that is open there. None without a task.
    """
    tasks = engine.tasks
    if not tasks:
        return (0, len(engine.due)) if engine.due else None
    child = tasks[0].extra.child if len(tasks) == 1 and tasks[0].extra is not None else None
    inner = progress(child) if child is not None else None
    return inner or (sum(task.status in (DONE, HANDLED) for task in tasks), len(tasks))


def mark(engine: RunState, task: Task, error: BaseException, *, raise_as_is: bool) -> None:
    """Add the location to *error*, with which an attempt of *task* failed.

    An error of graphrt itself gets it as attributes. An exception of the node gets a note, and loses the graphrt frames
    at the top of its traceback; one of an agent or an effect loses all of them.

    Args:
        raise_as_is: Whether *error* is graphrt's own statement about the task, which reaches the caller unwrapped.
    """
    place = engine.where(task)  # a Place: graph, node, task and so on, by name in `known`
    if raise_as_is and isinstance(error, GraphrtError):
        error.locate(place)
        return
    trace = error.__traceback__
    if isinstance(error, GraphrtError) and not isinstance(error, WHOLE):
        trace = users_frames(trace)  # its text says what an agent or an effect could not do
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        trace = trace.tb_next  # graphrt frames above the node do not help its author
    if trace is not None:  # else the exception has no frame outside graphrt, and keeps its traceback
        error.__traceback__ = trace
    known = {name: place.known.get(name) for name in ("node", "declared_at", "task_id", "arg")}
    note = f"In {Place(**known)}"
    if note not in getattr(error, "__notes__", ()):  # the same exception may be raised by several attempts
        error.add_note(note)


def failure(engine: RunState, task: Task) -> BaseException:
    """Return the error to raise for *task*, which failed for good and so ends the run."""
    extra = task.more()
    error = extra.failure
    assert error is not None  # noqa: S101 - a FAILED task has one
    other_advice = other_answer(engine, task)  # how to replace a person's answer to the task; may be empty
    # A BaseException such as KeyboardInterrupt is never wrapped.
    if not isinstance(error, Exception) or extra.raise_as_is:
        if other_advice and isinstance(error, GraphrtError) and other_advice not in error.fix:
            error.fix = f"{error.fix} {other_advice}".lstrip()
        return error
    node: NodePlan = task.node
    attempts = f" after {task.attempt} attempts" if task.attempt > 1 else ""
    text = said(error)
    declared, known, fix = NODE_FAILED, "", extra.advice  # `advice` from the driver; may be empty
    if isinstance(error, GraphrtError):  # its Known and Fix become those of the NodeError: one block, not two (0055)
        known, fix = error.known, fix or error.fix
    elif isinstance(error, TimeoutError) and text.startswith("no result within"):  # made by `outcome` for `TimedOut`
        declared, fix = NODE_TIMEOUT, NODE_TIMEOUT.fix
    else:
        fix = fix or advice(engine, task, error)
    # A server may ask, with Retry-After, for a longer wait than the node's retry policy allows. In this case *too_long*
    # describes it; otherwise it is None.
    too_long = None if node.policy.retry is None else retry.asks_too_long(node.policy.retry, error)
    if too_long is not None:
        fix = "Retry the thread after that time, or raise wait_max_s of the retry= policy"
    fix = fix or NODE_FAILED.fix
    if engine.thread is not None:
        end = "" if fix.endswith(("?", "!", ".")) else "."  # a fix may be a question: "Did you mean 'deps'?"
        fix = f"{fix}{end} Then retry({engine.thread!r}): finished tasks do not run again."
    if other_advice:
        fix = f"{fix} {other_advice}"
    cause = describe_error(error).replace("\n", "\n    ") + ("" if too_long is None else f" ({too_long})")
    inner = (error.code, *(error.inner_codes or ())) if isinstance(error, GraphrtError) else None
    raised = declared(
        node=node.name, tried=attempts, cause=cause, inner_codes=inner, where=engine.where(task), known=known, fix=fix
    )
    raised.__cause__ = error
    return raised


def fail_all(tasks: Sequence[Task], error: BaseException) -> None:
    """Fail *tasks*, whose nodes have returned, permanently with an error of graphrt itself.

    `retry` runs them again. They changed the state in place, or their writes cannot be folded.
    """
    for task in tasks:
        task.engine.note_change(task)  # its staged outcome is out of date
        task.updates, task.goto, task.status = (), None, FAILED
        extra = task.more()
        extra.failure, extra.raise_as_is = error, True
