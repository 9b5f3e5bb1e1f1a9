"""Run one node and translate its outcome into a reply for the engine, in a sync and an async version.

What a reply means for the run is decided by `Engine.report`. Called by drivers only, once for each attempt of a task.
Retries and timeouts of sync nodes do not belong here.

The private loop thread runs async code under a sync run. A *watcher* is told when attempts begin and end, for
telemetry; `live` is a stream mode that shows the same to users. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Awaitable, Callable
from threading import get_ident
from types import CoroutineType
from typing import TYPE_CHECKING, Any, final

from graphrt import _retry_policy as retry
from graphrt._ambient import NODE, WATCHER, WithoutContext
from graphrt._drivers.attempt_times import AttemptTime, is_timed
from graphrt._drivers.child_threads import ENDS_RUN
from graphrt._drivers.context import Context, Suspended
from graphrt._drivers.run_services import RunServices, monotonic
from graphrt._engine.open_interrupt import OpenInterrupt
from graphrt._engine.task import STOPPED, Asked, Failed, Task, TimedOut
from graphrt._flows.child import nested
from graphrt._flows.effects import Flow
from graphrt._flows.live import live
from graphrt._waits import result_of
from graphrt.commands import Interrupt
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


def invoke(services: RunServices, task: Task, drive: Callable[[Flow, Task], Any], *, is_watched: bool = False) -> Any:
    """Run the node of *task* in this thread. An async node runs on the private loop thread while this one waits.

    Args:
        services: What the tasks of the run share.
        task: The task to run.
        drive: Drives the flow of a nested graph, if that is the body of the task, and returns its reply.
        is_watched: Whether the run's watcher, if there is one, knows of the attempt already.

    Returns:
        The reply, for `Engine.report`.

    Raises:
        StoreError: A nested graph could not store what it did, or a child thread could not be made or read.
        BaseException: The node raised an error that is not an Exception, for instance KeyboardInterrupt.
    """
    node = task.node
    if services.watcher is not None and not is_watched and not node.is_async:  # else `ainvoke` reports to it
        return watched(services, task, drive)
    if services.control.live and not node.is_async:  # else `ainvoke` shows it
        started_live(services, task)
    if node.child is not None:
        return drive(nested(task, services.control), task)
    if node.is_async:
        return on_loop(services, task)
    started = monotonic() if services.timed else 0.0  # steps show durations; 0.0: not measured
    context = Context(services, task, get_ident()) if node.wants_context else None
    key: Any = None
    token = NODE.set(
        WithoutContext(services, task) if context is None else context
    )  # agents that the node calls find it there
    try:
        if node.cache is not None:  # option `cache=` of the node: equal inputs give the stored result
            key = node.cache.key(node.name, task)
            known, reply = node.cache.get(key)
            if known:
                return reply
        reply = node.fn(task.state) if context is None else node.fn(task.state, context)
    except Suspended as pause:
        return asked(task, pause)
    except Exception as error:
        if unstored(task, error):
            raise
        if context is not None:
            # The halt cancelled what the node waited for in ctx.call(), which only sync nodes have: it did not fail.
            if services.control.halt is not None and was_cancelled(error):
                return STOPPED
            context._failed_sync(error)  # cancels the model calls that it left behind
        return failed(error, context)
    except BaseExceptionGroup as group:  # of pauses, and perhaps failures: see `parted`
        meant = parted(group)
        if isinstance(meant, Suspended):
            return asked(task, meant)
        if context is not None:
            context._failed_sync(meant)
        return failed(meant, context)
    except BaseException as error:
        failure = own_failure(error)
        if failure is None:
            raise
        if context is not None:
            context._failed_sync(failure)
        return Failed(failure)
    finally:
        NODE.reset(token)
        if context is not None:
            context._done = True  # model calls of code that the node left behind are refused from now on
        if started:
            task.duration_s = monotonic() - started
    if node.cache is not None:
        node.cache.put(key, reply)
    if context is not None and context._suspended:  # it asked a question, and yet it returned
        return swallowed(task)
    # `_charged` marks a reply whose model calls count against a token budget in the state. Only a context that has kept
    # something (`_kept`) can have made calls.
    return reply if context is None or context._kept is None else context._charged(reply)


def watched(services: RunServices, task: Task, drive: Callable[[Flow, Task], Any]) -> Any:
    """Do as `invoke` does, and report to the run's watcher when the attempt begins and ends."""
    watcher = services.watcher
    assert watcher is not None  # noqa: S101 - the caller checked
    token = WATCHER.set(watcher)
    reply: Any = STOPPED  # what stays if the attempt raises
    end = watcher.attempt(task.id, task.node.name, task.attempt)  # returns what to call at the end
    try:
        reply = invoke(services, task, drive, is_watched=True)
        return reply
    finally:
        end(*outcome_of(reply))
        WATCHER.reset(token)


async def awatched(services: RunServices, task: Task, drive: Callable[[Flow, Task], Awaitable[Any]] | None) -> Any:
    """Do as `ainvoke` does, and report to the run's watcher when the attempt begins and ends; the twin of `watched`."""
    watcher = services.watcher
    assert watcher is not None  # noqa: S101 - the caller checked
    token = WATCHER.set(watcher)
    reply: Any = STOPPED  # what stays if the attempt raises
    end = watcher.attempt(task.id, task.node.name, task.attempt)
    try:
        reply = await ainvoke(services, task, drive, is_watched=True)
        return reply
    finally:
        end(*outcome_of(reply))
        WATCHER.reset(token)


def outcome_of(reply: Any) -> tuple[str, str | None]:
    """Return how an attempt with *reply* ended, in the form for a `RunWatcher`: a word, and the class of an error."""
    match reply:
        case Failed():
            return "error", type(reply.error).__name__
        case TimedOut():
            return "error", "TimeoutError"
        case Asked() | Interrupt():
            return "interrupted", None
        case _:
            return ("stopped" if reply is STOPPED else "success"), None


def started_live(services: RunServices, task: Task) -> None:
    """Show on the stream mode `live` that an attempt of *task* starts."""
    if services.emit is not None:
        services.emit("live", live(task, "started", task.attempt))


def finish(services: RunServices, coroutine: Any) -> Any:
    """Run a coroutine that a plain function returned on the private loop thread, and return the reply of its task.

    The sync driver performs `Await` by this: only `async def` marks a node as async, so it was called as a sync one.
    """

    async def body() -> Any:
        """Await it on the loop thread."""
        return await afinish(coroutine)

    return services.loop().run(body)


async def afinish(coroutine: Any) -> Any:
    """Await a coroutine that a plain function returned, and return its task's reply; performs `Await` on a loop."""
    try:
        return await coroutine
    except Exception as error:  # noqa: BLE001 - whatever a node raises is its outcome
        return failed(error)


def on_loop(services: RunServices, task: Task) -> Any:
    """Run an async node on the private loop thread and wait for its reply, which is STOPPED if a halt cancelled it."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    running = services.loop().submit(lambda: ainvoke(services, task, None))  # None: it drives no nested graph
    control = services.control
    control.on_halt.append(running.cancel)
    try:
        if control.halt is not None:  # it may have been set before the callback was registered
            running.cancel()
        return result_of(running.result)
    except LoopCancelledError:
        return STOPPED
    except BaseException:
        if not running.result.done():  # Ctrl-C while waiting: the node must end before the run does
            running.cancel()
            running.wait()
        raise
    finally:
        control.on_halt.remove(running.cancel)


async def ainvoke(
    services: RunServices,
    task: Task,
    drive: Callable[[Flow, Task], Awaitable[Any]] | None,
    *,
    is_watched: bool = False,
) -> Any:
    """Run the node of *task* on the running loop and return its reply, as `invoke` does.

    Args:
        services: What the tasks of the run share.
        task: The task to run.
        drive: Drives the flow of a nested graph, and returns its reply; None where only async nodes are run, that is on
            the private loop, since a sync run drives nested graphs in the thread of their task.
        is_watched: As for `invoke`.

    Raises:
        CancelledError: The surrounding asyncio task was cancelled.
        StoreError: A nested graph could not store what it did, or a child thread could not be made or read.
        BaseException: The node raised an error that is not an Exception.
    """
    import asyncio

    node = task.node
    if services.watcher is not None and not is_watched:
        return await awatched(services, task, drive)
    if services.control.live:
        started_live(services, task)
    started = monotonic() if services.timed else 0.0  # steps show durations
    caller = asyncio.current_task()
    context = Context(services, task, caller) if node.wants_context else None
    key: Any = None
    limit: asyncio.Timeout | None = None
    time: AttemptTime | None = None
    token = NODE.set(WithoutContext(services, task) if context is None else context)
    try:
        if node.child is not None and drive is not None:
            return await drive(nested(task, services.control), task)
        if node.cache is not None:
            key = node.cache.key(node.name, task)
            known, reply = node.cache.get(key)
            if known:
                return reply
        if not is_timed(task):
            reply = node.fn(task.state) if context is None else node.fn(task.state, context)
            # The exact class first: isawaitable() is slow, and nearly every reply here is a coroutine.
            if reply.__class__ is CoroutineType or inspect.isawaitable(reply):
                reply = await reply
        else:
            loop = asyncio.get_running_loop()
            time = task.more().time = AttemptTime(task, loop.time)
            async with _timeout(loop, time) as limit:
                reply = await _called(task, context)
    except Suspended as pause:
        return asked(task, pause)
    except (asyncio.CancelledError, GeneratorExit) as error:
        failure = own_failure(error)
        if failure is None or is_ended(caller, error):  # the run halts, or its event loop is over
            raise
        if context is not None:
            await context._failed(failure)
        return Failed(failure)
    except TimeoutError as error:
        # asyncio.timeout() and the node raise the same class: only the former makes `limit` expire.
        if time is not None and limit is not None and limit.expired():
            return time.reply()
        if context is not None:
            await context._failed(error)
        return failed(error, context)
    except Exception as error:
        if unstored(task, error):
            raise
        if context is not None:
            await context._failed(error)  # cancels the model calls that it left behind
        return failed(error, context)
    except BaseExceptionGroup as group:  # of pauses, and perhaps failures
        meant = parted(group)
        if isinstance(meant, Suspended):
            return asked(task, meant)
        if context is not None:
            await context._failed(meant)
        return failed(meant, context)
    finally:
        NODE.reset(token)
        if context is not None:
            context._done = True
        if services.timed:
            task.duration_s = monotonic() - started
    if node.cache is not None:
        node.cache.put(key, reply)
    if context is not None and context._suspended:
        return swallowed(task)
    return reply if context is None or context._kept is None else context._charged(reply)


def failed(error: Exception, context: Context | None = None) -> Failed:
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


def own_failure(error: BaseException) -> RuntimeError | None:
    """Return the failure of a node that raised CancelledError or GeneratorExit by itself; None if *error* is another one.

    The node may have awaited a task that it had cancelled, or a library's cancel scope leaks; or it has closed one of its
    generators wrongly. Such an error is a failure like any other. A cancellation is a request to an asyncio task, and
    sync code is never cancelled by this error; GeneratorExit closes a generator from outside, and a node is none.

    Every other error that is not an Exception ends the run as cancelled, and is raised as it is: it is meant for a
    program around the run, as KeyboardInterrupt is, or the outcome of a test in a function that the test passes in.
    """
    asyncio = sys.modules.get("asyncio")  # not imported here: runs without async nodes do without it
    if isinstance(error, GeneratorExit):
        failure = RuntimeError("the node raised GeneratorExit although nothing closed it")
    elif asyncio is not None and isinstance(error, asyncio.CancelledError):
        failure = RuntimeError("the node raised CancelledError although it had not been cancelled")
    else:
        return None
    failure.__cause__ = error
    return failure


def is_ended(caller: asyncio.Task[Any] | None, error: BaseException) -> bool:
    """Return whether *error*, a CancelledError or GeneratorExit, ends the coroutine of a run, and is not one of a node.

    Args:
        caller: The asyncio task that the coroutine belongs to.
    """
    import asyncio

    if not isinstance(error, GeneratorExit):
        return caller is not None and caller.cancelling() > 0
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


async def _called(task: Task, context: Context[Any] | None) -> Any:
    """Call the function of the task's node, and return its result or that of what it returned to be awaited."""
    reply = task.node.fn(task.state) if context is None else task.node.fn(task.state, context)
    return await reply if inspect.isawaitable(reply) else reply


def _timeout(loop: asyncio.AbstractEventLoop, time: AttemptTime) -> asyncio.Timeout:
    """Return the timeout of an async node on *loop*, which follows *time* when the node gives signs of life."""
    import asyncio

    limit = asyncio.timeout_at(time.until)

    def move() -> None:
        """Move the timeout, on the loop."""
        with contextlib.suppress(RuntimeError):  # it has expired, or the node has returned
            limit.reschedule(time.until)

    def moved() -> None:
        """Have the timeout moved, on any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(move)

    time.moved = moved
    return limit


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


def parted(group: BaseExceptionGroup[BaseException]) -> Suspended | Exception:
    """Return the one pause or failure that a group of them means, as raised by an `asyncio.TaskGroup`.

    A failure takes precedence over a pause. Of several pauses the first counts; all of their questions are on the task.

    Raises:
        BaseExceptionGroup: The group contains no pause, or errors that are neither a pause nor an Exception.
    """
    pauses, rest = group.split(Suspended)
    if pauses is None or not (rest is None or isinstance(rest, Exception)):
        raise group
    if rest is not None:
        return rest
    first: Suspended | BaseExceptionGroup[Suspended] = pauses
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def swallowed(task: Task) -> Failed:
    """Return the reply for a node that caught the pause raised by its own `ctx.interrupt()` and went on: a failure."""
    extra = task.more()
    # Its open questions are dropped: the attempt failed, and nothing waits for their answers.
    extra.interrupts = [question for question in extra.interrupts if not question.open]
    error = SWALLOWED_INTERRUPT(node=task.node.name, where=task.engine.where(task))
    return Failed(error, raise_as_is=True)
