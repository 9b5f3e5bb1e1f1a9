"""Tasks of nodes with a queue, which workers of the queue run (decision 0159): how they are left, and how they come back.

A task that is left waits with a question of the kind `task`. Each time it is left, the question has the next version,
so that a report about an earlier time is never taken for one about this time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.open_interrupt import TASK, OpenInterrupt
from graphrt._engine.pausing import left_with
from graphrt._engine.task import PAUSED, Task

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.run_state import RunState

KEY: Final = "queue"
ENDED: Final = "ended"
"""Reason for which the question is closed when a worker has reported the end of the task."""
EDITED: Final = "edited"
"""Reason for which it is closed when the state was edited, which the task has to see."""


def leave(engine: RunState, task: Task) -> None:
    """Let *task*, which is due, wait for a worker of its node's queue."""
    extra = task.more()
    version = 1 + len(left_with(task))
    key = KEY if version == 1 else f"{KEY}:{version}"
    queue = task.node.policy.queue
    extra.interrupts.append(
        OpenInterrupt(f"{engine.interrupt_prefix(task)}{key}", key, task.node.name, queue, kind=TASK, version=version)
    )
    task.status = PAUSED
    engine.note_change(task)  # an outcome that was staged before, such as a failure, is out of date


def leave_anew(engine: Engine) -> None:
    """Leave the tasks of the open superstep that wait for a queue once more, since what they see was edited."""
    for task in engine.tasks:
        question = open_question(task)
        if question is None:
            continue
        close(engine, question, EDITED)
        leave(engine, task)
        emit_events.raised(engine, task)


def open_question(task: Task) -> OpenInterrupt | None:
    """Return the open question with which *task* waits for a queue; None if it does not."""
    if task.status != PAUSED:
        return None
    return next((question for question in left_with(task) if question.open), None)


def close(engine: Engine, question: OpenInterrupt, reason: str) -> None:
    """Close *question* of the thread that *engine* is of, and note that; its task is due."""
    emit_events.note(engine, events.InterruptWithdrawn(id=question.id, reason=reason))
    engine.withdraw({question.id}, reason)
    question.closed, question.fate_told = reason, True


def waiting(engine: RunState) -> Iterator[tuple[RunState, Task, OpenInterrupt]]:
    """Yield the tasks that wait for a queue with their engines and questions, also those of nested graphs."""
    for task in engine.tasks if not engine.held else ():
        child: RunState | None = task.extra.child if task.extra is not None else None
        if child is not None:
            yield from waiting(child)
        question = open_question(task)
        if question is not None:
            yield engine, task, question
