"""The run loop, written once: begin, run, commit, until nothing is due, a person must answer, or the run fails.

Every function that returns a `Flow` is a generator. It yields effects (`Record`, `Start`, ...), a driver performs them,
and each answer is the value of the `yield`. The engine decides the consequences of a reply. Entries are recorded before
their content is shown: durable first, then true. Other code sets the attributes of `Control`: `halt` to end the run
now, `ends` to prevent another superstep, `live` for a stream that shows attempts.

The methods of the engine that it calls:

- `begin` decides the due nodes, `open_superstep` makes their tasks, `report` takes their outcomes, and `commit` folds
  them.
- `engine.log` has the events that are not written yet, as (path of the graph, event). It is None if no stream, sink or
  journal reads events. `emit_events` appends to it.
- `engine.dirty` has the tasks with changes that are not staged, and `standing` returns their events.
- `deadline_s` is the time at which the run must end, in seconds of the driver's monotonic clock; None without one.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from graphrt._cancellations import own_failure
from graphrt._engine import emit_events, failures, mutation_check, outcome
from graphrt._engine.committed import Uncommitted
from graphrt._engine.committing import commit
from graphrt._engine.engine import Engine
from graphrt._engine.mail import deliver, take_letters
from graphrt._engine.outcome import report
from graphrt._engine.task import DONE, DUE, FAILED, PAUSED, RUNNING, STOPPED, Task
from graphrt._flows.deadlines import UNTIMED, Ends, cut_by, may_start, set_timeout, too_late
from graphrt._flows.effects import (
    COLLECT,
    NOW,
    STOP,
    TELL,
    Collect,
    Control,
    Flow,
    Record,
    Stage,
    Start,
)
from graphrt._flows.kept import take_kept
from graphrt._flows.live import given_up, reported, step_items, take_long_way
from graphrt._flows.queued import leave_queued
from graphrt._flows.run_one import PREPARED, one, prepared, settled, stage, standing
from graphrt.errors import StoreError


class Act(Enum):
    """The next action on the open superstep."""

    FAIL = auto()
    """A task failed for good, without a retry or an `on_error` node: raise its error."""
    DISPATCH = auto()
    """Tasks are due: start them."""
    WAIT = auto()
    """Tasks are running: wait for their outcomes. Only for `drive`: the run loop calls `next_act` after its tasks have
    ended."""
    PAUSE = auto()
    """A person, a timer, a signal, a child thread or a worker must answer a question before the superstep can
    continue."""
    COMMIT = auto()
    """All tasks have ended: fold their updates, and route."""


def next_act(engine: Engine) -> Act:
    """Return the next action on the open superstep of *engine*; it has one task or more.

    Level-triggered: the tasks' statuses decide, not the order of events. A failure comes first, because no other task
    of its superstep may start after it (R9). A question (PAUSED) comes last, because the other tasks can end while it
    waits for an answer. The superstep commits only as a whole.
    """
    statuses = {task.status for task in engine.tasks}
    if FAILED in statuses:
        return Act.FAIL
    if DUE in statuses:
        return Act.DISPATCH
    if RUNNING in statuses:
        return Act.WAIT
    return Act.PAUSE if PAUSED in statuses else Act.COMMIT


COMPLETED, INTERRUPTED, CANCELLED = "completed", "interrupted", "cancelled"
HANDED_OVER = "running"
"""Status of a run that ended early on request, so that another process continues its thread, which stays due."""


def run(engine: Engine, control: Control) -> Flow:
    """Drive *engine* until it completes, pauses, is cancelled or fails; `ActiveRun.flow` and `nested` call it.

    The superstep that completes the run is written and shown together with the end, so that a run of n plain supersteps
    makes n commits after its first (R11).

    Returns:
        The status: `completed`, `interrupted`, `cancelled`, or `running` if the thread was handed over.

    Raises:
        GraphrtError: The run failed; its open superstep can be retried.
        BaseException: A node or the caller raised something other than an Exception (Ctrl-C, asyncio cancellation).
    """
    status: Any = None
    try:
        ends = Ends(None if engine.limits.deadline_s is None else (yield NOW) + engine.limits.deadline_s)
        step_timed = engine.limits.step_timeout_s is not None
        while status is None:
            if control.ends and _must_stop(engine, control):
                status = CANCELLED
                break
            if engine.unrouted:
                status = yield from _route(engine, control)
                continue
            if not engine.begin():
                status = COMPLETED
                break
            # Write the run's beginning, and routes without a commit, because staged outcomes build on these entries.
            if engine.log and (yield from _flush_before(engine, control)):
                continue
            if not engine.tasks:
                engine.open_superstep()
            if engine.kept:
                take_kept(engine)  # data that a fork kept for tasks of a nested graph
            task = engine.lone
            # The common case: one task, nothing to wait for, no reader, and no time limit.
            if (task is not None and task.status == DUE and task.extra is None and task.state is not None) and not (
                control.live or step_timed or (control.queues and engine.plan.queues)
            ):
                if engine.timed or task.node.timed:
                    set_timeout(engine, task, ends, 0.0 if ends.run is None else (yield NOW))
                reply = yield task
                if reply.__class__ in PREPARED:
                    reply = yield from settled(engine, task, reply, control, ends)
                report(engine, task, task.execution, reply)
                if (task.status == DUE or control.live) and (yield from _after_one(engine, task, reply, control)):
                    status = CANCELLED
                    break
            if task is None or task.status != DONE:
                act = yield from _superstep(engine, control, ends)
                if act is not Act.COMMIT:
                    status = act
                    continue
            if control.live or engine.is_read:
                status = yield from _commit(engine, control)
                continue
            if commit(engine):  # an `interrupt_after` asks before the routers
                emit_events.raised_after(engine)  # logs the questions
                status = INTERRUPTED
            if engine.plain_commit is not None:  # the superstep is kept there, instead of events in the log
                yield TELL
            elif not engine.due and _is_over(engine, control):
                status = COMPLETED
            elif engine.log:
                yield from _flush(engine)
    except GeneratorExit:
        raise  # the driver closed the flow and performs no more effects
    except BaseException as raised:
        # User code that is called here, such as a validator, may itself raise CancelledError (R9).
        error = own_failure(raised, f"code of graph {engine.plan.name!r}") or raised
        yield from _failed(engine, control, error)
        if error is raised:
            raise
        raise error from raised
    return (yield from _ended(engine, control, status))


def _after_one(engine: Engine, task: Task, reply: Any, control: Control) -> Flow:
    """Show the outcome of the superstep's only task, and store a failed attempt. Returns whether the run halts."""
    if control.live:  # a reader joined while it ran
        yield from reported(task, reply)
    if reply is STOPPED:  # the task stays due
        return True
    if task.status == DUE:  # another attempt follows
        yield from stage(engine)
    return False


def _commit(engine: Engine, control: Control) -> Flow:
    """Commit the open superstep and show it. Returns the status of the run if it ends here, else None."""
    tasks = engine.tasks
    try:
        held = commit(engine)  # whether an `interrupt_after` holds the superstep
    except Exception:  # the updates cannot be folded or routed
        if control.live:
            yield from given_up(engine)
        yield from _show(engine, FAILED)
        raise
    if held:
        emit_events.raised_after(engine)  # logs the questions
    elif _is_over(engine, control):
        return COMPLETED
    # Before anything is published: durable first, then true.
    if engine.plain_commit is not None:
        yield TELL
    else:
        yield from _flush(engine)
    if control.live:
        yield from step_items(tasks)
    if engine.is_read:
        yield engine.take_committed()
    return INTERRUPTED if held else None


def _ended(engine: Engine, control: Control, status: str) -> Flow:
    """Record that the run ended with *status*. Returns the status, which for a cancelled run may mean handed over."""
    if engine.check_state:
        mutation_check.encode_values(engine)  # warns of unstorable values in the last superstep, too
    if status == CANCELLED:
        status = HANDED_OVER if control.handing_over is not None else CANCELLED
        emit_events.stopped(engine, control.handing_over, control.halt)
    elif status == INTERRUPTED:
        emit_events.interrupted(engine)
    else:
        emit_events.completed(engine)
    yield from _flush(engine, last=True)
    if status == COMPLETED and engine.is_read:
        committed = engine.take_committed()
        if committed is not None:  # the superstep that was written with the end
            if control.live:
                yield from step_items(committed.tasks)
            yield committed
    return status


def _failed(engine: Engine, control: Control, error: BaseException) -> Flow:
    """Stop running tasks and record that the run failed, or was cancelled by an error such as Ctrl-C.

    `run` then raises it.
    """
    if not isinstance(error, Exception):
        control.cancel(type(error).__name__)  # running nodes see it as `ctx.cancelled`
        yield from _stop(engine, control, UNTIMED)
        emit_events.cancelled(engine, type(error).__name__)
        yield from _flush_end(engine, error)
        return
    # A StoreError of a node's own effect is the outcome of its task (`failed_with`), and is handled like any other.
    if isinstance(error, StoreError) and not outcome.failed_with(engine, error):
        # A step that could not be stored did not happen, so no `RunFailed` is written. The thread's claim is released
        # next. No node may continue after that, because another process may own the thread.
        if not engine.path:  # otherwise the graph is nested, and the flow of the outermost graph cancels the run
            control.cancel(type(error).__name__)
        yield from _stop_running(engine, control)
        return
    yield from _stop_running(engine, control)
    emit_events.failed(engine, error)
    yield from _flush_end(engine, error)


def _flush_end(engine: Engine, error: BaseException) -> Flow:
    """Record that the run ended with *error*. `run` then raises *error*, even if this could not be stored."""
    try:
        yield from _flush(engine, last=True)
    except StoreError as other:
        error.add_note(f"That the run ended so could not be stored: {other.what}")


def _stop_running(engine: Engine, control: Control) -> Flow:
    """Stop the tasks that are still running when `run` ends with an error, because no task may outlive its run."""
    if any(task.status == RUNNING for task in engine.tasks):
        yield from _stop(engine, control, Ends(None))


def _flush(engine: Engine, *, last: bool = False) -> Flow:
    """Write the new events. With *last*, the run ends, and the known data of an open superstep's tasks is staged too.

    A nested graph writes no entries: it stages its events, numbered by commit, until its parent's commit writes them.
    """
    if not engine.path:  # that of the outermost graph is empty
        if engine.log:
            yield Record(emit_events.take(engine), standing(engine) if last and engine.dirty else (), last=last)
    elif engine.staging:  # the store keeps outcomes of open supersteps
        staged = standing(engine) if last and engine.dirty else []
        # The last events of a nested graph that completed are staged with the outcome of its task in the parent.
        if engine.log and not emit_events.has_completed(engine):
            logged = emit_events.take(engine)
            staged.append((engine.settle(logged), logged))  # `settle` returns the key with the number
        if staged:
            yield Stage(staged)


def _flush_before(engine: Engine, control: Control) -> Flow:
    """Write the new events before anything else.

    Returns whether their reader has cancelled the run, which then checks again.
    """
    yield from _flush(engine)
    return control.ends


def _has_work(engine: Engine) -> bool:
    """Return whether a superstep is open or due, or routers have not been called yet."""
    return bool(engine.tasks or engine.unrouted or engine.due or engine.entering)


def _must_stop(engine: Engine, control: Control) -> bool:
    """Return whether a request ends the run before its next superstep.

    A run without remaining work is not handed over.
    """
    return control.ends and (control.handing_over is None or _has_work(engine))


def _is_over(engine: Engine, control: Control) -> bool:
    """Return whether the superstep that was just committed completes the run, so that its end is written with it.

    False in a nested graph, whose last superstep is staged at once, because the parent may fail to process the outcome.
    False while another process follows the live items, because it gets the last items with the commit after them.
    """
    return (
        not engine.path
        and not control.followed
        and not _has_work(engine)
        # `quiesce` fires them, or raises.
        and not (engine.joins and any(join.starved or join.emptied for join in engine.joins))
        and not _must_stop(engine, control)
    )


def _superstep(engine: Engine, control: Control, ends: Ends) -> Flow:
    """Run the due tasks of the open superstep.

    Args:
        ends: When the run ends; the superstep may end earlier.

    Returns:
        Act.COMMIT if all tasks have ended; the status of the run if it ends here; None if the superstep continues at
        once, so that `run` evaluates it again.
    """
    tasks = engine.tasks
    due = [task for task in tasks if task.status == DUE]
    if control.queues and engine.plan.queues:  # tasks of nodes with a queue are left to its workers
        due = leave_queued(engine, due, control)
    if control.live:  # a stream shows what tasks do while their superstep is open
        take_long_way(due)
    if engine.limits.step_timeout_s is not None:
        ends = Ends(ends.run, (yield NOW) + engine.limits.step_timeout_s)
    if len(due) == 1:
        yield from one(engine, due[0], control, ends)
    elif due and control.halt is None:
        yield from _many(engine, due, control, ends)
    act = next_act(engine)
    if act is Act.COMMIT:
        return act
    if act is Act.FAIL:
        failed = next(task for task in tasks if task.status == FAILED)
        yield from _show(engine, FAILED)
        emit_events.failures(engine)
        raise failures.failure(engine, failed)
    if act is Act.DISPATCH:
        return CANCELLED  # only a halt leaves tasks due here; they run at the next drive
    for task in tasks:
        if task.status == PAUSED:
            emit_events.raised(engine, task)  # logs its questions
    # Signals and answers posted by other processes (R22) may allow a task to continue at once. Only the outermost graph
    # processes them, also for tasks of nested graphs.
    if (engine.signals or control.letters) and not engine.path and (yield from _take_mail(engine, control)):
        return None
    yield from _show(engine, PAUSED)
    return INTERRUPTED


def _take_mail(engine: Engine, control: Control) -> Flow:
    """Process the mail of a superstep whose tasks all wait. Returns whether one of them is due now.

    The run loop calls it before a pause. If no task is due, the run pauses. The resulting entries and the deletion of
    the letters are one commit. Letters that arrive later make the paused thread due.
    """
    letters = [control.letters.popleft() for _ in range(len(control.letters))]  # others may arrive in the meantime
    positions = take_letters(engine, letters)  # positions in the store, used to delete the letters
    deliver(engine)  # deliver signals, including earlier ones, to tasks that wait in `ctx.receive`
    if engine.log:  # never empty if a letter was processed: each causes an event, even a dropped one
        yield Record(emit_events.take(engine), standing(engine) if engine.dirty else (), taken=positions)
    return any(task.status == DUE for task in engine.tasks)


def _route(engine: Engine, control: Control) -> Flow:
    """Call the routers that waited for an `interrupt_after`. Returns a status if the run ends here, else None."""
    if engine.log and (yield from _flush_before(engine, control)):  # the run's beginning
        return None
    if engine.open_interrupts():
        return INTERRUPTED
    engine.route()  # only now, so that routers see changes by an `update` during the pause (decision 0058)
    if _is_over(engine, control):
        return COMPLETED
    yield from _flush(engine)
    return None


def _many(engine: Engine, due: Sequence[Task], control: Control, ends: Ends) -> Flow:
    """Run several tasks; stop the others as soon as one has failed permanently (R9).

    Afterwards the outcomes are on the tasks. If the run halts, tasks without an outcome are due.

    Args:
        ends: When attempts are cut off, besides their own timeouts.

    Raises:
        DeadlineError: The run's deadline is over, and no task failed permanently, which would take precedence.
    """
    if ends.first is not None or engine.limits.timeout_s is not None or engine.plan.has_timeouts:
        for task in due:  # before any starts, because it raises when the deadline is over
            yield from may_start(engine, task, ends)
        due = [task for task in due if task.status == DUE]  # without those that may no longer start
    for task in due:
        if task.state is None:
            engine.snapshot_for(task)
        task.status = RUNNING
    yield Start(due)
    collect = COLLECT if ends.run is None else Collect(ends.run)
    remaining = len(due)
    late = False  # whether the run's deadline is over
    while remaining:
        if control.halt is not None:
            yield from _stop(engine, control, ends)
            return
        failed = False
        for task, execution, reply in (yield collect):
            if reply.__class__ in PREPARED:
                reply, over = yield from prepared(engine, task, reply, ends)
                late = late or over
            # False: a duplicate, or late.
            if not report(engine, task, execution, reply):
                continue
            if control.live:
                yield from reported(task, reply)
            again = task.status == DUE and reply is not STOPPED  # one more attempt
            if again and (yield from may_start(engine, task, ends)):
                engine.snapshot_for(task)
                task.status = RUNNING
                yield Start((task,))
            else:
                remaining -= 1
                failed = failed or task.status == FAILED
        if ends.run is not None and remaining and not failed:
            late = late or (yield NOW) >= ends.run  # tasks that wait for `max_concurrency` have no timeout yet
        if failed or late:
            yield from _stop(engine, control, ends)
            break
        if remaining and engine.dirty:  # after the last outcome, they are written with the commit or the end of the run
            yield from stage(engine)
    if late and engine.failed() is None:
        raise too_late(engine)


def _stop(engine: Engine, control: Control, ends: Ends) -> Flow:
    """Stop running tasks and make them due again. Tasks that ended despite STOP keep their outcome."""
    for task, execution, reply in (yield STOP):
        if cut_by(reply, ends):  # ended by the deadline, not its own timeout: the node did not fail
            reply = STOPPED
        if engine.report(task, execution, reply) and control.live:
            yield from reported(task, reply)
    for task in engine.tasks:
        if task.status == RUNNING:
            task.status = DUE
            if control.live:
                yield from reported(task, STOPPED)


def _show(engine: Engine, status: int) -> Flow:
    """Show the tasks with *status*, FAILED or PAUSED, whose superstep cannot commit, if steps are read."""
    if engine.keeps_undo and (tasks := [task for task in engine.tasks if task.status == status]):
        yield Uncommitted(tasks)
