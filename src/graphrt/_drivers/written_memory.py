"""What effects write to the memory: collected while their functions run, and written again where their results are given.

While the function of an effect runs, the surroundings of the code have the `TaskWrites` of the effect
(`Surroundings.memory`), which become part of its record. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from graphrt._ambient import surroundings
from graphrt._engine.task import Task
from graphrt._engine.task_writes import TaskWrites
from graphrt.events import MemoryWritten


def writes_here(task: Task, execution: int) -> TaskWrites:
    """Return where the running code notes what *execution* of *task* writes: at the effect that is running, if any."""
    whole = task.memory_writes(execution)
    running: TaskWrites | None = surroundings().memory
    # A graph that runs inside an effect of another task has effects of its own.
    return running if running is not None and running.execution is whole else whole


def effect_writes(task: Task, execution: int) -> TaskWrites:
    """Return the writes of an effect that *execution* of *task* begins now."""
    around = writes_here(task, execution)
    return TaskWrites(around, around.begin())


def again(task: Task, execution: int, wrote: Iterable[MemoryWritten]) -> None:
    """Write what an effect wrote whose recorded result *execution* is given."""
    writes = effect_writes(task, execution)
    for event in wrote:
        writes.write(event if event.task == task.id else replace(event, task=task.id))
