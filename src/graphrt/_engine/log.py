"""Events of what the engine did, built only where somebody listens. In task order, never in completion order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphrt import events
from graphrt._engine.fold import Folded, combined
from graphrt._engine.task import FAILED, HANDLED, Task
from graphrt._engine.trace import goto_names
from graphrt._plan.tables import NodePlan

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine

Logged = tuple[str, events.Event]
"""The path of the nested graph that it happened in, and what happened."""


def note(engine: Engine, event: events.Event) -> None:
    """Add *event* to the log, if somebody listens."""
    if engine.log is not None:
        engine.log.append((engine.path, event))


def take(engine: Engine) -> list[Logged]:
    """What was logged since the last call."""
    logged: list[Logged] = engine.log or []
    if logged:
        engine.log = []
    return logged


def committed(engine: Engine, tasks: Sequence[Task], folded: Folded) -> None:
    """The outcomes of *tasks* and their commit."""
    for task in tasks:
        outcome(engine, task)
    wrote = {*folded.values, *folded.grown}
    note(
        engine,
        events.SuperstepCommitted(
            superstep=engine.superstep,
            wrote=tuple(name for name in engine.fields if name in wrote),
            next=tuple(item.node.name for item in engine.due),
        ),
    )


def outcome(engine: Engine, task: Task) -> None:
    """What *task* came to, its retries and effects before it."""
    extra, name, task_id = task.extra, task.node.name, task.id
    if extra is not None:
        for attempt, delay_s, error in extra.retries:
            note(
                engine,
                events.TaskRetried(
                    task=task_id,
                    node=name,
                    attempt=attempt,
                    delay_s=delay_s,
                    error=type(error).__name__,
                    message=first_line(error),
                ),
            )
        extra.retries = []
        for key, result in extra.effects.items():
            note(engine, events.EffectRecorded(task=task_id, key=key, result=result))
        child = extra.child
        if child is not None and engine.log is not None:
            engine.log += take(child)
    if task.status in (HANDLED, FAILED):
        failure = extra.failure if extra else None
        handler = task.node.on_error
        note(
            engine,
            events.TaskFailed(
                task=task_id,
                node=name,
                error=type(failure).__name__,
                message=first_line(failure),
                handler=str(handler.name) if handler is not None and task.status == HANDLED else None,
            ),
        )
        return
    update = combined(engine.fields, task.updates)
    note(
        engine,
        events.TaskSucceeded(
            task=task_id,
            node=name,
            update=update,
            goto=goto_names(task),
            usage=extra.usage if extra else None,
        ),
    )


def failures(engine: Engine) -> None:
    """The tasks of the open superstep that failed for good."""
    if engine.log is not None:
        for task in engine.tasks:
            if task.status == FAILED:
                outcome(engine, task)


def raised(engine: Engine, task: Task) -> None:
    """The questions of *task* that nobody answered yet and that were not logged before."""
    for question in task.open_interrupts():
        if not question.logged:
            question.logged = True
            note(
                engine,
                events.InterruptRaised(id=question.id, task=task.id, node=question.node, payload=question.payload),
            )


def fatigued(engine: Engine, node: NodePlan) -> None:
    """The on_fatigue route of *node* was taken."""
    route = getattr(node.on_fatigue, "name", "END")
    note(engine, events.NodeFatigued(node=node.name, visits=engine.visits[node.index], route=str(route)))


def first_line(error: BaseException | None) -> str:
    """The first line of the error's text: what happened, without where and what to do."""
    return said(error).split("\n", 1)[0] if error is not None else ""


def said(error: BaseException) -> str:
    """The error's text, also of one whose `__str__` is broken."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - user code, while another error is being told
        return f"<no text: its str() raised {type(broken).__name__}>"
