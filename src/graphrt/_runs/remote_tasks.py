"""`run_task`: runs one queued task in a process that does not have the thread (decision 0159).

The thread is read and never claimed. The task's progress is reported by letters, which the driver of the thread takes.
A letter holds the events that the driver would otherwise stage. Letters about the same wait are numbered from 1, and
the store keeps only one letter per number. A worker that finds its number taken has lost the task to another worker and
stops.

A worker's claim on a task only avoids wasted work. The letter numbers ensure that two workers on one task never apply a
change twice. `held` and `admitted` hold claims while a block runs: on the task, and on one of the places that the
limits of the queue allow. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from graphrt import events
from graphrt._drivers.run_services import RunServices
from graphrt._drivers.sync import SyncDriver
from graphrt._engine import emit_events
from graphrt._engine.open_interrupt import ENDED, WITHDRAWN, OpenInterrupt
from graphrt._engine.questions import waiting
from graphrt._engine.run_state import RunState
from graphrt._engine.task import DONE, DUE, FAILED, RUNNING, Task
from graphrt._flows.effects import Control
from graphrt._flows.queued import run_left
from graphrt._journal.mail_watch import LIVE_S, POLL_S
from graphrt._journal.task_letters import Report, letter_id, packed, taken
from graphrt._runs.arguments import new_id
from graphrt._runs.child_threads import ThreadsOfRun
from graphrt._runs.live_relay import LiveRelay
from graphrt._runs.live_show import LiveShow
from graphrt._runs.loading import check_build, folded, the_store, top_task
from graphrt._runs.open_run import begin, check_erased
from graphrt._runs.queue_slots import admitted, held, place_of
from graphrt._runs.reopen_run import letters_about_tasks
from graphrt._runs.results import TaskOutcome
from graphrt._runs.run_config import RunConfig
from graphrt.errors import DeadlineError, InputError, StoreError
from graphrt.errors._codes.queues import TASK_TAKEN_OVER, UNTRACKED_ON_QUEUE
from graphrt.limits import Queue
from graphrt.reducers import TOKEN_BUDGET
from graphrt.stores.ids import bare_id, beside, check_id
from graphrt.stores.protocol import Store

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine
    from graphrt._journal.thread_fold import Fold
    from graphrt._plan.tables import Plan

_WAITING: Final = ("running", "interrupted")
"""Statuses of a thread whose tasks are run. `running`: its driver is handling the reports of other tasks."""


def run_task(config: RunConfig, thread: str, task: str, queue: Queue | None) -> TaskOutcome:
    """Run one task that waits for its queue, and report its end to the thread; see `Runtime.run_task`.

    Args:
        task: Id of the task.
        queue: Limits of the queue over all workers; None for no limits.

    Returns:
        "ended" if the end was reported; "full" if the limits currently allow no further task; else "left": the task no
        longer waits, or another worker runs it.
    """
    store = the_store(config)
    store.require("mail")
    store.require("labels")
    check_id(thread)
    # Tasks that share a budget would each see all of it if they ran at once, so they run one after another.
    alone = config.budget is not None or _shares_budget(config.plan)
    # The place is the same whether this process has opened the shared store or that of the thread's tenant.
    bare = bare_id(thread)
    lock = beside(thread, place_of("task", bare if alone else f"{bare}/{task}"))
    with held(config, store, lock) as check_claim:  # None if another worker holds the claim
        if check_claim is None:
            return "left"
        return _ran(config, store, thread, task, lock, queue, alone=alone, check=check_claim)


def _shares_budget(plan: Plan) -> bool:
    """Return whether the state of the graph, or of a nested one, has the field `token_budget`, which tasks draw on."""
    return TOKEN_BUDGET in plan.state.fields or any(
        node.child is not None and _shares_budget(node.child) for node in plan.nodes
    )


def _unchecked() -> None:
    """Default `check` of `_ran`: nothing can take over the claim."""


def _ran(
    config: RunConfig,
    store: Store,
    thread: str,
    task_id: str,
    lock: str,
    queue: Queue | None,
    *,
    alone: bool,
    check: Callable[[], None] = _unchecked,
) -> TaskOutcome:
    """Run the task that this worker has claimed; the result is that of `run_task`.

    Args:
        lock: The claimed id, under which the run is listed as active.
        alone: Whether no other task of the thread runs at the same time, because they share a budget.
        check: Raises if another worker has claimed the task meanwhile.
    """
    # Letters first: a change between the two reads is then seen twice rather than missed.
    letters = letters_about_tasks(config, store, thread)
    # Letters for a nested task concern the enclosing task of the top graph.
    if not alone:  # its siblings matter only for what is left of a budget
        letters = [letter for letter in letters if top_task(letter.task) == top_task(task_id)]
    loaded = store.load(thread)
    if loaded.head.status not in _WAITING:
        return "left"
    fold = folded(config, loaded, letters=letters, task=None if alone else top_task(task_id))
    engine = fold.engine
    waiting_task = next((candidate for candidate in waiting(engine) if candidate[1].id == task_id), None)
    if waiting_task is None or (fold.reported is not None and task_id in fold.reported.failures):
        return "left"  # its end was reported; `failures` has the tasks that failed for good
    owner, task, question = waiting_task  # *owner* is the engine of the task's graph, which may be a nested one
    # The rest of the preparation is that of a run that continues the thread.
    if config.redactor is not None:
        engine.redact_with(config.redactor)
    config.secrets.give_back(engine)
    check_erased(fold, engine.values, work=True)
    check_build(config, fold)
    engine.limit(config.limits)
    control = Control()
    control.watched = True  # code other than the caller, such as `_watched`, can cancel it
    keys = [key for key, _ in loaded.staged]  # staged are pairs of a key and a body
    number = _last_number(letters, keys, task_id, question.version)
    reporter = Reporter(store, fold, control, (task_id, question.version), number)
    services = config.services(engine, control, fold.seed)
    show: LiveShow | None = None
    if "live" in store.offers:
        seq = loaded.head.seq
        relay = LiveRelay(store, thread, new_id(), engine, lambda: seq, task=task, check=check)
        show = LiveShow(store, thread, services, relay, threading.Lock())
    config.active.add(lock, control)  # so that `hand_over` and `close` wait for it
    try:
        with admitted(config, store, str(question.payload), queue) as may_begin:  # the payload is the queue's name
            if not may_begin:
                return "full"
            with _watched(store, thread, question, loaded.head.seq, control, show):
                failure = _run(config, store, fold, services, owner, task, reporter)
        if reporter.lost or task.status in (DUE, RUNNING):  # overtaken, or cancelled before it ended
            if show is not None:
                show.flush()  # withdraws what it has shown
            return "left"
        if show is not None:
            show.before_next()
        _close(task, question)
        # `standing`: all events of the task that a restart would need, as they would be staged.
        try:
            reporter.post([(task.id, emit_events.standing(owner, task))], failed=failure)
        except StoreError as error:
            if error.code != TASK_TAKEN_OVER.code:
                raise
            return "left"
        return "ended"
    finally:
        # Both calls, since no `ActiveRun` makes them: the task can no longer be cancelled, and writes nothing more.
        config.active.remove(lock, control)
        config.active.closed(control)


def _last_number(letters: Sequence[Report], keys: Sequence[str], task: str, version: int) -> int:
    """Return the number of the last letter about the task, whether taken or not; 0 without any.

    Args:
        letters: The letters not yet taken.
        keys: Keys of the staged data, one of which counts the letters taken.
        version: Version of the task's question.
    """
    numbers = (letter.number for letter in letters if (letter.task, letter.version) == (task, version))
    return max([taken(keys, task, version), *numbers])


def _run(
    config: RunConfig,
    store: Store,
    fold: Fold,
    services: RunServices,
    owner: RunState,
    task: Task,
    reporter: Reporter,
) -> tuple[events.TaskFailed, bool] | None:
    """Run *task* of the graph of *owner*; return its final failure, if any.

    Returns:
        The failure, and whether its error reaches the caller of the run unchanged rather than as the cause of a
        NodeError. None if the task succeeded, asked a question, or was stopped.
    """
    engine = fold.engine
    services._run_id = fold.run  # that of the run that queued the task, since no new run begins here
    services.children = ThreadsOfRun(config, fold.reader.thread, begin)
    # Data that a run would stage is posted instead. `eager`: each outcome inside a nested graph is stored as soon as it
    # is known.
    services.stage, services.blocking, services.eager = reporter, store.blocking, True
    engine.identify(fold.run)
    engine.listen(engine.plan.codec, staging=True)  # `staging`: the engine keeps events to stage
    driver = SyncDriver(services, config.limits)
    graph: Any = owner
    try:
        with services.held() if services.holds else contextlib.nullcontext():
            driver.drive(run_left(graph, task, services.control))
    except DeadlineError as error:
        return _failed(task, error), True  # it reaches the caller unchanged
    except SystemExit as error:
        # The end of a process is not a node's to decide. Without a report the task would wait, and run again, for ever.
        # In the main thread, where signal handlers run, it may be the end of this process.
        if threading.current_thread() is threading.main_thread():
            raise
        return _failed(task, RuntimeError(f"the node called sys.exit({error.code!r})")), False
    except StoreError:
        if not reporter.lost:  # else the error says that another worker has taken over
            raise
    finally:
        services.close()
    # Untracked fields are never stored, so the thread's driver would never get what the task wrote.
    hidden = owner.plan.state.untracked
    wrote = next((name for update in task.updates for name in update if name in hidden), None)
    if task.status == DONE and wrote is not None:
        queue, node = task.node.policy.queue, task.node.name
        return _failed(task, UNTRACKED_ON_QUEUE(node=node, field=wrote, queue=queue, where=owner.where(task))), True
    if task.status != FAILED:
        return None
    event: Any = emit_events.outcome_of(owner, task)
    return event, task.more().raise_as_is


def _failed(task: Task, error: Exception) -> events.TaskFailed:
    """Mark *task* as failed with *error*, which its node did not raise, and return the event."""
    task.status, task.updates, task.goto = FAILED, (), None
    return events.TaskFailed(
        task=task.id,
        node=task.node.name,
        error=type(error).__name__,
        message=emit_events.first_line(error),
        handler=None,
        exception=error,
        usage=task.extra.usage if task.extra is not None else None,
    )


def _close(task: Task, question: OpenInterrupt) -> None:
    """Close the question with which *task* waited, for the report; a failed attempt may have removed it."""
    extra = task.more()
    question.state, question.reason = WITHDRAWN, ENDED
    if question not in extra.interrupts:
        extra.interrupts.insert(0, question)


@final
class Reporter:
    """Posts a task's progress as letters, instead of staging it as the process that has the thread would.

    Implements `_drivers.run_services.Stager`.

    Args:
        control: Switches of the execution, used to cancel it if another worker reports on the task.
        about: Id of the task and version of its question.
        number: Number of the last letter about it.
    """

    def __init__(self, store: Store, fold: Fold, control: Control, about: tuple[str, int], number: int) -> None:
        self._store = store
        self._fold = fold
        self._engine: Engine = fold.engine
        self._control = control
        self._about = about
        self._number = number
        self._lock = threading.Lock()
        """Nodes record effects from several threads."""
        self.lost: bool = False
        """Whether this execution no longer counts, because another worker has reported or the outcome of a letter is
        unknown."""

    def __call__(self, staged: Sequence[tuple[str, list[Logged]]]) -> None:
        """Report events, as pairs of a key and the events to stage under it."""
        self.post(staged)

    def post(
        self, staged: Sequence[tuple[str, list[Logged]]], *, failed: tuple[events.TaskFailed, bool] | None = None
    ) -> None:
        """Post one letter.

        Args:
            staged: Pairs of a key and the events to stage under it.
            failed: The failure with which the task ended, as `_run` returns it; None if it did not fail.

        Raises:
            ConflictError: Another worker has reported on the task since this one read the thread (`task-taken-over`).
            StoreError: The store failed.
        """
        store, thread, (task, version) = self._store, self._fold.reader.thread, self._about
        with self._lock:
            if self.lost:
                raise TASK_TAKEN_OVER(task=task, thread=thread, where=self._engine.where())
            number = self._number + 1
            body = packed(self._engine, self._fold.meta, (task, version, number), staged, failed=failed)
            try:
                is_new = store.post(thread, letter_id(task, version, number), body)
            except BaseException:  # whether the letter was stored is unknown, so its number cannot be used again
                self._lose()
                raise
            if not is_new:
                self._lose()
                raise TASK_TAKEN_OVER(task=task, thread=thread, where=self._engine.where())
            self._number = number

    def _lose(self) -> None:
        """Stop reporting and cancel the task."""
        self.lost = True
        self._control.cancel("another worker reported on the task")


@contextlib.contextmanager
def _watched(
    store: Store, thread: str, question: OpenInterrupt, seq: int, control: Control, show: LiveShow | None
) -> Generator[None, None, None]:
    """Cancel the task when the thread no longer waits for it because it was cancelled, failed or abandoned.

    Also hand over what the task shows, if there is a follower.

    Args:
        question: The question with which the task waits.
        seq: Number of the thread's last entry when it was loaded.
        control: Switches of the execution.
        show: Shows the task; None if the store carries no live items.
    """
    over = threading.Event()
    # The store lists open questions by their ids without the thread.
    place = question.id.partition("/")[2]

    def look() -> None:
        """Poll the thread every `POLL_S` seconds, in a worker thread, until the task has ended.

        While there is something to show, poll every `LIVE_S` seconds.
        """
        nonlocal seq
        pause_s = POLL_S
        while not over.wait(pause_s):
            pause_s = POLL_S
            if show is not None and show.look():
                show.flush()
                pause_s = LIVE_S
            with contextlib.suppress(Exception):  # the next poll tries again
                try:
                    head = store.head(thread)
                    waits = head.status in _WAITING
                    if waits and head.seq != seq:  # else nothing has changed since the last poll
                        waits = any(listed.place == place for listed in store.questions(thread))
                        seq = head.seq  # after the poll, which may fail
                except InputError:  # it was deleted
                    waits = False
                if not waits:
                    control.cancel("the thread does not wait for the task any more")
                    return

    if show is not None:
        show.to_be_read()
    watch = threading.Thread(target=look, name="graphrt-task-watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
