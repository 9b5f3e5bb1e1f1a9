"""The run loop, written once: begin, run, commit, until nothing is due, a person must answer, or the run fails.

Effects are yielded here and performed by a driver; what follows from a reply is decided by the engine. Entries are
recorded before anything shows what they say: durable first, then true.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CoroutineType
from typing import Any, Final, final

from graphrt import events
from graphrt._engine import emit_events, failures, fast_path, mutation_check, outcome, redacting
from graphrt._engine.engine import Engine
from graphrt._engine.task import DUE, FAILED, PAUSED, RUNNING, STOPPED, Task, TimedOut
from graphrt._flows.deadlines import is_cut, set_timeout, too_late
from graphrt._flows.effects import (
    COLLECT,
    NOW,
    STOP,
    TELL,
    Await,
    Collect,
    Control,
    Flow,
    Publish,
    Record,
    Stage,
    Start,
)
from graphrt._flows.kept import take_kept
from graphrt._flows.live import committed, given_up, reported, take_long_way
from graphrt._flows.mail import standing, take_mail
from graphrt._flows.next_act import Act, next_act
from graphrt._flows.queued import kept_here
from graphrt._flows.run_one import date_of, one, stage
from graphrt._plan.copying import own
from graphrt.commands import Interrupt
from graphrt.errors import StoreError

COMPLETED, INTERRUPTED, CANCELLED, FAILED_RUN = "completed", "interrupted", "cancelled", "failed"
HANDED_OVER = "running"


@final
class Watch:
    """What a run publishes: steps, updates and values; and whether this flow writes the entries."""

    __slots__ = ("any", "only_steps", "records", "steps", "updates", "values")

    def __init__(
        self, *, steps: bool = False, updates: bool = False, values: bool = False, records: bool = True
    ) -> None:
        self.steps: bool = steps
        self.updates: bool = updates
        self.values: bool = values
        self.any: bool = steps or updates or values
        self.only_steps: bool = steps and not updates and not values  # a shorter way through the fast path's loop
        self.records: bool = records
        """False in a nested graph, whose entries are written with its parent's commit (R17)."""


UNWATCHED: Final = Watch()


def run(engine: Engine, control: Control, watch: Watch = UNWATCHED) -> Flow:
    """Drive *engine* until it completes, pauses, is cancelled or fails.

    Returns:
        The status: `completed`, `interrupted`, `cancelled`, or `running` if the thread was handed over.

    Raises:
        GraphrtError: The run failed; its open superstep can be retried.
        BaseException: A node or the caller raised something other than an Exception (Ctrl-C, asyncio cancellation).
    """
    try:
        status = yield from _drive(engine, control, watch)
    except Exception as error:
        if isinstance(error, StoreError) and not outcome.failed_with(engine, error):
            # What could not be stored did not happen, so no `RunFailed` is written. The thread's claim is released
            # next, and no node may go on then: another process may own the thread.
            if watch.records:
                control.cancel(type(error).__name__)
            yield from _land(engine, control)
            raise
        yield from _land(engine, control)
        emit_events.note(
            engine,
            events.RunFailed(
                error=type(error).__name__,
                message=emit_events.first_line(redacting.redacted_error(engine, error)),
                node=_node(error),
                folded=emit_events.folded(engine),
            ),
        )
        yield from _last_words(engine, watch, error)
        raise
    except GeneratorExit:
        raise  # the driver closed the flow: it performs no more effects
    except BaseException as error:
        fast_path.park(engine)
        control.cancel(type(error).__name__)  # nodes that still run see it as `ctx.cancelled`
        yield from _stop(engine, control)
        emit_events.cancelled(engine, type(error).__name__)
        yield from _last_words(engine, watch, error)
        raise
    if engine.check_state:
        mutation_check.look(engine)  # the values of the last superstep, which no later one looks at
    if status == CANCELLED:
        status = HANDED_OVER if control.handing_over is not None else CANCELLED
        emit_events.stopped(engine, control.handing_over, control.halt)
    elif status == INTERRUPTED:
        asked = tuple(question.id for question in engine.open_interrupts())
        emit_events.note(engine, events.RunInterrupted(interrupts=asked, folded=emit_events.folded(engine)))
    else:
        emit_events.note(engine, events.RunCompleted(steps=engine.steps, folded=emit_events.folded(engine)))
    yield from _flush(engine, watch, last=True)
    return status


def _last_words(engine: Engine, watch: Watch, error: BaseException) -> Flow:
    """Write that the run ended with *error*, which reaches the caller even if it cannot be stored."""
    try:
        yield from _flush(engine, watch, last=True)
    except StoreError as other:
        error.add_note(f"That the run ended so could not be stored: {other.what}")


def _land(engine: Engine, control: Control) -> Flow:
    """Stop the tasks that still run, after the flow failed while it handled another one."""
    if any(task.status == RUNNING for task in engine.tasks):
        yield from _stop(engine, control)


def _node(error: Exception) -> Any:
    return getattr(error, "node", None)


def _flush(engine: Engine, watch: Watch, *, last: bool = False) -> Flow:
    """Write the new events; with *last* also stage what is known of the tasks of a superstep that stays open."""
    if watch.records:
        if engine.log:
            yield Record(emit_events.take(engine), standing(engine) if last and engine.dirty else (), last=last)
    elif engine.staging:
        staged = standing(engine) if last and engine.dirty else []
        if engine.log and not isinstance(engine.log[-1][1], events.RunCompleted):  # its task's outcome says as much
            logged = emit_events.take(engine)
            staged.append((engine.settle(logged), logged))
        if staged:
            yield Stage(staged)


def _drive(engine: Engine, control: Control, watch: Watch) -> Flow:
    """Run superstep after superstep; return the status of the run."""
    deadline_s: float | None = None
    if engine.limits.deadline_s is not None:
        deadline_s = (yield NOW) + engine.limits.deadline_s
    advance = fast_path.advance
    while True:
        if control.ends:
            return CANCELLED
        # The fast path publishes no starts, and takes nothing that a fork kept.
        call = None if control.live or engine.kept else fast_path.begin(engine)
        if call is not None:
            if engine.log:
                yield from _flush(engine, watch)
                if control.ends:  # the reader of these first entries cancelled the run
                    fast_path.take_back(engine)
                    return CANCELLED
            reply: Any = None
            watched, only_steps = watch.any, watch.only_steps
            listening = engine.log is not None
            while call is not None:
                reply = yield call
                call = advance(engine, reply)
                if listening:
                    if engine.told is not None:
                        yield TELL
                    elif engine.log:
                        yield from _flush(engine, watch)
                if watched:
                    if only_steps:
                        yield from engine.recorder.take()  # type: ignore[union-attr]  # set if steps are watched
                    else:
                        yield from _publish(engine, watch)
                if control.ends:  # no superstep is left open: the next task is due, not started
                    fast_path.take_back(engine)
                    break
            if engine.tasks and call is None:  # an odd reply: the general path handles it
                if reply.__class__ is CoroutineType:
                    reply = yield Await(engine.tasks[0], reply)
                if reply.__class__ is Interrupt:
                    yield from date_of(reply)
                engine.report(engine.tasks[0], 1, reply)
                if engine.tasks[0].status == DUE:  # one more attempt, after the failed one is stored
                    yield from stage(engine)
        elif not engine.begin() and not engine.quiesce():
            return COMPLETED
        elif engine.log:  # the run's beginning, and routes without a commit: staged outcomes build on these entries
            yield from _flush(engine, watch)
        take_kept(engine)
        if engine.tasks:
            status = yield from _superstep(engine, control, watch, deadline_s)
            if status is not None:
                return status


def _superstep(engine: Engine, control: Control, watch: Watch, deadline_s: float | None) -> Flow:
    """Run the open superstep up to its commit; return a status if the run ends there, else None."""
    if engine.held:
        return (yield from _route(engine, watch))
    tasks = engine.tasks
    due = [task for task in tasks if task.status == DUE]
    if control.queues and engine.plan.queues:
        due = kept_here(engine, due, control)
    if control.live:
        take_long_way(due)
    if len(due) == 1:
        yield from one(engine, due[0], control, deadline_s)
    elif due and control.halt is None:
        yield from _many(engine, due, control, deadline_s)
    act = next_act(engine)
    if act is Act.FAIL:
        failed = next(task for task in tasks if task.status == FAILED)
        yield from _show(engine, watch, FAILED)
        emit_events.failures(engine)
        raise failures.failure(engine, failed)
    if act is Act.DISPATCH:
        return CANCELLED  # the run halts; due tasks run at the next drive
    if act is Act.PAUSE:
        for task in tasks:
            if task.status == PAUSED:
                emit_events.raised(engine, task)
        if (engine.signals or control.letters) and watch.records and (yield from take_mail(engine, control)):
            return None
        yield from _show(engine, watch, PAUSED)
        return INTERRUPTED
    live = committed(engine) if control.live else ()
    try:
        held = engine.commit()
    except Exception:
        if control.live:
            yield from given_up(engine)
        yield from _show(engine, watch, FAILED)
        raise
    if held:
        emit_events.raised_after(engine)
    yield from _flush(engine, watch)  # before anything is published: durable first, then true
    yield from live
    if watch.any:
        yield from _publish(engine, watch)
    return INTERRUPTED if held else None


def _route(engine: Engine, watch: Watch) -> Flow:
    """Route a held superstep whose `interrupt_after` was answered (R1); return INTERRUPTED if it was not."""
    if engine.open_interrupts():
        return INTERRUPTED
    engine.route()  # only now, so that routers see what an `update` changed during the pause (decision 0058)
    yield from _flush(engine, watch)
    return None


_PREPARED: Final = frozenset({CoroutineType, Interrupt, TimedOut})
"""Classes of replies that need a further effect or check before they are reported."""


def _many(engine: Engine, due: Sequence[Task], control: Control, deadline_s: float | None) -> Flow:
    """Run several tasks; stop the others as soon as one failed for good (R9)."""
    if deadline_s is not None or engine.limits.timeout_s is not None or engine.plan.has_timeouts:
        for task in due:
            yield from set_timeout(engine, task, deadline_s)
    for task in due:
        if task.state is None:
            engine.snapshot_for(task)
        task.status = RUNNING
    yield Start(due)
    collect = COLLECT if deadline_s is None else Collect(deadline_s)
    left = len(due)
    late = False
    while left:
        if control.halt is not None:
            yield from _stop(engine, control)
            return
        failed = False
        for task, execution, reply in (yield collect):
            if reply.__class__ in _PREPARED:
                if reply.__class__ is CoroutineType:
                    reply = yield Await(task, reply)
                if reply.__class__ is Interrupt:
                    yield from date_of(reply)
                if is_cut(engine, task, reply):
                    reply, late = STOPPED, True
            if not outcome.report(engine, task, execution, reply):  # a duplicate, or late
                continue
            if control.live:
                yield from reported(task, reply)
            if task.status == DUE and reply is not STOPPED:  # one more attempt
                yield from set_timeout(engine, task, deadline_s)
                engine.snapshot_for(task)
                task.status = RUNNING
                yield Start((task,))
            else:
                left -= 1
                failed = failed or task.status == FAILED
        if deadline_s is not None and left and not failed:
            late = late or (yield NOW) >= deadline_s  # tasks that wait under `max_concurrency` have no timeout yet
        if failed or late:
            yield from _stop(engine, control)
            break
        if left and engine.dirty:
            yield from stage(engine)
    if late and engine.failed() is None:
        raise too_late(engine)


def _stop(engine: Engine, control: Control) -> Flow:
    """Stop running tasks; those that ended all the same keep their outcome, the others are due at the next drive."""
    for task, execution, reply in (yield STOP):
        if is_cut(engine, task, reply):  # the deadline of the run ended this attempt: its node did not fail
            reply = STOPPED
        if engine.report(task, execution, reply) and control.live:
            yield from reported(task, reply)
    for task in engine.tasks:
        if task.status == RUNNING:
            task.status = DUE
            if control.live:
                yield from reported(task, STOPPED)


def _publish(engine: Engine, watch: Watch) -> Flow:
    """Publish the steps, updates and values of the last commit."""
    recorder = engine.recorder
    steps = recorder.take() if recorder is not None else ()
    for step in steps:
        if watch.steps:
            yield step
        if watch.updates:
            yield Publish("updates", {step.node: step.update})
    if watch.values and (engine.held or not engine.tasks):  # after an odd reply on the fast path nothing is committed
        yield Publish("values", engine.make_view(own(engine.values)))


def _show(engine: Engine, watch: Watch, status: int) -> Flow:
    """Publish a step for each task with *status*, FAILED or PAUSED, whose superstep cannot commit."""
    if not watch.steps or engine.recorder is None:
        return
    for task in engine.tasks:
        if task.status == status:
            task.state = None  # the step keeps the task, which must not keep a view of the lists (R15)
            engine.recorder.record(task, {})
    yield from engine.recorder.take()
