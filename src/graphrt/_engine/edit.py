"""Fold values that do not come from nodes into the state: inputs of finished threads (R7) and edits (R18).

An *edit* is a call of `Runtime.update(thread, values, as_node=, goto=)`. It becomes one event, and `evolve` applies it
here, both when it is made and when the journal is folded. A superstep may be open then: its unfinished tasks run again
on the edited state.

A task has finished if its status is DONE or HANDLED. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrt._engine import emit_events, mutation_check, questions
from graphrt._engine.fold import FoldError, applied, fold
from graphrt._engine.open_interrupt import EDITED
from graphrt._engine.task import DONE, HANDLED, Task
from graphrt._plan.state import Values

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt.events.status import Status


def say(engine: Engine, messages: Mapping[str, Any], *, past: bool = False) -> None:
    """Fold partial messages into the values, by field: the text streamed by replies of an abandoned superstep.

    Args:
        past: As for `folded_in`.
    """
    engine.take(folded_in(engine, messages, reset=False, past=past), messages)


def folded_in(engine: Engine, update: Mapping[str, Any], *, reset: bool, past: bool = False) -> Values:
    """Return the engine's values with a checked *update* folded in through the reducers. The engine is not changed.

    Args:
        reset: Reset ephemeral fields first, as the fold of a superstep does (R16). True for an input; false for an
            edit, because the next superstep has not seen the last writes yet.
        past: Whether the update is already in the journal. A reducer that returned None then is not an error now.

    Raises:
        UpdateError: A reducer raised, or returned None for a field that cannot be None.
    """
    # `fold` takes tasks, so the update is presented as the outcome of a task of START.
    task = Task(engine.plan.start, 0, engine.superstep, None, None, engine)  # index 0, no argument, no view
    task.updates = (dict(update),)
    task.status = DONE
    ephemeral = engine.ephemeral if reset else ()
    try:
        folded = fold(engine, engine.values, [task], engine.reducer, ephemeral, past=past)
        mutation_check.check_reducer(engine, [task])
    except FoldError as error:
        mutation_check.put_back(engine)
        # Without the tasks that FoldError names, which are only a placeholder.
        raise error.error from error.error.__cause__
    # The copied dict is a second holder of every list, so that no list grows in place (R15).
    values, _ = applied(dict(engine.values), engine.fields, folded)  # _: lengths of grown lists, none here
    return values


def edit(
    engine: Engine,
    values: Values,
    as_node: str | None,
    goto: tuple[Any, ...] | None = None,
) -> None:
    """Apply edited *values* (R18); on an open superstep they become the snapshot of the unfinished tasks.

    The questions of those tasks stay open and become stale: an answer is then used even if the node asks something
    else.

    Args:
        values: The whole state after the edit, as `folded_in` returned it.
        as_node: Node whose unfinished tasks are treated as finished; None if the edit finishes no task. If all its
            tasks have finished, but could not be folded or routed, the edit replaces their outcomes.
        goto: Checked targets that replace the edges of *as_node*: NodePlan, END, or a Due for a Send. None to use its
            edges.
    """
    engine.take(values, engine.fields)
    node_tasks = unfinished(engine, as_node, include_finished=True)
    for task in engine.tasks:
        task.state = None  # so that its next execution gets a view of the edited values
        if task not in node_tasks and task.status not in (DONE, HANDLED):
            questions.mark_stale(task)
    for task in node_tasks:
        task.status, task.updates, task.goto = DONE, (), goto  # those of `unrouted` are already folded
        goto = goto and ()  # only the first task keeps the targets; otherwise the Sends would start once for each task
        extra = task.more()
        questions.drop_all(task)  # including that of `interrupt_after`, which the edit answers (decision 0058)
        extra.child, extra.failure = None, None
        extra.edited = True  # keeps `interrupt_after` from pausing


def leave_anew(engine: Engine) -> None:
    """Queue the waiting queue tasks of the open superstep again, after an edit (`Runtime.update`).

    They must see the edited state, so a worker that runs one of them on the older state loses it. Tasks of nested
    graphs are not queued again, because the edit does not change the state of a nested graph.
    """
    for task in engine.tasks:
        question = questions.left_to_queue(task)
        if question is not None:
            engine.withdraw({question.id}, EDITED)
            questions.leave(engine, task)
            emit_events.raised(engine, task)


def put_back(engine: Engine, values: Mapping[str, Any]) -> None:
    """Replace *values* of a loaded thread by equal ones that contain the plaintext secrets.

    A store only records that a `Secret` existed. A runtime that has seen the secret restores it from memory
    (`_runs.known_secrets`).
    """
    engine.take({**engine.values, **values}, values)
    for task in engine.tasks:
        task.state = None  # its next execution gets a view of these values


def unfinished(engine: Engine, node: str | None, *, include_finished: bool = False) -> list[Task]:
    """Return the unfinished tasks of *node* in the open superstep, or the tasks that are not routed yet.

    After an `interrupt_after`, a superstep has committed and only its routers and joins are pending, so an edit can
    still replace the targets of its tasks.

    Args:
        node: Name of the node; None returns no task.
        include_finished: Return all tasks of the node if every one of them has finished.
    """
    if engine.unrouted:
        return [task for task in engine.unrouted if task.node.name == node]
    node_tasks = [task for task in engine.tasks if task.node.name == node]
    pending = [task for task in node_tasks if task.status not in (DONE, HANDLED)]
    return pending or (node_tasks if include_finished else [])


def status_after(engine: Engine, before: Status) -> Status:
    """Return a thread's status after an edit: `running`, without an owner, if there is something to drive.

    With this status, a worker or `resume` can continue it. That is the case if the edit finishes the tasks that waited
    for answers, or makes tasks due on a completed thread.
    """
    if before == "interrupted" and not engine.open_interrupts():
        return "running"
    if before == "completed" and (engine.due or engine.tasks):
        return "running"
    return before
