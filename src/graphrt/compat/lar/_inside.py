"""The inner runs of a run's steps: branches of batches, and designs.

The journal has them once the step is committed. The tasks of a failed step are not committed, so node functions also
record their outcomes here, in the process that runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from graphrt.events import Entry, TaskFailed, TaskSucceeded, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a task, as a step, a journal event or a node function knows it."""

    node: str
    task: str
    """Its id, which begins with the id of its parent task."""
    updates: tuple[Mapping[str, Any], ...] = ()
    error: BaseException | None = None
    message: str = ""
    """The error as text, if the exception itself is not available."""
    usage: Usage | None = None


def outcome_of_entry(entry: Entry) -> Outcome | None:
    """Return the outcome of a task, if the entry has one."""
    event = entry.event
    if isinstance(event, TaskSucceeded):
        return Outcome(node=event.node, task=event.task, updates=event.updates, usage=event.usage)
    if isinstance(event, TaskFailed):
        return Outcome(
            node=event.node, task=event.task, error=event.exception, message=event.message, usage=event.usage
        )
    return None


@final
class Inside:
    """The tasks that ran inside steps whose records are not made yet. It is a sink of the journal."""

    def __init__(self) -> None:
        self._committed: dict[str, list[Outcome]] = {}
        """Maps ids of graph tasks to the tasks of these graphs."""
        self._noted: dict[str, Outcome] = {}
        """Tasks by id."""
        self._parts_of: dict[str, set[str]] = {}
        """Maps ids of graph tasks to the ids of tasks in them: recorded ones, and graphs with recorded ones."""
        self._errors: dict[str, BaseException] = {}
        """Maps ids of graphs to the first error that was recorded in them."""

    def __call__(self, entry: Entry) -> None:
        """Process an entry about a task that ended inside another task."""
        ended = outcome_of_entry(entry)
        if ended is not None and entry.path:
            known = self._noted.get(ended.task)
            if known is not None and ended.error is not None:
                ended = replace(ended, updates=known.updates)
            self._committed.setdefault(entry.path, []).append(ended)

    def note(self, outcome: Outcome) -> None:
        """Process the outcome of a node function."""
        self._noted[outcome.task] = outcome
        part = outcome.task
        while "/" in part:
            graph = part.rpartition("/")[0]
            self._parts_of.setdefault(graph, set()).add(part)
            if outcome.error is not None:
                self._errors.setdefault(graph, outcome.error)
            part = graph

    def noted(self, task: str) -> Outcome | None:
        """Return the notes of a node function."""
        return self._noted.get(task)

    def at(self, path: str) -> list[Outcome]:
        """Return the tasks of the graph that the task with this id runs: 0..n, in task order."""
        return self._committed.get(path) or self._parts(path)

    def _parts(self, path: str) -> list[Outcome]:
        """Return the tasks from the notes of node functions. A graph task has no update here."""
        outcomes: list[Outcome] = []
        for part in sorted(self._parts_of.get(path, ()), key=_position):
            name = part.rpartition("/")[2].partition(":")[2]
            outcomes.append(self._noted.get(part) or Outcome(node=name, task=part, error=self._errors.get(part)))
        return outcomes

    def forget(self, path: str) -> None:
        """Forget a task whose record was made, with its inner runs."""
        for known in (self._committed, self._noted, self._parts_of, self._errors):
            for task_path in [
                task_path for task_path in known if task_path == path or task_path.startswith(f"{path}/")
            ]:
                known.pop(task_path)


def _position(task: str) -> tuple[int, int]:
    """Return the superstep and the position of a task by its id, such as `1.0:BatchNode/2.1:branch 1`."""
    superstep, _, position = task.rpartition("/")[2].partition(":")[0].partition(".")
    return int(superstep), int(position)
