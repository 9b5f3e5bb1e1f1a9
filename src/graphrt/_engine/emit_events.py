"""Build the events that describe the engine's actions, but only if a journal, a sink or a stream listens.

The events of a superstep are in task order, not in completion order. So the journal does not depend on which task was
faster (R2, R13). A run without listeners builds no event objects.

To *log* an event means to append it to `RunState.log`, from which the run loop writes it. The engine of a nested graph
has its own log, and its `settled` lists the events that it staged. All of them become entries together with the outcome
of the task in the parent graph (R17). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, get_args
from zlib import crc32

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import questions
from graphrt._engine.child_threads import children_of
from graphrt._engine.fold import Folded
from graphrt._engine.join_state import JoinState
from graphrt._engine.model_calls import ModelEvent
from graphrt._engine.pending_as_data import NO_ITEMS, due_parts, join_standings
from graphrt._engine.redacting import redacted_error
from graphrt._engine.steps import goto_names
from graphrt._engine.storability import tracked
from graphrt._engine.task import DONE, FAILED, HANDLED, Due, HandOver, Task
from graphrt._plan.tables import NodePlan
from graphrt.errors import said

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

Logged = tuple[str, events.Event]
"""Path of the nested graph in which the event happened (empty at the top), and the event."""
RECORDS: Final = (
    *(events.TaskRetried, events.ThreadStarted, events.EffectStarted, events.EffectRecorded),
    *get_args(ModelEvent),
)
"""Events of a task other than questions and outcome; logged by `effects`."""


def note(engine: RunState, event: events.Event) -> None:
    """Append *event* to the log, if there is one."""
    if engine.log is not None:
        engine.log.append((engine.path, event))


def note_all(engine: RunState, logged: Sequence[Logged]) -> None:
    """Append events of a nested graph, with their paths, if there is a log."""
    if engine.log is not None:
        engine.log.extend(logged)


def take(engine: RunState) -> list[Logged]:
    """Return the events that were logged since the last call, and remove them from the log."""
    if not engine.log:
        return []
    return engine.swap_log([]) or []


def stopped(engine: RunState, handing_over: str | None, halt: str | None) -> None:
    """Log that the run stopped with work left to do.

    Args:
        handing_over: Why it hands its thread over to another process, for instance at a shutdown; None if it does not.
        halt: Why it was cancelled; None if no reason is known.
    """
    if handing_over is not None:
        note(engine, events.RunHandedOver(reason=handing_over))
    else:
        cancelled(engine, halt or "cancelled")


def cancelled(engine: RunState, reason: str) -> None:
    """Log that the run was cancelled, and its child threads with it: the commit of this event posts them a request."""
    note(engine, events.RunCancelled(reason=reason, folded=folded(engine), threads=children_of(engine)))


def interrupted(engine: RunState) -> None:
    """Log that the run pauses, with its open questions."""
    question_ids = tuple(question.id for question in engine.open_interrupts())
    note(engine, events.RunInterrupted(interrupts=question_ids, folded=folded(engine)))


def completed(engine: RunState) -> None:
    """Log that the run completed."""
    note(engine, events.RunCompleted(steps=engine.steps, folded=folded(engine)))


def has_completed(engine: RunState) -> bool:
    """Return whether the last logged event says that the run completed."""
    log = engine.log
    return log is not None and len(log) > 0 and isinstance(log[-1][1], events.RunCompleted)


def failed(engine: RunState, error: Exception) -> None:
    """Log that the run failed with *error*."""
    note(
        engine,
        events.RunFailed(
            error=type(error).__name__,
            message=first_line(redacted_error(engine, error)),
            node=getattr(error, "node", None),  # errors of graphrt contain it
            folded=folded(engine),
        ),
    )


def committed(engine: RunState, tasks: Sequence[Task], folded: Folded, changed_joins: Sequence[JoinState]) -> None:
    """Log the outcomes of *tasks*, then their commit; *changed_joins* are the joins whose generation it changed."""
    for task in tasks:
        outcome(engine, task)
    written = {*folded.values, *folded.grown}  # fields with a new value, and those whose list is extended in place
    names, sends, errors, handled = due_parts(engine.following())  # the last three by position in *names*
    note(
        engine,
        events.SuperstepCommitted(
            superstep=engine.superstep,
            wrote=tuple(name for name in engine.fields if name in written),  # schema order
            next=names,
            sends=sends,
            errors=errors,
            joins=join_standings(engine, changed_joins) if changed_joins else (),
            handled=handled,
            # A person is asked by `interrupt_after` before the routers are called.
            after=tuple(question.task_id for question in engine.open_interrupts()) if engine.unrouted else (),
            waits=0 if engine.unrouted else len(engine.waiting),
        ),
    )


def routed(engine: RunState, reason: str, changed_joins: Sequence[JoinState] = ()) -> None:
    """Log that tasks became due without a commit; *changed_joins* are the joins whose generation changed.

    Args:
        reason: `entry` (the router of START), `fatigue` (`on_fatigue` routes), `starved` (joins fired because nothing
            else was due) or `answered` (an `interrupt_after` was).
    """
    if engine.log is not None:
        names, sends, errors, handled = due_parts(engine.following())
        standings = join_standings(engine, changed_joins)
        note(
            engine,
            events.TasksRouted(
                reason=reason,
                next=names,
                sends=sends,
                errors=errors,
                joins=standings,
                handled=handled,
                waits=len(engine.waiting),
            ),
        )


def effects(engine: RunState, task: Task) -> None:
    """Log the records of *task* other than its outcome: retries, model calls, started child threads and effects."""
    extra, task_id = task.more(), task.id
    for attempt, delay_s, error in extra.retries:
        note(
            engine,
            events.TaskRetried(
                task=task_id,
                node=task.node.id_name,
                attempt=attempt,
                delay_s=delay_s,
                error=error_name(error),
                message=first_line(error),
                usage=extra.usage,  # of all attempts so far
            ),
        )
    models = extra.models
    for event in models.general(task_id) if models is not None else ():  # not about a single call, such as grants
        note(engine, event)
    for started in extra.threads.copy().values():  # copies: an abandoned node may still add to them
        note(engine, started)
    for intent in extra.intents.copy().values():
        note(engine, intent)
    # Results arrive in any order. The journal uses the order in which the node last requested them (R13). Results that
    # were not requested in this process come first, in the order in which they were recorded.
    order = {what: at for at, what in enumerate(extra.requested)}
    results = [*extra.effects, *(models.calls() if models is not None else ())]
    for what in sorted(results, key=lambda what: order.get(what, -1)):
        if not isinstance(what, str):  # a ModelCall; effects have text keys
            for event in models.about(task_id, what) if models is not None else ():
                note(engine, event)
            continue
        note(engine, extra.effects[what])


def outcome(engine: RunState, task: Task) -> None:
    """Log the outcome of *task*, after its retries, effects, answers and the events of its nested graph."""
    extra = task.extra
    if extra is not None:
        effects(engine, task)
        extra.retries = []  # logged once: a failed task may run again and end a second time
        for event in questions.ends_to_log(task):
            note(engine, event)
        child = extra.child
        if child is not None and engine.log is not None:
            # The events that the nested graph staged earlier come first, then newer ones.
            engine.log.extend(child.settled)
            engine.log.extend(take(child))
            child.settled = []  # now in the log, so they are logged only once
    ended(engine, task)


def dropped(task: Task) -> Logged:
    """Return the event for an outcome of *task* that came too late and was dropped.

    Not logged, because the run may be over.
    """
    return task.engine.path, events.OutcomeDropped(task=task.id, node=task.node.id_name)


def left_open(engine: RunState) -> None:
    """Log the records of the open superstep's tasks, which have no outcome, and the events of their nested graphs.

    The superstep is abandoned (R10), or an edit finished the task that runs this graph; its model calls are billed.
    """
    for task in engine.tasks:
        extra = task.extra
        if extra is None:
            continue
        effects(engine, task)
        child = extra.child
        if child is not None and engine.log is not None:
            left_open(child)
            engine.log.extend(child.settled)  # in the order of `outcome`
            engine.log.extend(take(child))
            child.settled = []


def ended(engine: RunState, task: Task) -> None:
    """Log how *task* ended, preceded by its memory writes if it succeeded.

    These are sorted by name, so that the order does not depend on the task (R13).
    """
    extra = task.extra
    writes = None if extra is None else extra.memory.get(task.execution)
    if extra is not None and writes is not None and task.status == DONE and not extra.edited:
        for _, event in sorted(writes.items.items()):
            note(engine, event)
    note(engine, outcome_of(engine, task))


def outcome_of(engine: RunState, task: Task, *, updates: bool = True) -> events.TaskSucceeded | events.TaskFailed:
    """Return how *task* ended as an event.

    Args:
        updates: Whether the event contains the updates. A snapshot omits those of `unrouted`, which are already folded.
    """
    extra = task.extra
    usage = extra.usage if extra else None
    if task.status in (HANDLED, FAILED):
        failure = extra.failure if extra else None
        handler = task.node.on_error
        return events.TaskFailed(
            task=task.id,
            node=task.node.id_name,
            error=error_name(failure),
            message=first_line(failure),
            handler=str(handler.name) if handler is not None and task.status == HANDLED else None,
            exception=failure,
            usage=usage,
        )
    sends = NO_ITEMS  # the shared empty mapping
    if task.goto is not None:
        _, sends, _, _ = due_parts([target for target in task.goto if target.__class__ is Due])
        if sends:  # by position among all targets in `goto`, not only among the Sends
            sends = {at: target.arg for at, target in enumerate(task.goto) if target.__class__ is Due}
    return events.TaskSucceeded(
        task=task.id,
        node=task.node.id_name,
        updates=tuple(tracked(engine, update) for update in task.updates if update) if updates else (),
        goto=goto_names(task),
        above=task.goto.__class__ is HandOver,
        sends=sends,
        usage=usage,
        edited=extra is not None and extra.edited,
    )


def standing(engine: RunState, task: Task) -> list[Logged]:
    """Return all events of *task* that a restart needs to continue it while its superstep is open.

    They are staged under the task's id and replace its earlier staged events (decision 0020). The log is unchanged.
    """
    saved_log = engine.swap_log([])  # a separate log for the functions below
    over = task.status in (DONE, HANDLED)  # a final failure is not staged: it is logged when it ends the run
    if task.extra is not None:
        effects(engine, task)
        if over and task.extra.child is not None:
            note_all(engine, task.extra.child.log or ())  # events in its `settled` are already staged
        for event in questions.standing(task):
            note(engine, event)
    if over:
        ended(engine, task)
    return engine.swap_log(saved_log) or []


def failures(engine: RunState) -> None:
    """Log the outcomes of the tasks of the open superstep that failed for good, because the run ends with them.

    The caller then raises the failure. Another call would log them again.
    """
    if engine.log is not None:
        for task in engine.tasks:
            if task.status == FAILED:
                outcome(engine, task)


def raised(engine: RunState, task: Task) -> None:
    """Log the open questions of *task*, which pauses, and the outcome of older ones, unless already logged."""
    for event in questions.questions_to_log(task):
        note(engine, event)


def raised_before_answer(engine: RunState, id_: str) -> None:
    """Log the question *id_* to a person, who has answered it, unless already logged."""
    for event in questions.question_to_log(engine, id_):
        note(engine, event)


def raised_after(engine: RunState) -> None:
    """Log the open questions of `interrupt_after` that were not logged yet, once routers wait for them."""
    for event in questions.questions_after_to_log(engine):
        note(engine, event)


def fatigued(engine: RunState, node: NodePlan) -> None:
    """Log that *node* reached its visit limit and its `on_fatigue` route was taken."""
    route = getattr(node.on_fatigue, "name", "END")
    note(engine, events.NodeFatigued(node=node.name, visits=engine.visits[node.index], route=str(route)))


def folded(engine: RunState) -> dict[str, str]:
    """Return checksums (CRC-32 in hex) by field, for fields with user-defined reducers (`Plan.custom`).

    `replay` compares them, because the journal stores updates and not the results of reducers. Values that cannot be
    stored, and fields that a node changed in place (`spoilt`), are omitted. Empty without a thread and in a nested
    graph.
    """
    checksums: dict[str, str] = {}
    if engine.thread is not None and not engine.path:
        for name in engine.plan.custom:
            if name in engine.values and name not in engine.spoilt:
                with contextlib.suppress(NotStorable):
                    checksums[name] = f"{crc32(engine.plan.codec.dump(engine.values[name])):08x}"
    return checksums


def error_name(error: BaseException | None) -> str:
    """Return the name of the error's class; for an error read from a journal (`Recalled`), the recorded name."""
    return str(getattr(error, "type_name", None) or type(error).__name__)


def first_line(error: BaseException | None) -> str:
    """Return the first line of the error's text, without the lines about the location and the fix."""
    return said(error).split("\n", 1)[0] if error is not None else ""
