"""What a driver does with an error: it is the outcome of the attempt that raised it, or ends the run.

One ladder (`outcome`) for every driver and every way of calling a node:

| Raised | What follows |
|---|---|
| a pause (`Suspended`, alone or in a group) | the task waits for an answer |
| an Exception, CancelledError and GeneratorExit that nothing asked for | the attempt failed |
| a StoreError of a nested graph or a child thread | thrown into the flow: nothing more can be stored |
| a cancellation of the asyncio task that drives the run | thrown into the flow, which records it and raises it again |
| another error, such as KeyboardInterrupt | as a cancellation |
| anything by another effect than a task | thrown into the flow |

What a reply means for the run is decided by the engine. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from graphrt import _retry_policy as retry
from graphrt._cancellations import own_failure, request, unasked
from graphrt._drivers.attempts import is_refusal
from graphrt._drivers.child_threads import ENDS_RUN
from graphrt._drivers.context import Context, Suspended
from graphrt._engine.open_interrupt import OpenInterrupt
from graphrt._engine.questions import drop_open
from graphrt._engine.task import STOPPED, Asked, Failed, Task
from graphrt._flows.effects import Control
from graphrt.errors import GraphrtError, LimitError, StoreError, said
from graphrt.errors._codes.nodes import SWALLOWED_INTERRUPT

if TYPE_CHECKING:
    import asyncio


@final
class Escaped:
    """Reply for a task that raised a BaseException away from the caller, for instance Ctrl-C; the caller raises it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def outcome(
    effect: Any,
    error: BaseException,
    control: Control,
    *,
    context: Context[Any] | None = None,
    caller: asyncio.Task[Any] | None = None,
) -> Any:
    """Return the reply for the attempt that raised *error*, or the exception to raise if *error* is not its outcome.

    Args:
        effect: The Task that was called; of any other effect, no error is an outcome.
        context: The node's context; None if it takes none.
        caller: The asyncio task that the code belongs to; None for code that is not awaited, which nothing cancels.
    """
    task = effect if effect.__class__ is Task else None
    error = parted(error)
    if isinstance(error, Suspended) and task is not None:
        return asked(task, error)
    if not isinstance(error, Exception):
        if is_ended(caller, error):
            request(error)  # so that the flow does not take it for a failure of user code
            return error
        who = "the node" if task is not None else f"code that the run called ({type(effect).__name__})"
        failure = own_failure(error, who)
        if failure is None:
            return error
        error = failure
    if task is None or unstored(task, error):
        return error
    if is_refusal(task, error) or (control.halt is not None and was_cancelled(error)):
        return STOPPED  # the attempt was given up, or the halt cancelled its ctx.call(): the node did not fail
    return failed(error, context)


def failed(error: Exception, context: Context[Any] | None = None) -> Failed:
    """Return the reply for an attempt that raised *error*.

    Args:
        context: The node's context; None if it takes none. Only for the advice.
    """
    advice = ""
    # The context notes "no deps" when the node reads `ctx.deps` and finds None.
    if context is not None and context._kept is not None and "no deps" in context._kept and "NoneType" in said(error):
        advice = "Pass deps= to the run or the Runtime: the node used ctx.deps, which is None because none were passed."
    # `hinted_wait`: the seconds to wait that the error itself asks for, as by Retry-After; None if it does not.
    return Failed(error, retry.hinted_wait(error), raise_as_is=as_it_is(error), advice=advice)


def is_ended(caller: asyncio.Task[Any] | None, error: BaseException) -> bool:
    """Return whether *error* is a request to end the coroutine of a run: its cancellation, or that it was closed.

    Args:
        caller: The asyncio task that the coroutine belongs to; None if it is no coroutine.
    """
    if caller is None or not isinstance(error, unasked()):
        return False
    if not isinstance(error, GeneratorExit):
        return caller.cancelling() > 0
    import asyncio

    try:
        return asyncio.current_task() is not caller  # the coroutine is closed: a node raises only while its task runs
    except RuntimeError:  # there is no loop any more
        return True


def as_it_is(error: Exception) -> bool:
    """Return whether *error* of a node reaches the caller as it is, and not as the cause of a NodeError.

    True for limits of any kind, and for errors that graphrt itself raises about the task, in `ctx` or in the run's
    store, which have the attribute `boundary`.
    """
    return isinstance(error, LimitError) or (isinstance(error, GraphrtError) and bool(error.__dict__.get("boundary")))


def unstored(task: Task, error: Exception) -> bool:
    """Return whether *error* says that the store failed the run, which ends the run and fails no node.

    Drivers pass such an error to the run loop. No retry policy and no `on_error` node applies to it: the thread stays
    as it is stored, and any process can go on with it.

    It is that of a nested graph which could not be stored, or of a child thread which could not be made or read
    (`ENDS_RUN`).
    """
    return isinstance(error, StoreError) and (task.node.child is not None or ENDS_RUN in error.__dict__)


def asked(task: Task, pause: Suspended) -> Asked:
    """Return the reply for an attempt that paused.

    On a thread the question is on the task already. Without a thread it is put into the reply. The engine then refuses
    it: a run without a thread cannot be resumed, so the answer would be lost.

    Args:
        pause: Has the key and the payload of the question as arguments.
    """
    key, payload = pause.args
    if task.engine.thread is None:
        return Asked([OpenInterrupt(f"{task.id}#{key}", key, task.node.name, payload)])
    return Asked([])  # the question is on the task


def was_cancelled(error: Exception) -> bool:
    """Return whether *error* says that the coroutine of `ctx.call()` was cancelled."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    return isinstance(error, LoopCancelledError)


def parted(error: BaseException) -> BaseException:
    """Return the one pause or failure that a group of them means, as raised by an `asyncio.TaskGroup`.

    A failure takes precedence over a pause. Of several pauses the first counts; all of their questions are on the task.
    A group without a pause, or with errors that are neither a pause nor an Exception, is returned as it is, and so is
    an error that is no group.
    """
    if not isinstance(error, BaseExceptionGroup) or isinstance(error, Exception):
        return error
    group: BaseExceptionGroup[BaseException] = error  # pyright: ignore[reportUnknownVariableType]  # of any errors
    pauses, rest = group.split(Suspended)
    if pauses is None or not (rest is None or isinstance(rest, Exception)):
        return group
    if rest is not None:
        return rest
    first: Suspended | BaseExceptionGroup[Suspended] = pauses
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def swallowed(task: Task) -> Failed:
    """Return the reply for a node that caught the pause raised by its own `ctx.interrupt()` and went on: a failure."""
    drop_open(task)  # the attempt failed, and nothing waits for their answers
    error = SWALLOWED_INTERRUPT(node=task.node.name, where=task.engine.where(task))
    return Failed(error, raise_as_is=True)
