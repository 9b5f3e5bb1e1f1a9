"""Runs that their caller does not drive (rule R20): starting them, waiting for them, and handing them over.

A run is *detached* by releasing the thread in the run's first commit. The thread then has the status "running" and no
owner, just as after the death of its process. So it is due, and a worker needs nothing beyond the mechanism that
recovers threads.

`Pauses` gives the lengths of the waits between polls of a thread; they grow while nothing happens. `release_now`
releases a claim that this process earlier failed to release, which would make the thread look driven.

Everything here only reads or writes the store, so it works the same whichever process drives the thread. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

from graphrt._engine.failures import progress
from graphrt._journal.leases import release_now
from graphrt._runs import open_run, reopen_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.if_exists import IfExists, Present, check_if_exists
from graphrt._runs.inspection import last_failure
from graphrt._runs.loading import exists, folded, the_store
from graphrt._runs.mail import has_answers, has_input, leave_answers, leave_input
from graphrt._runs.reopen_run import take_mail
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.undriven import Undriven
from graphrt._runs.watching import Call, Pauses, is_over, is_settled, waits_for
from graphrt.commands import UNSET
from graphrt.errors import ConflictError, InputError
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, INVALID_ARGUMENT
from graphrt.errors._codes.threads import NOT_ENDED_YET, RUN_FAILED_ELSEWHERE
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Labels, StoredThread


def start(
    config: RunConfig,
    input_: Any,
    thread: str | None,
    answers: Any,
    answer: Any,
    labels: Labels | None,
    *,
    if_exists: IfExists,
    while_running: Any,
) -> str:
    """Store the first commit of a run and return the thread's id; see `Runtime.start`.

    Args:
        input_: The input, unchecked; UNSET continues the thread, with the answers if there are any.
        thread: None generates an id.
        answers: Answers by interrupt id, or the only answer; UNSET without any.
        answer: The only answer; UNSET without one.
        labels: Title, tags and priority for the thread; None leaves them unchanged.
        if_exists: What to do with the input if the thread exists, unchecked.
        while_running: One of `WHILE_RUNNING`, unchecked.

    Raises:
        InputError: An argument is wrong, or the thread needs another verb.
        ConflictError: Another process drives the thread, and there are no answers, or the store keeps no mail.
    """
    store = the_store(config)
    if while_running not in WHILE_RUNNING:
        raise INVALID_ARGUMENT(
            argument="while_running=",
            value=while_running,
            wanted="'queue' to run the input after the run in progress, 'abandon' to give that run up, or 'refuse'",
            where=config.plan.place(),
        )
    check_if_exists(config, if_exists, input_, thread)
    if while_running != "refuse" and (input_ is UNSET or if_exists in ("continue", "return")):
        raise ARGUMENT_NEEDS_ANOTHER(
            argument=f"while_running={while_running!r}",
            missing="an input that the thread takes: if_exists='update' or 'abandon'",
            where=config.plan.place(),
        )
    if thread is not None and while_running != "refuse" and _post(config, store, thread, input_, labels, while_running):
        return thread
    if while_running == "abandon":  # no run is active: what the last one left undone is given up
        if_exists = "abandon"
    if if_exists == "return" and thread is not None:
        while not exists(store, check_id(thread)) and start_new(config, input_, thread, labels) is None:
            sleep(_CREATED_S)  # until the first commit of the process that is creating it
        return thread
    answered = input_ is UNSET and not (answers is UNSET and answer is UNSET)
    try:
        # An answer that was accepted as mail counts, also if the run that was to take it has ended without doing so.
        if answered and thread is not None and "mail" in store.offers and has_answers(store, check_id(thread)):
            take_mail(config, thread)
        opened = reopen_run.on_either(config, input_, thread, answers, answer, labels, if_exists=if_exists)
    except Present:  # with "continue": the thread is finished, or waits for an answer
        assert thread is not None  # noqa: S101 - only a named thread can exist
        return thread
    except ConflictError:  # another process drives the thread: all that can be done is to send it answers
        if thread is None or (answers is UNSET and answer is UNSET) or "mail" not in store.offers:
            raise
        leave_answers(config, thread, answers, answer)  # as mail for the current owner or the next one
        return thread
    id_ = opened.services.thread
    assert id_ is not None  # noqa: S101 - there is a store
    opened.hand_over()
    return id_


_CREATED_S: Final = 0.01
"""Seconds between two looks at a thread that another process is creating."""
WHILE_RUNNING: Final = ("refuse", "queue", "abandon")
"""How to handle an input while a run of its thread is active: refuse it with a ConflictError, queue it until that run
ends, or abandon that run and start the next one."""


def _post(config: RunConfig, store: Store, thread: str, input_: Any, labels: Labels | None, policy: str) -> bool:
    """Post the input as mail to *thread* if a run is in progress or other inputs are queued; return False if not.

    Args:
        policy: "queue" or "abandon", as in `WHILE_RUNNING`.

    Raises:
        InputError: The store keeps no mail (`store-lacks`), or the input does not fit.
    """
    store.require("mail")
    if not exists(store, check_id(thread)):
        return False
    release_now(store, thread)
    head = store.head(thread)
    # A paused thread takes the input once the run that continues after the answer has completed. Inputs queued earlier
    # go first, even if their run has not started yet.
    queues = policy == "queue" and (
        head.status == "interrupted" or (head.status in ("completed", "cancelled") and has_input(store, thread))
    )
    if is_settled(head) and not queues:
        return False  # as without a policy: the run starts now, or the thread's status requires another verb
    leave_input(config, head, input_, labels, abandon=policy == "abandon")
    if head.status == "cancelled":  # no worker picks it up: start the run of the input that was queued first
        take_mail(config, thread)
    return True


def start_new(config: RunConfig, input_: Any, thread: str, labels: Labels | None) -> str | None:
    """Start a new thread and return its id; None if another process has created it meanwhile.

    Used by schedules, and by `start` with `if_exists="return"`.

    Args:
        input_: The input, unchecked.
        labels: Title and tags; None without any.
    """
    try:
        open_run.begin(config, input_, thread, if_exists="return", labels=labels).hand_over()
    except (Present, ConflictError):  # it has a result (`Present` would carry it), or is being created or driven
        return None
    except InputError as error:
        if error.code != "wrong-verb":
            raise
        # Its status is "running" (it was started and has no driver yet) or "failed": it exists, in any case.
        return None
    return thread


# -- waiting -------------------------------------------------------------------------------------------------------


def wait(config: RunConfig, thread: str, timeout_s: float | None) -> RunResult[Any]:
    """Block until the thread has no active run, and return its result; see `Runtime.wait`."""
    until, pauses, undriven = _deadline(config, timeout_s), Pauses(), Undriven(config, thread)
    while True:
        result = present_result(config, thread)
        if result is not None:
            return result
        undriven.look()
        sleep(_pause_s(config, thread, until, timeout_s, pauses))


async def await_(config: RunConfig, thread: str, timeout_s: float | None, call: Call) -> RunResult[Any]:
    """Wait on the running event loop until the thread has no active run, and return its result; see `wait`.

    Args:
        call: Runs a call that may block, such as any call of the store, on a worker thread.
    """
    from asyncio import sleep as asleep

    until, pauses, undriven = _deadline(config, timeout_s), Pauses(), Undriven(config, thread)

    def look() -> RunResult[Any] | None:
        """Poll the thread once: the loop body of `wait`, in one call on a worker thread."""
        result = present_result(config, thread)
        if result is None:
            undriven.look()
        return result

    while True:
        result: RunResult[Any] | None = await call(look)
        if result is not None:
            return result
        # Through *call*, since it reads the store when the wait times out.
        await asleep(await call(lambda: _pause_s(config, thread, until, timeout_s, pauses)))


def _deadline(config: RunConfig, timeout_s: float | None) -> float:
    """Return the monotonic time at which a wait of *timeout_s* from now ends; infinity for None.

    Raises:
        InputError: It is not a number of seconds.
    """
    seconds: Any = timeout_s
    if seconds is None:
        return float("inf")
    # A bool is an int in Python. The comparison refuses NaN too.
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise INVALID_ARGUMENT(
            argument="timeout_s=",
            value=seconds,
            wanted="seconds from 0, such as timeout_s=30, or None to wait without a limit",
            where=config.plan.place(),
        )
    return monotonic() + seconds


def _pause_s(config: RunConfig, thread: str, until: float, timeout_s: float | None, pauses: Pauses) -> float:
    """Return how many seconds to wait before the next poll of the thread.

    Args:
        until: Monotonic time at which the wait ends.
        timeout_s: The timeout passed to `wait`, for the error.

    Raises:
        WaitTimeoutError: The wait timed out. The error says what the thread waits for, or whether it is driven.
    """
    left_s = until - monotonic()
    if left_s <= 0:
        store = the_store(config)
        head = store.head(thread)
        nobody = f"nobody drives it: is a Worker with this version of graph {head.graph!r} running?"
        driver = "a living owner drives it" if head.owned else nobody
        driver = waits_for(store, head) or driver  # describes what a paused thread waits for; empty for others
        raise NOT_ENDED_YET(thread=thread, timeout_s=timeout_s, seq=head.seq, driver=driver)
    return min(pauses.next_s(), left_s)


def present_result(config: RunConfig, thread: str, *, paused: bool = False) -> RunResult[Any] | None:
    """Return the result of a thread without an active or upcoming run; None while there is one.

    Args:
        paused: Whether a thread that will continue by itself (settled, but not over) also has a result.

    Raises:
        RunFailedError: The run failed.
        InputError: There is no such thread.
    """
    store = the_store(config)
    check_id(thread)
    release_now(store, thread)
    head = store.head(thread)
    if not (is_settled(head) if paused else is_over(store, head)):
        return None
    loaded, kept_state = config.kept.load(store, thread)
    if not is_settled(loaded.head):  # another process has begun to drive it since the first check
        return None
    if loaded.head.status == "failed":
        raise _failed(config, thread, loaded)
    fold = folded(config, loaded, kept_state)
    # A `RunResult` is built from a run. This run has no claim, never executes, and takes the id of the thread's last
    # run.
    seen = ActiveRun(config, fold.engine, None)
    seen.services._run_id = fold.run
    return RunResult(fold.engine, seen.services, loaded.head.status)


def _failed(config: RunConfig, thread: str, loaded: StoredThread) -> Exception:
    """Return the error that describes how the thread's last run failed and the progress of its superstep."""
    seq, event = loaded.head.seq, last_failure(config, thread)
    counts = progress(folded(config, loaded).engine)
    done = f"; {counts[0]} of {counts[1]} tasks done" if counts is not None and counts[1] > 1 else ""
    if event is None:
        error, message, node = "an error", "its entry was pruned", None
    else:
        error, message, node = event.error, event.message.rstrip("."), event.node
    return RUN_FAILED_ELSEWHERE(thread=thread, error=error, message=message, node=node, seq=seq, done=done)


# -- handing threads over ------------------------------------------------------------------------------------------


def hand_over(config: RunConfig, reason: str, grace_s: float) -> int:
    """End all runs of the runtime, leaving their threads due, and return how many there were.

    The runs may first finish their open supersteps (`hand_over_all`). After *grace_s* seconds their tasks are cancelled
    and stay due (`interrupt_all`). See `Runtime.hand_over`.
    """
    number, until = _asked_to_hand_over(config, reason, grace_s), monotonic() + grace_s
    _wait_for_end(config, until, partial(config.active.hand_over_all, reason))
    _wait_for_end(config, monotonic() + _stopping_s(config), partial(config.active.interrupt_all, reason))
    return number


async def ahand_over(config: RunConfig, reason: str, grace_s: float) -> int:
    """Like `hand_over`, without blocking the event loop, which may be driving these runs."""
    number, until = _asked_to_hand_over(config, reason, grace_s), monotonic() + grace_s
    await _await_end(config, until, partial(config.active.hand_over_all, reason))
    await _await_end(config, monotonic() + _stopping_s(config), partial(config.active.interrupt_all, reason))
    return number


def _wait_for_end(config: RunConfig, until: float, ask: Callable[[], None]) -> None:
    """Wait until no run is active, or until the monotonic time *until*.

    Each poll calls *ask*, which asks the runs to end.

    A run is active until its last commit is stored (`active.going_on` counts the runs that may still write). A run that
    another worker thread is opening is not yet among the active runs, so a single request would miss it.
    """
    pauses = Pauses()
    while config.active.going_on and (left_s := until - monotonic()) > 0:
        ask()
        sleep(min(pauses.next_s(), left_s))


async def _await_end(config: RunConfig, until: float, ask: Callable[[], None]) -> None:
    """Like `_wait_for_end`, without blocking the event loop."""
    from asyncio import sleep as asleep

    pauses = Pauses()
    # Runs end in other threads too, which cannot set an event of this loop.
    while config.active.going_on and (left_s := until - monotonic()) > 0:
        ask()
        await asleep(min(pauses.next_s(), left_s))


def _asked_to_hand_over(config: RunConfig, reason: str, grace_s: float) -> int:
    """Check *grace_s*, ask all runs to hand over after their supersteps, and return how many are still active.

    Raises:
        InputError: *grace_s* is not a number of seconds.
    """
    seconds: Any = grace_s
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise INVALID_ARGUMENT(argument="grace_s=", value=seconds, wanted="seconds from 0")
    number = config.active.going_on
    config.active.hand_over_all(reason)
    return number


def _stopping_s(config: RunConfig) -> float:
    """Return how many seconds to wait for runs whose tasks were cancelled.

    A cancelled run itself waits up to `Limits.grace_s` for sync tasks, since those cannot be interrupted.
    """
    return config.limits.grace_s + 1.0
