"""Tasks of nodes with a queue (decision 0159): left by the driver of the thread, and run by a worker of the queue.

A task that is left to its queue pauses with a question of the kind `task`. A worker of the queue, often in another
process, finds the question in the store, runs the task, and reports its outcome to the thread by mail. The next driver
of the thread processes the report: an outcome or question is restored onto the task, and a failure is added to
`Control.failures`.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve
from graphrt._engine.questions import leave
from graphrt._engine.task import Task
from graphrt._flows.deadlines import Ends
from graphrt._flows.effects import NOW, Control, Flow
from graphrt._flows.live import take_long_way
from graphrt._flows.run_one import one


def leave_queued(engine: Engine, due: Sequence[Task], control: Control) -> list[Task]:
    """Leave queue tasks among *due* to their queues, fail those that failed there, and return the others.

    Called by the run loop for the due tasks of a superstep; it runs the returned ones in this process. `leave` makes a
    task PAUSED, so that the run pauses when no other task is due.
    """
    local_tasks: list[Task] = []
    for task in due:
        if task.node.policy.queue is None:
            local_tasks.append(task)
        elif (failure := control.failures.pop(task.id, None)) is not None:
            evolve(engine, failure.event)  # sets the task's status and error, as a replay of the event would
            # Whether the caller gets the error itself, without a NodeError.
            task.more().raise_as_is = failure.raise_as_is
        else:
            leave(engine, task)  # asks the question by which workers find the task
    return local_tasks


def run_left(engine: Engine, task: Task, control: Control) -> Flow:
    """Run *task*, which waits for its queue, with its retries; the flow that a worker of the queue drives.

    Afterwards the outcome is on *task*, and the worker reports it by mail. Nothing is committed, because the worker
    does not own the thread.

    Args:
        engine: The restored engine of the task's graph, which may be a nested one.
        control: Control object of this run of the task, used to cancel it.

    Raises:
        DeadlineError: The deadline of the run is over, counted from now.
        StoreError: An outcome inside a nested graph could not be reported.
    """
    deadline_s: float | None = None
    if engine.limits.deadline_s is not None:
        deadline_s = (yield NOW) + engine.limits.deadline_s
    engine.begin()  # the superstep is open: this only enables the check for changes of the state by a node (R15)
    # Its question stays open, because for the thread the task waits until its end is reported.
    task.again()  # due, so that `one` runs it
    if control.live:
        take_long_way((task,))
    yield from one(engine, task, control, Ends(deadline_s))
