"""The records of a superstep's tasks: results of effects and tools, model replies, and people's answers.

`fork(keep_effects=True)` passes them to the same tasks of the fork, which then repeat no model call and ask no question
twice. They are staged in the fork under the task's id followed by `KEPT` (`#kept`).

A task's id is `path/superstep.number:node`. The path is empty for a task of the top graph, and names the enclosing task
for one of a nested graph. `Logged` is a pair of such a path and an event. Events of effects and model calls have a
`key` that identifies the call within its task. Events of model calls also have `failed_attempts`, the number of failed
attempts before the call: an attempt finds only the replies with its own number. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._engine.model_calls import ModelEvent
from graphrt._flows.kept import KEPT
from graphrt._journal.thread_fold import Fold
from graphrt._runs.entries import entries
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig

_Effect: TypeAlias = events.EffectStarted | events.EffectRecorded | events.ThreadStarted | ModelEvent
_UNANSWERED = (events.InterruptWithdrawn, events.InterruptExpired, events.AnswerDiscarded)
"""Events after which a question has no answer to pass to another execution."""
_ENDS_SUPERSTEP = (events.SuperstepCommitted, events.SuperstepAbandoned, events.RunStarted)
"""Events of the top graph that end the superstep or start another run."""


def kept_effects(config: RunConfig, fold: Fold) -> dict[str, list[Logged]]:
    """Return the records of the superstep after the last entry of *fold*, by the keys to stage them under in a fork.

    Args:
        fold: The thread that is forked (the source), folded up to the entry of the fork.

    Raises:
        StoreError: The source cannot be read.
    """
    by_task: dict[str, _Kept] = {}
    for event in _recorded(config, fold):
        _keep(by_task, event)
    logged = {task: records.logged() for task, records in by_task.items()}
    return {f"{task}{KEPT}": events for task, events in logged.items() if events}


def _recorded(config: RunConfig, fold: Fold) -> Iterator[events.Event]:
    """Yield the events of the superstep: the journalled ones, and the staged ones if it is still open."""
    thread = fold.reader.thread
    for entry in entries(config, thread, after=fold.seq):
        if not entry.path and isinstance(entry.event, _ENDS_SUPERSTEP):
            return
        yield entry.event
    # Without the paths: `_keep` derives them from the ids of tasks.
    for key, body in the_store(config).load(thread).staged:
        yield from (event for _, event in fold.reader.staged(key, body))


class _Kept:
    """The records of one task."""

    def __init__(self) -> None:
        self.effects: dict[tuple[Any, ...], Logged] = {}
        """Effects and records of model calls, by their identity within the task; see `_identity`."""
        self.questions: dict[str, Logged] = {}
        """The newest `InterruptRaised` of each question, by the question's id."""
        self.answers: dict[str, Logged] = {}
        """The answers that count, by the same ids."""
        self.failed: bool = False
        """Whether the last attempt failed for good."""

    def logged(self) -> list[Logged]:
        """Return its events: effects, then each answered question with its answer."""
        logged = [effect for effect in map(self._as_asked, self.effects.values()) if effect is not None]
        for id_, question in self.questions.items():
            if id_ in self.answers:
                logged += [question, self.answers[id_]]
        return logged

    def _as_asked(self, effect: Logged) -> Logged | None:
        """Return an effect as the last attempt found it; None if it did not exist then.

        The number of failed attempts in `RepliesDiscarded` decides which replies are found again. If the last attempt
        failed for good, the number includes that attempt, and its own replies would not be found.
        """
        path, event = effect
        if self.failed and isinstance(event, events.RepliesDiscarded):
            before = event.failed_attempts - 1
            return (path, replace(event, failed_attempts=before)) if before else None
        return effect


def _keep(by_task: dict[str, _Kept], event: events.Event) -> None:
    """Add *event* to the records of its task, if it is an effect, a question, or the outcome of a question."""
    if isinstance(event, events.EffectStarted | events.EffectRecorded | events.ThreadStarted | ModelEvent):
        records = by_task.setdefault(event.task, _Kept())
        records.effects[_identity(event)] = (_path(event.task), event)
    elif isinstance(event, events.InterruptRaised):
        # A question of a nested graph also has an entry in each enclosing graph; only the one of its own task is kept.
        if _task(event.id) == event.task:
            records = by_task.setdefault(event.task, _Kept())
            # The usage so far and edits of the source's state do not belong to the fork.
            records.questions[event.id] = (_path(event.task), replace(event, usage=None, stale=False))
    elif isinstance(event, events.InterruptAnswered):
        task = _task(event.id)
        by_task.setdefault(task, _Kept()).answers[event.id] = (_path(task), event)
    elif isinstance(event, events.TaskFailed | events.TaskSucceeded):
        by_task.setdefault(event.task, _Kept()).failed = isinstance(event, events.TaskFailed)
    elif isinstance(event, _UNANSWERED):
        records = by_task.setdefault(_task(event.id), _Kept())
        records.answers.pop(event.id, None)


def _identity(event: _Effect) -> tuple[Any, ...]:
    """Return the identity of *event* within its task; a later event with the same identity replaces it."""
    match event:
        case events.RepliesDiscarded():  # it has no key; only the newest counts
            return (events.RepliesDiscarded,)
        # Each of the following cases except the last also distinguishes what the key alone does not: attempts, or calls
        # with the same key. A released reservation has the identity of the reservation, and so replaces it.
        case events.BudgetGranted():
            return events.BudgetGranted, event.question
        case events.UsageRecorded():
            return events.UsageRecorded, event.failed_attempts, event.key, event.nth
        case events.BudgetHeld() | events.BudgetReleased():
            return events.BudgetHeld, event.failed_attempts, event.key
        case events.ReplyStopped():
            return events.ReplyStopped, event.failed_attempts, event.key
        case events.ModelReplied():
            return events.ModelReplied, event.failed_attempts, event.key
        case _:
            return type(event), event.key


def _task(question: str) -> str:
    """Return the id of the task that asked, from the id of its question: `thread/2.0:sub/1.0:ask#0`."""
    return question.partition("/")[2].partition("#")[0]


def _path(task: str) -> str:
    """Return the path of the graph that a task belongs to, with a trailing slash as in staged events."""
    return task[: task.rfind("/") + 1]
