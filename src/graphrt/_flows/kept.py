"""What a fork kept for tasks that are still to open: effects, questions and answers of the same tasks in its source.

It is staged under the task's id with `#kept`. Keys of effects end with a number, so none of them is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve_all
from graphrt._plan.fields import own

KEPT: Final = "#kept"
"""End of the key of what was kept for a task."""


def kept_in(staged: Mapping[str, Sequence[Logged]]) -> dict[str, Sequence[Logged]]:
    """Return what was kept for tasks of nested graphs: events by task id."""
    return {key.removesuffix(KEPT): logged for key, logged in staged.items() if key.endswith(KEPT) and "/" in key}


def take_kept(engine: Engine) -> None:
    """Let the tasks of the open superstep of a nested graph take what was kept for them."""
    if not engine.kept:
        return
    for task in engine.tasks:
        logged = engine.kept.pop(task.id, None)
        if logged is not None:
            evolve_all(engine, logged, own, journalled=False)
        if task.node.child is not None:
            task.more().kept = engine.kept  # the same dict, so that it is empty once all was taken
