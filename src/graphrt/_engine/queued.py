"""Tasks of nodes with a queue, which workers of the queue run: how they are left, and how they come back (R27).

The process that drives the thread does not run such a task. It *leaves* it: the task waits with a question of the kind
`task`, whose payload is the name of the queue. Workers find the task by that question, run it, and report its outcome
by mail, which closes the question (decision 0159). Each time the task is left, the question has the next version, so
that a report about an earlier time is never taken for one about this time. For the terms, see docs/glossary.md.
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
"""Key of the question, without its version."""
ENDED: Final = "ended"
"""Reason for which the question is closed when a worker has reported the end of the task."""
EDITED: Final = "edited"
"""Reason for which it is closed when the state was edited, which the task has to see."""


def leave(engine: RunState, task: Task) -> None:
    """Let *task*, which is due, wait for a worker of its node's queue. The run pauses once no other task is due."""
    extra = task.more()
    version = 1 + len(left_with(task))
    key = KEY if version == 1 else f"{KEY}:{version}"
    queue = task.node.policy.queue
    extra.interrupts.append(
        OpenInterrupt(f"{engine.interrupt_prefix(task)}{key}", key, task.node.name, queue, kind=TASK, version=version)
    )
    task.status = PAUSED
    engine.note_change(task)  # stage it anew: an outcome that was staged before, such as a failure, is out of date


def leave_anew(engine: Engine) -> None:
    """Leave the tasks of the open superstep that wait for a queue once more, after an edit (`Runtime.update`).

    They have to see the edited state, so a worker that runs one of them on the older state loses it. Tasks of nested
    graphs are not left anew, because the edit does not change the state of a nested graph.
    """
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
    """Close *question*, by which a task waits for its queue, and log that; the task is due.

    Args:
        engine: The engine of the task.
        reason: Why, such as EDITED.
    """
    emit_events.note(engine, events.InterruptWithdrawn(id=question.id, reason=reason))
    engine.withdraw({question.id}, reason)
    question.closed, question.fate_told = reason, True  # `fate_told`: the journal has the event above, so no second one


def waiting(engine: RunState) -> Iterator[tuple[RunState, Task, OpenInterrupt]]:
    """Yield the tasks that wait for a queue with their engines and questions, also those of nested graphs."""
    for task in engine.tasks if not engine.held else ():
        child: RunState | None = task.extra.child if task.extra is not None else None
        if child is not None:
            yield from waiting(child)
        question = open_question(task)
        if question is not None:
            yield engine, task, question
