"""Restore an open superstep from what is staged for it: outcomes of tasks, and nested graphs (rules R9, R17).

The journal is folded before. Staged events belong to the superstep that is due or open then (decision 0020): after a
pause, a failure, or the death of the process. A nested graph has no journal of its own. Its committed supersteps are
staged as numbered batches, and its open superstep like one at the top, with its path in the keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import Take, evolve_all
from graphrt._engine.outcome import MARKERS
from graphrt._engine.pausing import left_with, may_go_on
from graphrt._engine.task import DONE, DUE, HANDLED, PAUSED, Task
from graphrt._flows.child import child_again, child_of
from graphrt._flows.kept import KEPT, kept_in
from graphrt._plan.fields import APPEND
from graphrt.commands import ERASED
from graphrt.events import EffectRecorded, InterruptAnswered, ModelReplied, SuperstepCommitted, TaskSucceeded

Staged = Mapping[str, Sequence[Logged]]
"""Staged events by key. A key is a task's id, its id with `#` and the key of an effect, its id with `#kept`, or a nested
graph's path with `+` and the number of a batch, from 0."""


def restore_open(
    engine: Engine,
    staged: Staged,
    answers: Mapping[str, InterruptAnswered],
    withdrawn: Mapping[str, str],
    fates: Collection[str],
    told: Sequence[str],
    take: Take,
) -> None:
    """Restore the open superstep of *engine*, whose journal has been folded.

    Args:
        staged: What the store has staged for the thread.
        answers: Answers by interrupt id that were journalled since the last commit.
        withdrawn: Reasons by interrupt id of questions that were withdrawn since then.
        fates: Interrupt ids of answers that were journalled as used or discarded since then.
        told: Paths of the events of nested graphs that were journalled since then, one for each event. These events are
            staged as well, and must not be journalled a second time.
        take: Makes values of events the engine's own.

    Raises:
        LookupError, ValueError, TypeError: The staged events do not fit the graph.
    """
    if staged:
        kept = kept_in(staged)
        # Staged rows may be older than an answer or a withdrawal: both are applied once more, on top of them.
        _restore(engine, staged, kept, told, take)
        for id_, event in answers.items():
            engine.answer({id_: event.answer}, nth=event.nth, by=event.by)
        for id_, reason in withdrawn.items():
            engine.withdraw({id_}, reason)
        for task in engine.tasks:
            # A question that only a staged row knows is younger than the journal's word about its answer.
            for question in task.extra.interrupts if task.extra is not None else ():
                question.fate_told = question.fate_told or question.id in fates


def _restore(
    engine: Engine, staged: Staged, kept: dict[str, Sequence[Logged]], told: Sequence[str], take: Take
) -> None:
    if engine.held:
        return  # its outcomes are in the journal, and what was staged of them is out of date
    if not engine.tasks:  # the journal does not show that a superstep opened; the ids of staged tasks do
        first = f"{engine.path}{engine.superstep + 1}."
        if not engine.due or not any(key.startswith(first) for key in staged):
            return
        engine.open()
    for task in engine.tasks:
        mine = task.id
        effects = f"{mine}#"
        if mine in staged:
            _forget(task)
            evolve_all(engine, staged[mine], take, journalled=False)
            _keep_outcome(task, staged[mine])
            _check_updates(engine, task)
        rows = [key for key in staged if key.startswith(effects)]
        for key in rows:  # effects that were stored while the task was still running
            evolve_all(engine, staged[key], take, journalled=False)
        if rows:  # a record vouches for the task's own row, and for none of these: its results stand
            evolve_all(engine, _results(engine, staged.get(mine, ())), take, journalled=False)
        if task.node.child is not None:
            if kept:
                task.more().kept = kept
            if task.status in (DONE, HANDLED) or (task.extra is not None and task.extra.ended):
                _settle_child(task, staged, told)
            else:
                _restore_child(task, staged, kept, told, take)


def _results(engine: Engine, logged: Sequence[Logged]) -> list[Logged]:
    """Return the recorded results among the staged events of a task. One that was erased may have been made anew."""
    found: list[Logged] = []
    for path, event in logged:
        result: Any = ERASED
        match event:
            case EffectRecorded():
                result = event.result
            case ModelReplied():
                result = event.reply
            case _:
                pass
        if path == engine.path and result is not ERASED:
            found.append((path, event))
    return found


def _check_updates(engine: Engine, task: Task) -> None:
    """Check that the updates of a staged outcome can be folded: they were checked when the node returned, not since.

    Raises:
        LookupError, TypeError: They cannot be folded.
    """
    for update in task.updates:
        for name, value in update.items():
            if engine.fields[name].kind == APPEND and value.__class__ not in MARKERS and value is not ERASED:
                iter(value)


def _forget(task: Task) -> None:
    """Drop the retries that the journal had of *task*: its staged events are complete, and contain them again."""
    extra = task.extra
    if extra is not None:
        extra.retries = []


def _keep_outcome(task: Task, logged: Sequence[Logged]) -> None:
    """Keep the staged outcome of a task that graphrt 0.1 paused after its node: an answer must not run it again.

    Questions from before the node ran follow the outcome in the staged events, and would make the task due.
    """
    extra = task.extra
    if extra is None or not extra.interrupts or extra.interrupts[-1].key != "after":
        return
    if any(isinstance(event, TaskSucceeded) and event.task == task.id for _, event in logged):
        extra.ended = True
        if task.status == DUE:
            task.status = DONE


def _restore_child(
    task: Task, staged: Staged, kept: dict[str, Sequence[Logged]], told: Sequence[str], take: Take
) -> None:
    """Restore the nested graph of an unfinished *task*, with its questions; nothing if no event of it is staged."""
    path = f"{task.id}/"
    if not any(key.startswith(path) and not key.endswith(KEPT) for key in staged):
        return
    child = child_again(task)
    # Its committed supersteps: folded here, and kept for the parent's commit, which journals them.
    while (logged := staged.get(f"{path}+{child.batches}")) is not None:
        evolve_all(child, logged, take)
        child.settled += logged
        child.batches += 1
    _restore(child, staged, kept, _told_since_commit(child), take)
    _forget_told(child, told)
    extra = task.more()
    extra.child = child
    extra.usage = None  # `nested` computes it again from the child
    open_ = child.open_interrupts()
    asked = {question.id: question for question in extra.interrupts}
    for question in open_:
        known = asked.get(question.id)
        if known is not None:  # from the parent's entries: which graphs have journalled it, and later edits
            question.told |= known.told
            question.stale = question.stale or known.stale
    extra.interrupts = [*left_with(task), *open_]
    task.status = DUE if may_go_on(task, child) else PAUSED


def _settle_child(task: Task, staged: Staged, told: Sequence[str]) -> None:
    """Keep the staged events of a nested graph that has ended, which are journalled with the outcome of its task."""
    if task.extra is not None:  # its questions have ended with it; the parent's entries had them for the pause alone
        task.extra.interrupts = [question for question in task.extra.interrupts if question.task_id == task.id]
    child = child_of(task)
    while (logged := staged.get(f"{child.path}+{child.batches}")) is not None:
        child.settled += logged
        child.batches += 1
    child.settled += [one for one in staged.get(task.id, ()) if one[0] != task.engine.path]
    _forget_told(child, told)
    if child.settled:
        task.more().child = child


def _told_since_commit(child: Engine) -> list[str]:
    """Return the paths of staged events of graphs inside *child* since its own last commit, one for each event."""
    paths: list[str] = []
    for path, event in child.settled:
        if path != child.path:
            paths.append(path)
        elif isinstance(event, SuperstepCommitted):
            paths = []
    return paths


def _forget_told(child: Engine, told: Sequence[str]) -> None:
    """Drop the staged events of *child* that are journalled already, which happens when its parent fails."""
    count = sum(path.startswith(child.path) for path in told)
    del child.settled[:count]
