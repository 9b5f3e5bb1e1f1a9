"""The memory writes of effects: collected while their functions run, and repeated when their recorded results are used.

While the function of an effect runs, its surroundings hold the `TaskWrites` of the effect (`Surroundings.memory`),
which become part of its record. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from graphrt._ambient import surroundings
from graphrt._engine.task import Task
from graphrt._engine.task_writes import TaskWrites
from graphrt.events import MemoryWritten


def writes_here(task: Task, execution: int) -> TaskWrites:
    """Return where the running code records the writes of *execution* of *task*: in the running effect, if any."""
    task_writes = task.memory_writes(execution)
    running: TaskWrites | None = surroundings().memory
    # A graph that runs inside an effect of another task has its own effects.
    return running if running is not None and running.execution is task_writes else task_writes


def effect_writes(task: Task, execution: int) -> TaskWrites:
    """Create the collection for the writes of an effect that *execution* of *task* begins now."""
    outer = writes_here(task, execution)
    return TaskWrites(outer, outer.begin())


def again(task: Task, execution: int, recorded: Iterable[MemoryWritten]) -> None:
    """Repeat the writes of an effect whose recorded result *execution* gets."""
    writes = effect_writes(task, execution)
    for event in recorded:
        writes.write(event if event.task == task.id else replace(event, task=task.id))
