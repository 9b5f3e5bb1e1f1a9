"""The stream mode `live`: what tasks do while their superstep is open, in nested graphs and at the top alike (rule R17).

Nothing of it is journalled, and nothing is built unless somebody watches (`Control.live`). That a task starts is told
by whoever starts it; everything else follows from the engine's state after a report or a commit, and is told here.
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
    """One item of the stream mode `live`. It has no `seq`: nothing of it is in the journal."""

    path: str
    """Task id of the nested graph's node that the task belongs to, empty at the top."""
    node: str
    task_id: str
    what: What
    """`started`, `retrying` and `ended` tell of an attempt, `step` of its commit. `withdrawn` takes back what was shown
    of the task since it started, below its path included: the attempt was given up."""
    value: Any = None
    """`started`: the number of the attempt. `retrying`: a mapping with `attempt`, the number of the next one, `wait_s`,
    `error` and `message`. `ended`: "success", "error" or "interrupted". `step`: the update, None if nothing changed."""


def live(task: Task, what: What, value: Any = None) -> Live:
    """An item about *task*."""
    return Live(path=task.engine.path.rstrip("/"), node=task.node.name, task_id=task.id, what=what, value=value)


def reported(task: Task, reply: Any) -> Flow:
    """Publish what became of an attempt of *task*, which was reported with *reply*."""
    nested = task.node.child is not None
    if task.status == DUE:
        if not nested:  # a nested graph goes on from its last commit: what it has shown stands
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
    if nested and task.status == HANDLED:  # one that failed goes on from its last commit at the next drive
        yield Publish("live", live(task, "withdrawn"))
    yield Publish("live", live(task, "ended", _OUTCOME[task.status]))


def given_up(engine: Engine) -> Flow:
    """Publish which tasks of a superstep that could not be committed lost their outcomes: a retry runs them again."""
    for task in engine.tasks:
        if task.status == FAILED:
            if task.node.child is None:
                yield Publish("live", live(task, "withdrawn"))
            yield Publish("live", live(task, "ended", "error"))


def take_long_way(tasks: Sequence[Task]) -> None:
    """Let drivers run *tasks* where they tell that a task starts, and not by a plain call."""
    for task in tasks:
        task.plain = CALL_WITH_CONTEXT


def committed(engine: Engine) -> list[Publish]:
    """What the tasks of the open superstep wrote, in task order; taken before its commit, told after it."""
    steps: list[Publish] = []
    for task in engine.tasks:
        update = combined(engine.fields, [tracked(engine, one) for one in task.updates])
        steps.append(Publish("live", live(task, "step", own(update))))
    return steps
