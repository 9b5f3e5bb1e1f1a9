"""An open superstep, as it stood when its process died: staged outcomes, and nested graphs with theirs (rules R9, R17).

The journal was folded before; what is staged beside it belongs to the superstep that is due or open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import Take, evolve_all
from graphrt._engine.outcome import MARKERS
from graphrt._engine.pausing import goes_on
from graphrt._engine.task import DONE, DUE, HANDLED, PAUSED, Task
from graphrt._flows.child import child_again, child_of
from graphrt._plan.fields import APPEND
from graphrt.events import InterruptAnswered, SuperstepCommitted, TaskSucceeded

Staged = Mapping[str, Sequence[Logged]]
"""Key to events: a task's id, its id with `#` and the key of an effect, or the path of a nested graph with `+` and a
number."""


def restore_open(
    engine: Engine,
    staged: Staged,
    answers: Mapping[str, InterruptAnswered],
    withdrawn: Mapping[str, str],
    told: Sequence[str],
    take: Take,
) -> None:
    """Bring the open superstep of *engine* to where it was.

    Args:
        answers: Answers by interrupt id that were journalled since the last commit.
        withdrawn: Reasons by interrupt id of questions withdrawn since then; staged rows may be older than that.
        told: Paths of what was journalled of nested graphs since then: it is not told again.

    Raises:
        LookupError, ValueError: What is staged does not fit the graph.
    """
    if staged:
        _restore(engine, staged, told, take)
        for id_, event in answers.items():
            engine.answer({id_: event.answer}, nth=event.nth)
        for id_, reason in withdrawn.items():
            engine.withdraw({id_}, reason)


def _restore(engine: Engine, staged: Staged, told: Sequence[str], take: Take) -> None:
    if engine.held:
        return  # its tasks are folded: what was staged of them is history
    if not engine.tasks:
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
        for key, logged in staged.items():
            if key.startswith(effects):
                evolve_all(engine, logged, take, journalled=False)
        if task.node.child is not None:
            if task.status in (DONE, HANDLED) or (task.extra is not None and task.extra.ended):
                _settle_child(task, staged, told)
            else:
                _restore_child(task, staged, told, take)


def _check_updates(engine: Engine, task: Task) -> None:
    """See that the updates of a staged outcome can be folded: they were checked when the node returned, not since.

    Raises:
        LookupError, TypeError: They cannot.
    """
    for update in task.updates:
        for name, value in update.items():
            if engine.fields[name].kind == APPEND and value.__class__ not in MARKERS:
                iter(value)


def _forget(task: Task) -> None:
    """What is staged of a task is all that is known of it: what the journal told before is told again."""
    extra = task.extra
    if extra is not None:
        extra.retries = []


def _keep_outcome(task: Task, logged: Sequence[Logged]) -> None:
    """Keep the staged outcome of a task that pauses after its node: the answer lets it be folded, and runs nothing.

    Questions that were asked before the node ran are told behind the outcome, and would let the task run again.
    """
    extra = task.extra
    if extra is None or not extra.interrupts or extra.interrupts[-1].key != "after":
        return
    if any(isinstance(event, TaskSucceeded) and event.task == task.id for _, event in logged):
        extra.ended = True
        if task.status == DUE:
            task.status = DONE


def _restore_child(task: Task, staged: Staged, told: Sequence[str], take: Take) -> None:
    path = f"{task.id}/"
    if not any(key.startswith(path) for key in staged):
        return
    child = child_again(task)
    while (logged := staged.get(f"{path}+{child.batches}")) is not None:
        evolve_all(child, logged, take)
        child.settled += logged
        child.batches += 1
    _restore(child, staged, _told_since_commit(child), take)
    _forget_told(child, told)
    extra = task.more()
    extra.child = child
    extra.usage = None
    open_ = child.open_interrupts()
    asked = {question.id: question for question in extra.interrupts}
    for question in open_:
        known = asked.get(question.id)
        if known is not None:  # what entries of the graph around it tell
            question.told |= known.told
            question.stale = question.stale or known.stale
    extra.interrupts = open_
    task.status = DUE if goes_on(child) else PAUSED


def _settle_child(task: Task, staged: Staged, told: Sequence[str]) -> None:
    """Keep what a nested graph that has ended told: it is journalled with the outcome of its task."""
    child = child_of(task)
    while (logged := staged.get(f"{child.path}+{child.batches}")) is not None:
        child.settled += logged
        child.batches += 1
    child.settled += [one for one in staged.get(task.id, ()) if one[0] != task.engine.path]
    _forget_told(child, told)
    if child.settled:
        task.more().child = child


def _told_since_commit(child: Engine) -> list[str]:
    """Paths of what a nested graph told of graphs inside it since its own last commit."""
    paths: list[str] = []
    for path, event in child.settled:
        if path != child.path:
            paths.append(path)
        elif isinstance(event, SuperstepCommitted):
            paths = []
    return paths


def _forget_told(child: Engine, told: Sequence[str]) -> None:
    """Drop what was told already: when its parent fails, a nested graph tells what it came to so far."""
    count = sum(path.startswith(child.path) for path in told)
    del child.settled[:count]
