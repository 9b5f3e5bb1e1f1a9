"""What effects write to the memory: collected while their functions run, and written again where their results are given.

While the function of an effect runs, the surroundings of the code have a list that collects its writes
(`Surroundings.memory`). They become part of the record of the effect. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

from graphrt._ambient import inside, surroundings
from graphrt._engine.task import Task
from graphrt.events import MemoryWritten


def note(task: Task, execution: int, event: MemoryWritten) -> None:
    """Note that *execution* of *task* writes to the memory, and so does the effect that is running."""
    task.write_memory(event, execution)
    collected = surroundings().memory
    if collected is not None:
        collected.append(event)


@contextmanager
def collecting() -> Generator[list[MemoryWritten], None, None]:
    """Collect what the code in the block, which is the function of an effect, writes to the memory.

    An effect that encloses it collects the same: its record stands for both.
    """
    wrote: list[MemoryWritten] = []
    above = surroundings().memory
    try:
        with inside(memory=wrote):
            yield wrote
    finally:
        if above is not None:
            above.extend(wrote)


def again(task: Task, execution: int, wrote: Iterable[MemoryWritten]) -> None:
    """Write what an effect wrote whose recorded result *execution* is given."""
    for event in wrote:
        note(task, execution, event if event.task == task.id else replace(event, task=task.id))
