"""Fold values from outside the graph's nodes into the state: inputs of finished threads (R7) and edits (R18).

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


def say(engine: Engine, said: Mapping[str, Any], *, past: bool = False) -> None:
    """Fold partial messages into the values, by field: what stopped replies of an abandoned superstep had said.

    Args:
        past: As for `folded_in`.
    """
    engine.take(folded_in(engine, said, reset=False, past=past), said)


def folded_in(engine: Engine, update: Mapping[str, Any], *, reset: bool, past: bool = False) -> Values:
    """Return the engine's values with a checked *update* folded in through the reducers; the engine stays as it is.

    Args:
        reset: Reset ephemeral fields first, as the fold of a superstep does (R16). An input does so, and an edit does
            not, because the next superstep has yet to see what the last one wrote.
        past: Whether the update is in the journal already. A reducer that returned None then is not an error now.

    Raises:
        UpdateError: A reducer raised, or returned None for a field that cannot be None.
    """
    # `fold` takes tasks, so the update is presented as the outcome of a task of START.
    task = Task(engine.plan.start, 0, engine.superstep, None, None, engine)  # index 0, no argument, no view
    task.updates = (dict(update),)
    task.status = DONE
    ephemeral = engine.ephemeral if reset else ()
    try:
        folded = fold(
            engine.fields,
            engine.values,
            [task],
            reducer=engine.reducer,
            ephemeral=ephemeral,
            past=past,
            where=engine.where,
        )
        mutation_check.check_reducer(engine, [task])
    except FoldError as error:
        mutation_check.put_back(engine)
        raise error.error from error.error.__cause__  # without the tasks that FoldError names: only a stand-in
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

    The questions of those tasks stay open and become stale: an answer is used, whatever the node asks then.

    Args:
        values: The whole state after the edit, as `folded_in` returned it.
        as_node: Node whose unfinished tasks are taken as finished; None if the edit finishes no task. If all its tasks
            have finished, but could not be folded or routed, the edit replaces their outcomes.
        goto: Checked targets that replace the edges of *as_node*: NodePlan, END, or a Due for a Send. None if its edges
            apply.
    """
    engine.take(values, engine.fields)
    mine = unfinished(engine, as_node, anew=True)
    for task in engine.tasks:
        task.state = None  # its next execution gets a view of the edited values
        if task not in mine and task.status not in (DONE, HANDLED):
            questions.mark_stale(task)
    for task in mine:
        task.status, task.updates, task.goto = DONE, (), goto  # those of `unrouted` are folded already
        goto = goto and ()  # only the first task keeps the targets, else its Sends would start once for each task
        extra = task.more()
        questions.drop_all(task)  # also that of its `interrupt_after`: the edit answers for it (decision 0058)
        extra.child, extra.failure = None, None
        extra.edited = True  # keeps `interrupt_after` from pausing


def leave_anew(engine: Engine) -> None:
    """Leave the tasks of the open superstep that wait for a queue once more, after an edit (`Runtime.update`).

    They have to see the edited state, so a worker that runs one of them on the older state loses it. Tasks of nested
    graphs are not left anew, because the edit does not change the state of a nested graph.
    """
    for task in engine.tasks:
        question = questions.left_to_queue(task)
        if question is not None:
            engine.withdraw({question.id}, EDITED)
            questions.leave(engine, task)
            emit_events.raised(engine, task)


def put_back(engine: Engine, values: Mapping[str, Any]) -> None:
    """Replace *values* of a loaded thread by equal ones that contain secrets in clear.

    A store keeps only that a `Secret` was there. A runtime that saw the secret before gives it back to the thread, from
    its memory (`_runs.known_secrets`).
    """
    engine.take({**engine.values, **values}, values)
    for task in engine.tasks:
        task.state = None  # its next execution gets a view of these values


def unfinished(engine: Engine, node: str | None, *, anew: bool = False) -> list[Task]:
    """Return the tasks of *node* in the open superstep that have not finished, or those that are not routed.

    After an `interrupt_after`, a superstep has committed, and only its routers and joins wait: an edit can still replace
    the targets of its tasks.

    Args:
        node: Name of the node; None returns no task.
        anew: Return all tasks of the node if every one of them has finished.
    """
    if engine.unrouted:
        return [task for task in engine.unrouted if task.node.name == node]
    mine = [task for task in engine.tasks if task.node.name == node]
    left = [task for task in mine if task.status not in (DONE, HANDLED)]
    return left or (mine if anew else [])


def status_after(engine: Engine, before: Status) -> Status:
    """Return a thread's status after an edit: `running`, without an owner, once there is something to drive.

    That is the status that lets a worker, or `resume`, go on with it. An edit gives a thread something to do if it
    finishes the tasks that waited for answers, or makes tasks due on a completed thread.
    """
    if before == "interrupted" and not engine.open_interrupts():
        return "running"
    if before == "completed" and (engine.due or engine.tasks):
        return "running"
    return before
