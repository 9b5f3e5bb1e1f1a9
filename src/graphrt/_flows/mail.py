"""Mail that is taken by a run at a pause (R22): signals and answers that arrived let its tasks go on at once.

A watcher of the store hands signals and answers to the run as `Letter`s in `Control.letters`; it handles other letters
itself, or leaves them to the next drive. `standing` is here because taking mail stages tasks too; the run loop shares
it. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from operator import attrgetter

from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.mail import deliver, take_letters
from graphrt._engine.task import DUE
from graphrt._flows.effects import Control, Flow, Record


def standing(engine: Engine) -> list[tuple[str, list[emit_events.Logged]]]:
    """Return the events to stage of all tasks with unstaged changes, and count those changes as staged.

    Staged events are kept by the store beside the journal, until the open superstep commits. They tell all that is
    known of their task, and replace what was staged of it before.

    Returns:
        Pairs of a task id and the task's events, 0..n in task order.
    """
    # `dirty` has the tasks with unstaged changes; it is empty in a run that stages nothing.
    tasks = sorted(engine.dirty, key=attrgetter("index"))  # task order, not completion order (R2)
    engine.dirty.clear()
    return [(task.id, emit_events.standing(engine, task)) for task in tasks]


def take_mail(engine: Engine, control: Control) -> Flow:
    """Take the mail of a superstep whose tasks all wait, and return whether one of them is due now.

    The run loop calls it before a pause. If no task is due, the run pauses. The entries that say what the mail did, and
    the deletion of the letters, are one commit. Letters that arrive later make the paused thread due.
    """
    letters = [control.letters.popleft() for _ in range(len(control.letters))]  # others may arrive meanwhile
    taken = take_letters(engine, letters)  # places in the store, by which the letters are deleted
    deliver(engine)  # signals, also ones that came before, to tasks that wait for them in `ctx.receive`
    if engine.log:  # never empty if a letter was taken: each leaves an event, also one that is dropped
        yield Record(emit_events.take(engine), standing(engine) if engine.dirty else (), taken=taken)
    return any(task.status == DUE for task in engine.tasks)
