"""Error handling of drivers: an error is either the outcome of the attempt that raised it, or ends the run.

The function `outcome` decides this for every driver and every way of calling a node:

| Raised | Consequence |
|---|---|
| a pause (`Suspended`, alone or in a group) | the task waits for an answer |
| an Exception, or an unrequested CancelledError or GeneratorExit | the attempt failed |
| a StoreError of a nested graph or a child thread | thrown into the flow: nothing more can be stored |
| a cancellation of the asyncio task that drives the run | thrown into the flow, which records it and raises it again |
| another error, such as KeyboardInterrupt | as a cancellation |
| anything by another effect than a task | thrown into the flow |

The engine decides the meaning of a reply for the run. For the terms, see docs/glossary.md.
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
    """Reply for a task that raised a BaseException, such as Ctrl-C, outside the caller's thread.

    The caller re-raises it.
    """

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
    """Return the reply for the attempt that raised *error*, or the exception to raise if *error* is not the outcome.

    Args:
        effect: The effect that was performed. Only for a Task can an error be the outcome.
        context: The node's context; None if it takes none.
        caller: The asyncio task that the code belongs to; None for code that is not awaited and so cannot be cancelled.
    """
    task = effect if effect.__class__ is Task else None
    error = parted(error)
    if isinstance(error, Suspended) and task is not None:
        return asked(task, error)
    if not isinstance(error, Exception):
        if is_ended(caller, error):
            request(error)  # so that the flow does not treat it as a failure of user code
            return error
        who = "the node" if task is not None else f"code that the run called ({type(effect).__name__})"
        failure = own_failure(error, who)
        if failure is None:
            return error
        error = failure
    if task is None or unstored(task, error):
        return error
    if is_refusal(task, error) or (control.halt is not None and was_cancelled(error)):
        return STOPPED  # the attempt was abandoned, or the halt cancelled its ctx.call(): the node did not fail
    return failed(error, context)


def failed(error: Exception, context: Context[Any] | None = None) -> Failed:
    """Return the reply for an attempt that raised *error*.

    Args:
        context: The node's context, for the advice only; None if the node takes none.
    """
    advice = ""
    # The context records "no deps" when the node reads `ctx.deps` and it is None.
    if context is not None and context._kept is not None and "no deps" in context._kept and "NoneType" in said(error):
        advice = "Pass deps= to the run or the Runtime: the node used ctx.deps, which is None because none were passed."
    # `hinted_wait` is the number of seconds that the error asks to wait, such as Retry-After, or None.
    return Failed(error, retry.hinted_wait(error), raise_as_is=as_it_is(error), advice=advice)


def is_ended(caller: asyncio.Task[Any] | None, error: BaseException) -> bool:
    """Return whether *error* is a request to end the coroutine of a run: it was cancelled or closed.

    Args:
        caller: The asyncio task that the coroutine belongs to; None if it is not a coroutine.
    """
    if caller is None or not isinstance(error, unasked()):
        return False
    if not isinstance(error, GeneratorExit):
        return caller.cancelling() > 0
    import asyncio

    try:
        # GeneratorExit closes the coroutine: a node raises only while its task runs.
        return asyncio.current_task() is not caller
    except RuntimeError:  # the loop is gone
        return True


def as_it_is(error: Exception) -> bool:
    """Return whether a node's *error* is raised to the caller unchanged, and not as the cause of a NodeError.

    True for limits of any kind, and for errors with the attribute `boundary`, which graphrt itself raises about the
    task in `ctx` or in the run's store.
    """
    return isinstance(error, LimitError) or (isinstance(error, GraphrtError) and bool(error.__dict__.get("boundary")))


def unstored(task: Task, error: Exception) -> bool:
    """Return whether *error* is a store failure that ends the run without failing a node.

    Drivers pass such an error to the run loop. Retry policies and `on_error` nodes do not apply: the thread stays as it
    is stored, and any process can continue it.

    The cause is a nested graph that could not be stored, or a child thread that could not be created or read
    (`ENDS_RUN`).
    """
    return isinstance(error, StoreError) and (task.node.child is not None or ENDS_RUN in error.__dict__)


def asked(task: Task, pause: Suspended) -> Asked:
    """Return the reply for an attempt that paused.

    In a thread, the question is already on the task. Without a thread, the question is put into the reply and the
    engine rejects it, because a run without a thread cannot be resumed and the answer would be lost.

    Args:
        pause: Its arguments are the key and the payload of the question.
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
    """Reduce an exception group, as raised by an `asyncio.TaskGroup`, to the one pause or failure that it means.

    A failure takes precedence over a pause. Of several pauses, the first counts; all of their questions are on the
    task. A group without a pause, or with errors that are neither a pause nor an Exception, is returned unchanged, and
    so is an error that is not a group.
    """
    if not isinstance(error, BaseExceptionGroup) or isinstance(error, Exception):
        return error
    group: BaseExceptionGroup[BaseException] = error  # pyright: ignore[reportUnknownVariableType]  # of any errors
    pauses, other_errors = group.split(Suspended)
    if pauses is None or not (other_errors is None or isinstance(other_errors, Exception)):
        return group
    if other_errors is not None:
        return other_errors
    first: Suspended | BaseExceptionGroup[Suspended] = pauses
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def swallowed(task: Task) -> Failed:
    """Return the reply for a node that caught the pause raised by its own `ctx.interrupt()` and continued: a failure."""
    drop_open(task)  # the attempt failed, so nothing waits for the answers
    error = SWALLOWED_INTERRUPT(node=task.node.name, where=task.engine.where(task))
    return Failed(error, raise_as_is=True)
