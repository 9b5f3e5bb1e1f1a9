"""Apply journalled events to the engine, one after another (the law *fold*: the state is the fold of the journal).

Nothing is decided here and routers are not called, because the entries contain their decisions. Reducers are called
again, as they were when the entries were written. Values are changed in place, because only the fold uses the engine.

An event comes with a path: that of the nested graph in which it happened, or "" for the graph at the top. It comes from
the journal, or was staged because its superstep is still open. With `past=True`, a reducer that had returned None when
the entries were written is not an error now. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from graphrt import events
from graphrt._engine import outcome, questions
from graphrt._engine.child_threads import heard, of_nested, started
from graphrt._engine.committed import Committed
from graphrt._engine.edit import edit, folded_in, say
from graphrt._engine.emit_events import Logged
from graphrt._engine.fold import FoldError, applied, fold
from graphrt._engine.model_calls import ModelEvent
from graphrt._engine.pending_as_data import due_again, held_task, present_node, set_joins, stand_in
from graphrt._engine.route import handed_over, plain_activation
from graphrt._engine.spending import count, spending
from graphrt._engine.storability import with_untracked
from graphrt._engine.task import DONE, FAILED, HANDLED, Due, HandOver, Recalled, Task
from graphrt._plan.fields import ABSENT, ADD, APPEND, LAST
from graphrt._plan.state import Values
from graphrt.commands import END, ERASED

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.run_state import RunState

Routing: TypeAlias = events.TasksRouted | events.StateSaved | events.SuperstepCommitted | events.ThreadUpdated
"""Events that contain the next tasks."""
_Event = TypeVar("_Event", events.EffectStarted, events.EffectRecorded, ModelEvent)


def evolve_all(engine: Engine, logged: Sequence[Logged], *, journalled: bool = True) -> None:
    """Apply the events in *logged* that have the engine's own path, in order. Loading a thread calls this.

    Args:
        logged: Events of this graph and of graphs nested in it. Events of nested graphs are skipped, except for those
            about child threads.
        journalled: Whether the events come from the journal; false if they were staged.

    Raises:
        UpdateError: A reducer raised.
        LookupError, ValueError: The events do not fit the graph.
    """
    for where, event in logged:
        if where == engine.path:
            evolve(engine, event, journalled=journalled)
        elif not engine.path:  # the graph at the top, which has the child threads
            of_nested(engine, event)


_NUMBERS: Final = (int, float)


def evolve_lone(engine: Engine, update: Mapping[str, Any], target: str) -> bool:
    """Apply the superstep of a single plain task in place, without events but with the same result.

    Only plain writes of existing fields with built-in reducers are applied.

    Args:
        update: What the task wrote. Its values become part of the state.
        target: The node that is due next.

    Returns:
        Whether the superstep was applied. If not, nothing was changed, and its events have to be applied instead.
    """
    values, fields, due = engine.values, engine.fields, engine.due
    if engine.tasks or len(due) != 1 or engine.waiting or engine.trail is not None or engine.is_read:
        return False
    for field in engine.ephemeral:
        if values.get(field.name, ABSENT) is not field.reset():  # it is reset first
            return False
    new_values: dict[str, Any] = {}
    grown: dict[str, list[Any]] = {}
    # Everything is checked before the first write, because in-place changes cannot be undone.
    for name, written in update.items():
        if name not in fields or name not in values:
            return False
        kind, value = fields[name].kind, values[name]
        if kind == LAST and written.__class__ not in outcome.MARKERS:
            new_values[name] = written
        elif kind == APPEND and value.__class__ is list and written.__class__ is list:
            grown[name] = written
        elif kind == ADD and value.__class__ in _NUMBERS and written.__class__ in _NUMBERS:
            new_values[name] = value + written
        else:
            return False
    engine.superstep += 1  # counted per thread; `steps` and `visits` count per run, for its limits
    engine.steps += 1
    engine.visits[due[0].node.index] += 1
    for name, items in grown.items():
        values[name].extend(items)
    values.update(new_values)
    engine.take(values, update)
    node = engine.plan.by_name.get(target) or stand_in(engine, target)
    engine.due = [node.due or plain_activation(node)]
    return True


def nested_since_commit(logged: Sequence[Logged], path: str, known: Sequence[str] = ()) -> list[str]:
    """Return the paths of the events of graphs nested in the graph at *path* since its last commit, one for each event.

    Such an event affects the state only through the outcome of the task that runs the nested graph.

    Args:
        known: Those of earlier events.
    """
    paths = list(known)
    for where, event in logged:
        if where != path:
            paths.append(where)
        # `TasksRouted` after answered `interrupt_after` questions ends the wait of a superstep that has committed.
        elif event.__class__ in _SETTLES or (isinstance(event, events.TasksRouted) and event.reason == "answered"):
            paths = []
    return paths


_SETTLES: Final = frozenset(
    {events.RunStarted, events.SuperstepAbandoned, events.SuperstepCommitted, events.ThreadForked}
)
"""Events that leave no superstep open."""


def without_outdated_outcome(engine: Engine, logged: Sequence[Logged]) -> Sequence[Logged]:
    """Return the staged events of a task, without its outcome if the journal has a newer answer than these events.

    A person replaced the answer because the task failed, or its outcome could not be folded or routed (R10). The run
    ended before the task ran again and was staged again.
    """
    for _, event in logged:
        if isinstance(event, events.InterruptAnswered):
            question = engine.questions.get(questions.local_id(engine, event.id))
            if question is not None and question.nth > event.nth:
                return [pair for pair in logged if not isinstance(pair[1], events.TaskSucceeded | events.TaskFailed)]
    return logged


def evolve(engine: Engine, event: events.Event | events.StateSaved, *, journalled: bool = True) -> None:
    """Apply one event; see `evolve_all`. Events that do not change the state, such as `RunCompleted`, are skipped."""
    if isinstance(event, events.InterruptRaised):
        task = None if engine.unrouted else _task(engine, event.task)
        questions.raised(engine, task, event, journalled=journalled)
        if task is not None:
            _used(task, event.usage)
    elif event.__class__ in questions.APPLY:
        questions.APPLY[event.__class__](engine, event, journalled=journalled)
    else:
        apply = _APPLY.get(event.__class__)
        if apply is not None:
            apply(engine, event)


def _succeeded(engine: Engine, event: events.TaskSucceeded) -> None:
    """Record the outcome of a task on it. The commit that follows folds it."""
    task = _task(engine, event.task)
    task.updates = tuple(dict(update) for update in event.updates)
    if event.above and engine.around is not None:  # in a nested graph: nodes of the enclosing graph
        task.goto = HandOver(_goto(engine.around[0], event) or ())
    else:
        task.goto = _goto(engine, event)
    task.status = DONE
    if event.edited:
        task.more().edited = True
    _used(task, event.usage)


def _failed(engine: Engine, event: events.TaskFailed) -> None:
    """Record a failure on its task: it ended the run (FAILED), or an `on_error` node takes over (HANDLED)."""
    task = _task(engine, event.task)
    task.more().failure = event.exception or Recalled(event.error, event.message)  # its class and text, as journalled
    task.status = FAILED if event.handler is None else HANDLED
    _used(task, event.usage)
    # The only write of a handled failure is the budget that its model calls used (decision 0030).
    task.updates, task.goto = spending(engine, task) if task.status == HANDLED else (), None


def _abandoned(engine: Engine, event: events.SuperstepAbandoned) -> None:
    """Drop the unfinished work that a run on a new input abandoned; its `RunStarted` follows."""
    engine.superstep = event.superstep  # the journal has no other entry of work that was only staged or due
    engine.close_superstep([])
    if event.said:
        say(engine, event.said, past=True)


def _retried(engine: Engine, event: events.TaskRetried) -> None:
    """Record a failed attempt that was retried under the node's retry policy."""
    task = _task(engine, event.task)
    task.more().retries.append((event.attempt, event.delay_s, Recalled(event.error, event.message)))
    task.attempt = event.attempt + 1
    _used(task, event.usage)


def _effect_started(engine: Engine, event: events.EffectStarted) -> None:
    """Record the start of a `"once"` effect. Without a result, it is unknown whether the effect happened."""
    task = _task(engine, event.task)
    known = task.more().intents.get(event.key)
    # The journal and the staged rows may both have starts of this effect: the larger count is the newer one.
    if known is None or event.starts >= known.starts:
        task.more().intents[event.key] = _of(task, event)


def _effect_recorded(engine: Engine, event: events.EffectRecorded) -> None:
    """Record the result of an effect, which the task gets when it runs again.

    It may be the outcome of a child thread.
    """
    task = _task(engine, event.task)
    known = task.more().effects.get(event.key)
    if known is None or known.result is ERASED:  # an erased effect may have run again and have a new result
        task.more().effects[event.key] = _of(task, event)
    heard(engine, event.key)


def _memory_written(engine: Engine, event: events.MemoryWritten) -> None:
    """Record the memory writes of a task, whose outcome follows. The commit of its superstep changes the store."""
    task = _task(engine, event.task)
    task.memory_writes(task.execution).write(event)


def _thread_started(engine: Engine, event: events.ThreadStarted) -> None:
    """Record that a task started a child thread (`ctx.start`)."""
    started(_task(engine, event.task), event)


def _model_event(engine: Engine, event: ModelEvent) -> None:
    """Record an event about the model calls of a task: a reply, usage, a reservation or a grant."""
    task = _task(engine, event.task)
    task.more().model_calls().apply(_of(task, event))


def _started(engine: Engine, event: events.RunStarted) -> None:
    """Begin a run, with its input as the whole state of a new thread (`fresh`), or as an update of a finished one."""
    values = dict(event.input)
    start(engine, values if event.fresh else folded_in(engine, values, reset=True, past=True))  # R16: `reset`
    engine.began = event.digests
    if event.fresh:
        engine.belong_to(event.parent)


def _resumed(engine: Engine, _event: events.RunResumed) -> None:
    """Make failed tasks due again, as `resume` and `retry` both do. Answers are separate events."""
    engine.retry()


def _routed(engine: Engine, event: events.TasksRouted) -> None:
    """Apply tasks that became due without a commit, for instance from the router of START."""
    if engine.unrouted:  # their questions are answered, and these are their next tasks
        _hand_over(engine, engine.unrouted)
        engine.close_superstep([])
    _make_due(engine, event)
    engine.entering = False
    set_joins(engine, event.joins)


def _signal_received(engine: Engine, event: events.SignalReceived) -> None:
    """Add a signal that was posted to the thread; it waits until a node takes it with `ctx.receive` (R22)."""
    engine.receive(event.id, event.name, event.value)


def _signal_taken(engine: Engine, event: events.SignalTaken) -> None:
    """Remove a signal that was taken; a separate event answers the question."""
    engine.take_signal(event.id)


def _forked(engine: Engine, event: events.ThreadForked) -> None:
    """Begin with the state of the fork's source, which the first entry of a fork contains."""
    restore(engine, event.state)


def _migrated(engine: Engine, event: events.ThreadMigrated) -> None:
    """Apply the values from a migration to a changed graph (R14), if it changed any."""
    if event.values is not None:
        engine.take(with_untracked(engine, dict(event.values)), engine.fields)
        for task in engine.tasks:  # unfinished tasks of an open superstep get a view of the migrated values
            task.state = None


def start(engine: Engine, values: Values) -> None:
    """Begin a run on *values*, with untracked fields, which are never stored, at their defaults (R16)."""
    engine.reset_counts()
    engine.close_superstep([])
    engine.start(with_untracked(engine, values))
    engine.forget_view()  # it would be another owner of the lists, which the fold extends in place (R15)


def restore(engine: Engine, saved: events.StateSaved) -> None:
    """Set the engine to the state in *saved*, a snapshot or the beginning of a fork."""
    start(engine, dict(saved.values))
    engine.superstep, engine.steps = saved.superstep, saved.steps
    for name, visits in saved.visits.items():
        node = present_node(engine, name)
        if node is not None:
            engine.visits[node.index] = visits
    _make_due(engine, saved)
    engine.entering = saved.entering
    engine.usage, engine.granted = saved.usage, saved.granted
    engine.signals = saved.signals
    engine.began = saved.began
    engine.inherit(saved.children, saved.parent)  # in a copied thread, without those of its source
    set_joins(engine, saved.joins)
    if saved.held:
        for at, event in enumerate(saved.held):
            task = held_task(engine, event.task, saved.args.get(at))
            engine.tasks.append(task)
            apply: Any = _APPLY[event.__class__]
            apply(engine, event)
            task.updates = ()  # folded before the snapshot was taken
            if task.extra is not None:
                task.extra.usage = None  # and counted in `saved.usage`
        questions.pause_after(engine, saved.after)


def _task(engine: Engine, task_id: str) -> Task:
    """Return the task *task_id*, such as `2.0:draft`, of the open superstep: the second number is its position."""
    # There is no entry for the opening of a superstep: the first event of one of its tasks implies it.
    if not engine.tasks:
        engine.open_superstep()
    place, _, name = task_id[len(engine.path) :].partition(":")
    task = engine.tasks[int(place.split(".", 1)[1])]
    if engine.aliases:
        _keep_name(engine, task, name)
    return task


def _keep_name(engine: Engine, task: Task, name: str) -> None:
    """Let the id of *task* keep *name* if an older graph called its node so when the task became pending (R14).

    The tasks that an entry makes due have it already. START makes tasks due without naming their nodes.
    """
    older = engine.aliases.get(name)
    if older is not None and older.index == task.node.index and task.node.id_name != name:
        task.node = task.node.formerly(name)


def keep_names(engine: Engine, staged: Iterable[str]) -> None:
    """Let the ids of the tasks of the open superstep keep the node names of the keys in *staged* (R14)."""
    if not engine.aliases:
        return
    named: dict[str, str] = {}
    for key in staged:
        place, _, rest = key.partition(":")  # without a path: only the nodes of the top graph are renamed
        named[place] = rest.partition("#")[0].partition("/")[0]
    for task in engine.tasks:
        _keep_name(engine, task, named.get(f"{task.superstep}.{task.index}", ""))


def _of(task: Task, event: _Event) -> _Event:
    """Return *event* for *task* to keep, with the current name of its node: an older graph may have used another."""
    return event if event.task == task.id else replace(event, task=task.id)


def _used(task: Task, usage: events.Usage | None) -> None:
    """Set the usage of *task*, which events give as a total and not as a difference."""
    if usage is not None:
        task.more().usage = usage


def _due(engine: Engine, event: Routing) -> list[Due]:
    """Return the tasks that *event* made due."""
    return due_again(engine, event.next or (), event.sends, event.errors, event.handled)


def _make_due(engine: Engine, event: Routing) -> None:
    """Make the tasks of *event* due, except for the last `waits` of them, which start after the others."""
    due = _due(engine, event)
    at = max(len(due) - event.waits, 0)
    engine.due, engine.waiting = due[:at], due[at:]


def _goto(engine: RunState, event: events.TaskSucceeded | events.ThreadUpdated) -> tuple[Any, ...] | None:
    """Return the targets of a Command or edit: NodePlan, END, or a Due for a Send. None if the node's edges apply.

    A node that the graph no longer has becomes END, because its successors are in the next tasks of the commit.
    """
    if event.goto is None:
        return None
    targets: list[Any] = []
    for at, name in enumerate(event.goto):
        node = present_node(engine, name)
        if node is None:
            targets.append(END)
        else:
            targets.append(Due(node, event.sends[at], None, True) if at in event.sends else node)
    return tuple(targets)


def _commit(engine: Engine, event: events.SuperstepCommitted) -> None:
    """Fold the staged updates as `committing.commit` did, with the next tasks from *event*."""
    tasks = engine.tasks or engine.open_superstep()  # opened by the first outcome, if the journal has any
    try:
        folded = fold(engine, engine.values, tasks, engine.reducer, engine.ephemeral, past=True)
    except FoldError as error:
        raise error.error from error.error.__cause__
    for task in tasks:  # views would count as owners of the lists in them (R15)
        task.state = None
    engine.forget_view()
    values, _ = applied(engine.values, engine.fields, folded)
    for task in tasks:
        count(engine, task)
        for update in task.updates if task.status == DONE else ():
            engine.follow(update)
    engine.take(values, (*folded.values, *folded.grown))
    if engine.is_read:
        engine.note_commit(Committed(engine, tasks, folded.undo))
    if event.after:
        questions.pause_after(engine, event.after)
        return
    _hand_over(engine, tasks)
    engine.close_superstep([])
    _make_due(engine, event)
    set_joins(engine, event.joins)


def _hand_over(engine: Engine, tasks: Sequence[Task]) -> None:
    """End a nested graph if one of its *tasks* handed over to the enclosing graph."""
    handed = handed_over(tasks) if engine.path else None
    if handed is not None:
        engine.hand_over(handed)


def _updated(engine: Engine, event: events.ThreadUpdated) -> None:
    """Apply an edit (`Runtime.update`), which may make a thread (`fresh`), finish tasks, or make tasks due (`next`)."""
    if event.fresh:
        start(engine, dict(event.values))
        _make_due(engine, event)
        engine.entering = False
        set_joins(engine, event.joins)
        return
    if event.open and not (
        engine.tasks or engine.unrouted
    ):  # the superstep was open at the time of the edit; its outcomes are only staged
        engine.open_superstep()
    values = folded_in(engine, dict(event.values), reset=False, past=True)  # ephemeral fields are kept
    # Without next tasks, the edit finished tasks of `as_node` or replaced their outcomes, and their commit routes. With
    # next tasks it finished none: if one is not done here, its outcome was only staged, and its fold has failed since.
    edit(engine, values, event.as_node if event.next is None else None, _goto(engine, event))
    if event.next is not None:
        if engine.tasks or engine.unrouted:
            engine.waiting = _due(engine, event)
        else:
            _make_due(engine, event)
            engine.entering = False
    set_joins(engine, event.joins)


# fmt: off
_APPLY: Final[Mapping[Any, Callable[[Engine, Any], None]]] = {
    events.BudgetGranted: _model_event, events.BudgetHeld: _model_event, events.BudgetReleased: _model_event,
    events.ModelReplied: _model_event, events.RepliesDiscarded: _model_event, events.ReplyStopped: _model_event,
    events.UsageRecorded: _model_event,
    events.EffectRecorded: _effect_recorded, events.EffectStarted: _effect_started,
    events.MemoryWritten: _memory_written,
    events.RunResumed: _resumed, events.RunStarted: _started,
    events.StateSaved: restore, events.SuperstepAbandoned: _abandoned, events.SuperstepCommitted: _commit,
    events.TaskFailed: _failed, events.TaskRetried: _retried, events.TaskSucceeded: _succeeded,
    events.TasksRouted: _routed, events.ThreadForked: _forked, events.ThreadMigrated: _migrated,
    events.ThreadStarted: _thread_started, events.ThreadUpdated: _updated,
    events.SignalReceived: _signal_received, events.SignalTaken: _signal_taken,
}
"""The function that applies an event, by its class."""
CHANGE_NOTHING: Final = frozenset({
    events.HistoryPruned, events.LetterDropped, events.NodeFatigued, events.OutcomeDropped, events.RunCancelled,
    events.RunHandedOver, events.RunCompleted, events.RunFailed, events.RunInterrupted, events.ThreadLabelled,
    events.ThreadCopied, events.ThreadDeleted, events.ValuesErased,
})
# fmt: on
"""Events that do not change the state, for a test of all events. `evolve` itself applies questions and outcomes of
answers."""
