"""Items of the stream modes `live` and `messages`.

`live` shows the progress of tasks while their superstep is open, in nested graphs and in the outermost one (rule R17).
Its items are not journalled, and are built only if the mode has a reader (`Control.live`, decision 0050). `invoke`,
with which drivers run a node, publishes the start of a task. All other items follow from the engine's state after a
report or a commit, and are created here. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.fold import shown
from graphrt._engine.storability import tracked
from graphrt._engine.task import DONE, DUE, FAILED, HANDLED, PAUSED, STOPPED, Task
from graphrt._flows.effects import Flow
from graphrt._plan.fields import own
from graphrt._plan.tables import CALL_WITH_CONTEXT

LIVE: Final = frozenset({"custom", "messages", "live"})
"""Stream modes whose items are shown while a node still runs."""
What: TypeAlias = Literal["started", "retrying", "ended", "step", "withdrawn"]
"""See `Live.what`."""
_OUTCOME: Mapping[int, str] = {DONE: "success", HANDLED: "error", FAILED: "error", PAUSED: "interrupted"}
"""Value of an `ended` item by the status of its task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One item of the stream mode `live`. It has no `seq`, because it is not in the journal."""

    path: str
    """Task id of the node that runs the task's nested graph; empty in the outermost graph."""
    node: str
    """Name of the task's node."""
    task_id: str
    """Id of the task, stable across re-execution."""
    what: What
    """`started`, `retrying` and `ended` describe an attempt, `step` its commit. `withdrawn` revokes the items of the
    task since it started, including those of tasks below its path, because the attempt was abandoned."""
    value: Any = None
    """`started`: the number of the attempt, from 1. `retrying`: a mapping with `attempt` (the number of the next one),
    `wait_s`, `error` and `message`. `ended`: "success", "error" or "interrupted". `step`: the update, None if there is
    no change. `withdrawn`: None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem:
    """One item of the stream mode `messages`: a piece of a reply, the whole reply at its end, or an agent's event."""

    node: str
    """Name of the node that called the model."""
    task_id: str
    """Id of the task that called the model."""
    item: Any
    """A TextDelta, a ToolCallDelta, an AgentReply, or one of the events of an agent."""


def live(task: Task, what: What, value: Any = None) -> Live:
    """Return an item about *task*; see `Live` for the value of each kind (*what*)."""
    # `Engine.path` is the task id of the enclosing node with a slash at its end, or empty.
    return Live(path=task.engine.path.rstrip("/"), node=task.node.name, task_id=task.id, what=what, value=value)


def reported(task: Task, reply: Any) -> Flow:
    """Publish the outcome of an attempt of *task*, after the run loop has reported its *reply* to the engine.

    Args:
        reply: The driver's answer. Only `STOPPED` matters here: the attempt was cancelled, and is not retried now.
    """
    nested = task.node.child is not None
    if task.status == DUE:
        if not nested:  # a nested graph continues from its last commit, so the items that it has shown stay valid
            yield live(task, "withdrawn")
        if reply is not STOPPED and task.extra is not None and task.extra.retries:
            _, wait_s, error = task.extra.retries[-1]  # (number of the failed attempt, backoff, its error)
            details = {
                "attempt": task.attempt,
                "wait_s": wait_s,
                "error": emit_events.error_name(error),
                "message": emit_events.first_line(error),
            }
            yield live(task, "retrying", details)
        return
    # A task whose failure was handled does not run again, and its attempt is not in the journal, so its items are void.
    # In the next drive, a task that failed permanently runs again, and a nested graph continues.
    if task.status == HANDLED:
        yield live(task, "withdrawn")
    yield ended(task)


def ended(task: Task) -> Live:
    """Return the `ended` item for the last attempt of *task*."""
    return live(task, "ended", _OUTCOME[task.status])


def given_up(engine: Engine) -> Flow:
    """Publish which tasks lost their outcomes because their superstep could not be committed; `retry` runs them.

    The commit has made them FAILED, for instance because two of them wrote the same field, after they had been shown as
    "ended".
    """
    for task in engine.tasks:
        if task.status == FAILED:
            if task.node.child is None:  # a nested graph continues from its last commit, which stays valid
                yield live(task, "withdrawn")
            yield live(task, "ended", "error")


def take_long_way(tasks: Sequence[Task]) -> None:
    """Make drivers run *tasks* with `invoke`, which publishes `started`, instead of a plain call of the function.

    Called by the run loop for the due tasks of a superstep, if the mode is read.
    """
    for task in tasks:
        task.plain = CALL_WITH_CONTEXT  # this calling convention always uses `invoke`


def step_items(tasks: Sequence[Task]) -> list[Live]:
    """Return the `step` items of *tasks*, whose superstep was committed, in task order.

    Untracked fields are left out, because their values must never leave the run (R16). The several updates of a nested
    graph are combined into one for display.
    """
    steps: list[Live] = []
    for task in tasks:
        update = shown(task.engine.plan.update, [tracked(task.engine, written) for written in task.updates])
        steps.append(live(task, "step", own(update)))  # a copy: readers may change what they get
    return steps
