"""An open superstep, as it stood when its process died: staged outcomes, and nested graphs with theirs (rules R9, R17).

The journal was folded before; what is staged beside it belongs to the superstep that is due or open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphrt._engine.engine import Engine
from graphrt._engine.evolve import Take, evolve_all
from graphrt._engine.log import Logged
from graphrt._engine.task import DONE, DUE, HANDLED, PAUSED, Task
from graphrt._flows.child import child_again

Staged = Mapping[str, Sequence[Logged]]
"""Key to events: a task's id, its id with `#` and the key of an effect, or the path of a nested graph with `+` and a
number."""


def restore_open(engine: Engine, staged: Staged, answers: Mapping[str, Any], take: Take) -> None:
    """Bring the open superstep of *engine* to where it was.

    Args:
        answers: Answers by interrupt id that were journalled since the last commit.

    Raises:
        LookupError, ValueError: What is staged does not fit the graph.
    """
    if staged:
        _restore(engine, staged, take)
        if answers:
            engine.answer(answers)


def _restore(engine: Engine, staged: Staged, take: Take) -> None:
    if not engine.tasks:
        first = f"{engine.path}{engine.superstep + 1}."
        if not engine.due or not any(key.startswith(first) for key in staged):
            return
        engine.open()
    for task in engine.tasks:
        mine = task.id
        effects = f"{mine}#"
        if mine in staged:
            _forget(task)
            evolve_all(engine, staged[mine], take, journalled=False)
        for key, logged in staged.items():
            if key.startswith(effects):
                evolve_all(engine, logged, take, journalled=False)
        if task.node.child is not None and task.status not in (DONE, HANDLED):
            _restore_child(task, staged, take)


def _forget(task: Task) -> None:
    """What is staged of a task is all that is known of it: what the journal told before is told again."""
    extra = task.extra
    if extra is not None:
        extra.retries = []


def _restore_child(task: Task, staged: Staged, take: Take) -> None:
    path = f"{task.id}/"
    if not any(key.startswith(path) for key in staged):
        return
    child = child_again(task)
    while (logged := staged.get(f"{path}+{child.batches}")) is not None:
        evolve_all(child, logged, take)
        child.settled += logged
        child.batches += 1
    _restore(child, staged, take)
    extra = task.more()
    extra.child = child
    extra.usage = None
    open_ = child.open_interrupts()
    extra.interrupts = open_
    task.status = PAUSED if open_ and not _running(child) else DUE


def _running(child: Engine) -> bool:
    return any(task.status == DUE for task in child.tasks) or not child.tasks
