"""Texts about failed tasks: the place, the note on the node's exception, and the error that the caller gets.

Whether a failure is retried or handled is decided in `outcome`. Which errors reach the caller as they are, and which
become the cause of a NodeError, is decision 0055.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrt import _retry_policy as retry
from graphrt._engine.advice import advice, other_answer
from graphrt._engine.task import Task
from graphrt._plan.quoting import tells
from graphrt._plan.tables import NodePlan
from graphrt.errors import GraphrtError, NodeError, Place, said, told

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine

_OURS = __name__.partition(".")[0] + "."


def place(engine: Engine, task: Task | None = None) -> Place:
    """Return the place of *engine*, or of its *task*, without an argument that reveals an untracked value (R16)."""
    plan, path = engine.plan, engine.path[:-1] or None
    if task is None:
        superstep = engine.superstep or None
        return Place(graph=plan.name, path=path, superstep=superstep, thread=engine.thread, run_id=engine.run_id)
    return Place(
        graph=plan.name,
        path=path,
        node=task.node.name,
        declared_at=plan.spec_where(task.node.index) or None,
        task_id=task.id,
        superstep=task.superstep,
        arg=None if tells(task.arg, plan.state.untracked, engine.values) else task.arg,
        thread=engine.thread,
        run_id=engine.run_id,
    )


def mark(engine: Engine, task: Task, error: BaseException, *, raise_as_is: bool) -> None:
    """Add the place to *error*: as attributes of graphrt's own errors, as a note on exceptions of the node.

    Args:
        raise_as_is: Whether *error* is graphrt's own statement about the task, which reaches the caller unwrapped.
    """
    here = place(engine, task)
    if raise_as_is and isinstance(error, GraphrtError):
        error.locate(here)
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        trace = trace.tb_next  # frames of graphrt above the node do not help its author
    if trace is not None:  # else the exception has no frame outside graphrt, and keeps its traceback
        error.__traceback__ = trace
    known = {name: here.known.get(name) for name in ("node", "declared_at", "task_id", "arg")}
    note = f"In {Place(**known)}"
    if note not in getattr(error, "__notes__", ()):  # one exception may be raised by several attempts
        error.add_note(note)


def failure(engine: Engine, task: Task) -> BaseException:
    """Return the error to raise for a task that failed for good."""
    extra = task.more()
    error = extra.failure
    assert error is not None  # noqa: S101 - a FAILED task has one
    instead = other_answer(engine, task)
    if not isinstance(error, Exception) or extra.raise_as_is:
        if instead and isinstance(error, GraphrtError) and instead not in error.fix:
            error.fix = f"{error.fix} {instead}".lstrip()
        return error
    node: NodePlan = task.node
    tried = f" after {task.attempt} attempts" if task.attempt > 1 else ""
    text = said(error)
    known, code, fix = "", "node-failed", extra.advice
    if isinstance(error, GraphrtError):  # its Known and Fix become those of the NodeError: one block, not two (0055)
        known, fix = error.known, fix or error.fix
    elif isinstance(error, TimeoutError) and text.startswith("no result within"):
        code = "node-timeout"
        fix = "Raise its timeout_s, or give it retry= or on_error=. A sync node's worker thread goes on by itself."
    else:
        fix = fix or advice(engine, task, error)
    too_long = None if node.policy.retry is None else retry.asks_too_long(node.policy.retry, error)
    if too_long is not None:
        fix = "Retry the thread after that time, or raise wait_max_s of the retry= policy"
    fix = fix or "Correct the node. What it raised is this error's __cause__, which a traceback shows above it."
    if engine.thread is not None:
        fix = f"{fix.rstrip('.')}. Then retry({engine.thread!r}): finished tasks do not run again."
    if instead:
        fix = f"{fix} {instead}"
    what = told(error).replace("\n", "\n    ") + ("" if too_long is None else f" ({too_long})")
    raised = NodeError(
        f"Node {node.name!r} failed{tried}: {what}",
        code=code,
        where=place(engine, task),
        known=known,
        fix=fix,
    )
    raised.__cause__ = error
    return raised
