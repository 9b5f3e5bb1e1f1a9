"""Items of the stream modes `live` and `messages`.

`live` shows what tasks do while their superstep is open, in nested graphs and at the top (rule R17). Its items are not
journalled, and are built only if the mode is read (`Control.live`, decision 0050). `invoke`, by which drivers run a
node, publishes that a task starts. All other items follow from the engine's state after a report or a commit, and are
made here. For the terms, see docs/glossary.md.
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
    """Publish how an attempt of *task* ended, after the run loop has reported its *reply* to the engine.

    Args:
        reply: What the driver answered; only `STOPPED` matters here: the attempt was cancelled, and is not retried now.
    """
    nested = task.node.child is not None
    if task.status == DUE:
        if not nested:  # a nested graph continues from its last commit, so that what it has shown stays valid
            yield live(task, "withdrawn")
        if reply is not STOPPED and task.extra is not None and task.extra.retries:
            _, wait_s, error = task.extra.retries[-1]  # (number of the failed attempt, backoff, its error)
            told = {
                "attempt": task.attempt,
                "wait_s": wait_s,
                "error": emit_events.error_name(error),
                "message": emit_events.first_line(error),
            }
            yield live(task, "retrying", told)
        return
    # A task whose failure was handled does not run again, and the journal has nothing of its attempt, so what it has shown
    # is void. One that failed for good runs again, and a nested graph continues, at the next drive.
    if task.status == HANDLED:
        yield live(task, "withdrawn")
    yield ended(task)


def ended(task: Task) -> Live:
    """Return the item that says how the last attempt of *task*, which has ended, did so."""
    return live(task, "ended", _OUTCOME[task.status])


def given_up(engine: Engine) -> Flow:
    """Publish which tasks lost their outcomes because their superstep could not be committed; `retry` runs them.

    The commit has made them FAILED, for instance because two of them wrote the same field. They had "ended" before.
    """
    for task in engine.tasks:
        if task.status == FAILED:
            if task.node.child is None:  # a nested graph continues from its last commit, which stays valid
                yield live(task, "withdrawn")
            yield live(task, "ended", "error")


def take_long_way(tasks: Sequence[Task]) -> None:
    """Make drivers run *tasks* by `invoke`, which publishes `started`, and not by a plain call of the function.

    Called by the run loop for the due tasks of a superstep, if the mode is read.
    """
    for task in tasks:
        task.plain = CALL_WITH_CONTEXT  # the way of calling that always goes through `invoke`


def step_items(tasks: Sequence[Task]) -> list[Live]:
    """Return the `step` items of *tasks*, whose superstep was committed, in task order.

    Untracked fields are left out, because their values leave the run nowhere (R16). The several updates of a nested
    graph are combined into one for display.
    """
    steps: list[Live] = []
    for task in tasks:
        update = shown(task.engine.plan.update, [tracked(task.engine, one) for one in task.updates])
        steps.append(live(task, "step", own(update)))  # a copy: readers may change what they get
    return steps
