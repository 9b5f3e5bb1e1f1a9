"""Restore an open superstep from the data staged for it: outcomes of tasks, and nested graphs (rules R9, R17).

When a thread is loaded, its journal is folded first: each event is applied to the engine in order. The remaining staged
events (decision 0020) belong to the superstep that was due or open at a pause, a failure, or the death of the process.

A nested graph has no journal of its own. Each of its commits is staged as a numbered *batch*, and its open superstep is
staged like that of the outermost graph. The commit of its parent's superstep writes them to the journal; until then
they wait in `Engine.settled`. If its task fails permanently, they are written with the failure but stay staged.

`Engine.path` is empty at the top, and `2.0:sub/` for a graph that the task `2.0:sub` runs. Task ids begin with it.

`evolve_all` applies events to an engine. With `journalled=False` they come from staged data: their questions and fates
are not journalled yet, and still have to be logged. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphrt._engine import emit_events
from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve_all, keep_names, nested_since_commit, without_outdated_outcome
from graphrt._engine.outcome import MARKERS
from graphrt._engine.questions import left_with, may_go_on
from graphrt._engine.task import DONE, DUE, FAILED, HANDLED, PAUSED, Task
from graphrt._flows.child import child_again, child_of
from graphrt._flows.kept import KEPT, kept_in
from graphrt._plan.fields import APPEND
from graphrt._plan.state_reducer import WHOLE
from graphrt.commands import ERASED
from graphrt.errors import GraphrtError

Staged = Mapping[str, Sequence[Logged]]
"""Staged events by key, each with the path of its graph:

- `2.0:ask`: all known data of the task: retries, effects, questions, outcome
- `2.0:ask#pay#0`: one effect of a task that was still running
- `2.0:ask#kept`: what a fork kept for the task: effects, questions and answers
- `2.0:sub/+0`: the first batch of a nested graph
"""


def restore_open(engine: Engine, staged: Staged, journalled: Sequence[str]) -> None:
    """Restore the open superstep of *engine*, whose journal has been folded; called when a thread is loaded.

    Args:
        staged: Staged data of the thread in the store. If it is older than the journal's record of a question, it
            changes nothing (`_engine.questions`).
        journalled: Paths of the events of nested graphs that were journalled since the last commit, one for each event.
            These events are also staged, and must not be journalled a second time.

    Raises:
        LookupError, ValueError, TypeError: The staged events do not fit the graph.
    """
    if staged:
        _restore(engine, staged, kept_in(staged), journalled)


def _restore(engine: Engine, staged: Staged, kept: dict[str, Sequence[Logged]], journalled: Sequence[str]) -> None:
    """Restore the open superstep of *engine*, which may be that of a nested graph.

    Args:
        staged: All staged events of the thread; those of other graphs are skipped by their keys.
        kept: Data that a fork kept for tasks of nested graphs, by task id.
        journalled: As for `restore_open`.
    """
    if engine.unrouted:  # folded, and waiting for the answer to an `interrupt_after`
        return  # its outcomes are in the journal, and the staged ones are out of date
    if not engine.tasks:  # the journal does not show that a superstep opened; the ids of staged tasks do
        first = f"{engine.path}{engine.superstep + 1}."  # ids are `path/superstep.index:node`
        if not engine.due or not any(key.startswith(first) for key in staged):
            return
        engine.open_superstep()  # without a check of limits, which were checked when it ran
    keep_names(engine, staged)
    for task in engine.tasks:
        task_id = task.id
        effects = f"{task_id}#"
        if task_id in staged:  # all known data of the task
            _forget(task)
            evolve_all(engine, without_outdated_outcome(engine, staged[task_id]), journalled=False)
            _check_updates(engine, task)
        # Effects that were stored while the task was still running, and data that a fork kept. Applied after the task's
        # own row, which takes precedence if both have a result: records contain a digest of that row, so changes of it
        # are detected.
        for key in staged:
            if key.startswith(effects):
                evolve_all(engine, staged[key], journalled=False)
        if task.node.child is not None:
            if kept:
                task.more().kept = kept
            if task.status in (DONE, HANDLED):  # with an outcome, its nested graph has ended
                _settle_child(task, staged, kept, journalled)
            else:
                _restore_child(task, staged, kept, journalled)


def _check_updates(engine: Engine, task: Task) -> None:
    """Check that the updates of a staged outcome can be folded: they were checked only when the node returned.

    Raises:
        LookupError, TypeError: They cannot be folded.
    """
    for update in task.updates:
        for name, value in update.items():
            if name == WHOLE and engine.reducer is not None:
                continue
            # A value for the built-in reducer `append`. Markers (`Overwrite`, `DELETE`) and ERASED are not appended.
            if engine.fields[name].kind == APPEND and value.__class__ not in MARKERS and value is not ERASED:
                iter(value)  # raises the TypeError


def _forget(task: Task) -> None:
    """Drop the journalled retries of *task*, because its staged events are complete and contain them again."""
    extra = task.extra
    if extra is not None:
        extra.retries = []


def _restore_child(task: Task, staged: Staged, kept: dict[str, Sequence[Logged]], journalled: Sequence[str]) -> None:
    """Restore the nested graph of an unfinished *task*, with its questions; does nothing if no event of it is staged.

    The parameters are those of `_restore`.
    """
    path = f"{task.id}/"
    if not any(key.startswith(path) and not key.endswith(KEPT) for key in staged):
        return
    child = _child_as_staged(task, staged, kept)
    _drop_journalled(child, journalled)
    extra = task.more()
    extra.child = child
    extra.usage = None  # `nested` computes it again from the child
    # `left_with` returns the questions with which the task itself was left to a queue. All others belong to its nested
    # graph.
    extra.interrupts = [*left_with(task), *child.open_interrupts()]
    # It may run if its nested graph has work to do before a person must answer. If a task of that graph failed while
    # another one was asking, it has failed too, and `retry` runs it. Otherwise the process died after such a retry, or
    # before the failure was journalled: then it runs again, unless it was left to a queue.
    if may_go_on(task):
        task.status = DUE
    elif task.status != FAILED:
        has_failed = any(inner.status == FAILED for inner in child.tasks)
        task.status = DUE if has_failed and not any(question.open for question in left_with(task)) else PAUSED


def _child_as_staged(task: Task, staged: Staged, kept: dict[str, Sequence[Logged]]) -> Engine:
    """Return the engine of the nested graph of *task*, with all of its staged data; parameters as for `_restore`.

    Raises:
        GraphrtError: The graph's input cannot be computed again.
    """
    child = child_again(task)
    # Its committed supersteps are folded here, and kept for the parent's commit, which journals them. They count as
    # journalled, because a nested graph's batches replace its journal. `batches` counts them, from 0.
    while (logged := staged.get(f"{child.path}+{child.batches}")) is not None:
        evolve_all(child, logged)
        child.settled += logged
        child.batches += 1
    _restore(child, staged, kept, nested_since_commit(child.settled, child.path))
    return child


def _settle_child(task: Task, staged: Staged, kept: dict[str, Sequence[Logged]], journalled: Sequence[str]) -> None:
    """Keep the staged events of a nested graph that has ended, which are journalled with the outcome of its *task*.

    The parameters are those of `_restore`.
    """
    # The graph's questions ended with it; the parent's entries contained them for the pause. The task keeps its data.
    if task.extra is not None:
        task.extra.interrupts = [question for question in task.extra.interrupts if question.task_id == task.id]
    child = child_of(task)
    while (logged := staged.get(f"{child.path}+{child.batches}")) is not None:
        child.settled += logged
        child.batches += 1
    # The task's own row contains the graph's last events, which were not staged as a batch. Their path is the graph's.
    child.settled += [(path, event) for path, event in staged.get(task.id, ()) if path != task.engine.path]
    _drop_journalled(child, journalled)
    if task.extra is not None and task.extra.edited:
        child.settled += _left_inside(task, staged, kept)
    if child.settled:  # otherwise nothing is left to journal, and the task does not need an engine
        task.more().child = child


def _left_inside(task: Task, staged: Staged, kept: dict[str, Sequence[Logged]]) -> Sequence[Logged]:
    """Return the records of the open tasks of a nested graph when an edit marked its *task* as finished.

    Their effects have happened and their model calls are billed, although their outcomes are not used.
    """
    try:
        child = _child_as_staged(task, staged, kept)
    except GraphrtError:
        # May fail because of the edited values. A person has ended this task, so it must not stop the thread: its
        # records are written as they were staged, possibly twice.
        path = f"{task.id}/"
        rows = [key for key in staged if key.startswith(path) and not key.startswith(f"{path}+")]
        return [pair for key in rows for pair in staged[key] if isinstance(pair[1], emit_events.RECORDS)]
    child.settled = []  # the caller has them
    child.listen()
    emit_events.left_open(child)
    return emit_events.take(child)


def _drop_journalled(child: Engine, journalled: Sequence[str]) -> None:
    """Drop the staged events of *child* that are already journalled, as after a failure of its task.

    They are the first of `child.settled`, since events are journalled in the order in which they were staged.

    Args:
        journalled: As for `restore_open`.
    """
    count = sum(path.startswith(child.path) for path in journalled)
    del child.settled[:count]
