"""The stream mode `live`: what tasks do while their superstep is open, in nested graphs and at the top (rule R17).

Its items are not journalled, and are built only if the mode is read (`Control.live`, decision 0050). Drivers publish
that a task starts. All other items follow from the engine's state after a report or a commit, and are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.fold import combined
from graphrt._engine.storability import tracked
from graphrt._engine.task import DONE, DUE, FAILED, HANDLED, PAUSED, STOPPED, Task
from graphrt._flows.effects import Flow, Publish
from graphrt._plan.fields import own
from graphrt._plan.tables import CALL_WITH_CONTEXT

What: TypeAlias = Literal["started", "retrying", "ended", "step", "withdrawn"]
_OUTCOME: Mapping[int, str] = {DONE: "success", HANDLED: "error", FAILED: "error", PAUSED: "interrupted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One item of the stream mode `live`. It has no `seq`, because it is not in the journal."""

    path: str
    """Task id of the node that runs the nested graph which the task belongs to; empty at the top."""
    node: str
    """Name of the task's node."""
    task_id: str
    """Id of the task, stable over re-execution."""
    what: What
    """`started`, `retrying` and `ended` describe an attempt, `step` its commit. `withdrawn` takes back what was shown
    of the task since it started, also of tasks below its path, because the attempt was given up."""
    value: Any = None
    """`started`: the number of the attempt, from 1. `retrying`: a mapping with `attempt` (the number of the next one),
    `wait_s`, `error` and `message`. `ended`: "success", "error" or "interrupted". `step`: the update, None if there is
    no change. `withdrawn`: None."""


def live(task: Task, what: What, value: Any = None) -> Live:
    """Return an item about *task*."""
    return Live(path=task.engine.path.rstrip("/"), node=task.node.name, task_id=task.id, what=what, value=value)


def reported(task: Task, reply: Any) -> Flow:
    """Publish how an attempt of *task* ended, after *reply* was reported to the engine."""
    nested = task.node.child is not None
    if task.status == DUE:
        if not nested:  # a nested graph continues from its last commit, so that what it has shown stays valid
            yield Publish("live", live(task, "withdrawn"))
        if reply is not STOPPED and task.extra is not None and task.extra.retries:
            _, wait_s, error = task.extra.retries[-1]
            told = {
                "attempt": task.attempt,
                "wait_s": wait_s,
                "error": emit_events.error_name(error),
                "message": emit_events.first_line(error),
            }
            yield Publish("live", live(task, "retrying", told))
        return
    # A nested graph whose failure was handled does not run again; one that failed continues at the next drive.
    if nested and task.status == HANDLED:
        yield Publish("live", live(task, "withdrawn"))
    yield Publish("live", live(task, "ended", _OUTCOME[task.status]))


def given_up(engine: Engine) -> Flow:
    """Publish which tasks lost their outcomes because their superstep could not be committed; `retry` runs them."""
    for task in engine.tasks:
        if task.status == FAILED:
            if task.node.child is None:
                yield Publish("live", live(task, "withdrawn"))
            yield Publish("live", live(task, "ended", "error"))


def take_long_way(tasks: Sequence[Task]) -> None:
    """Make drivers run *tasks* in the way that publishes `started`, and not by a plain call."""
    for task in tasks:
        task.plain = CALL_WITH_CONTEXT


def committed(engine: Engine) -> list[Publish]:
    """Return the `step` items of the open superstep, in task order, without untracked fields (R16).

    Made before the commit, which closes the superstep, and published after it.
    """
    steps: list[Publish] = []
    for task in engine.tasks:
        update = combined(engine.fields, [tracked(engine, one) for one in task.updates])
        steps.append(Publish("live", live(task, "step", own(update))))
    return steps
