"""What the id of a task says: its superstep, its node, and the task whose nested graph it belongs to."""

from __future__ import annotations

__all__ = ["above", "node_of", "superstep_of"]


def above(path: str) -> str:
    """Return the path of the graph that the task with the id *path* belongs to."""
    return path.rpartition("/")[0]


def superstep_of(task: str) -> int:
    """Return the superstep of a task, which its id begins with: `4.0:search`."""
    number = task.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


def node_of(task: str) -> str:
    """Return the name of a task's node, which its id ends with."""
    return task.rpartition("/")[2].partition(":")[2]
