"""Run one node and convert its outcome to a reply for the engine, in a sync and an async version.

`Engine.report` decides the meaning of a reply for the run. Called by drivers only, once for each attempt of a task.
Retries and timeouts of sync nodes do not belong here.

The private loop thread runs async code for a sync run. A *watcher* is notified when attempts begin and end, for
telemetry; the stream mode `live` shows the same to users. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable
from threading import get_ident
from types import CoroutineType
from typing import TYPE_CHECKING, Any, final

from graphrt._ambient import ENDED, SURROUNDINGS, WithoutContext, entered, inside, surroundings
from graphrt._drivers.attempt_times import AttemptTime, is_timed
from graphrt._drivers.attempts import TIMED_OUT, Attempt, give_up, is_refusal
from graphrt._drivers.context import Context
from graphrt._drivers.failures import outcome, swallowed
from graphrt._drivers.run_services import RunServices, RunWatcher, monotonic
from graphrt._engine.task import STOPPED, Asked, Failed, Task, TimedOut
from graphrt._flows.child import nested
from graphrt._flows.effects import Await, Flow
from graphrt._flows.live import live
from graphrt._waits import result_of
from graphrt.commands import Interrupt

if TYPE_CHECKING:
    import asyncio


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
        StoreError: A nested graph could not be stored, or a child thread could not be created or read.
        BaseException: The node raised an error that is not an Exception, for instance KeyboardInterrupt.
    """
    node = task.node
    if services.watcher is not None and not is_watched and not node.is_async:  # else `ainvoke` reports to it
        with _Watched(services.watcher, task) as watched:
            watched.reply = invoke(services, task, drive, is_watched=True)
        return watched.reply
    if services.control.live and not node.is_async:  # else `ainvoke` publishes it
        started_live(services, task)
    if node.child is not None:
        attempt = Attempt(services.control, task, surroundings().attempt)
        try:
            with inside(attempt=attempt):
                return drive(nested(task, services.control), task)
        finally:
            attempt._end(task)
    if node.is_async:
        return on_loop(services, task)
    started = monotonic() if services.timed else 0.0  # steps show durations; 0.0: not measured
    ambient = surroundings()
    context = Context(services, task, get_ident(), ambient.attempt) if node.wants_context else None
    key: Any = None
    node_context = WithoutContext(services, task) if context is None else context
    # Agents that the node calls find it there. Inlined `entered`, to save a call.
    if services.watcher is None:
        token = SURROUNDINGS.set(ambient.replaced(node=node_context))
    else:
        token = SURROUNDINGS.set(ambient.replaced(node=node_context, watcher=services.watcher))
    try:
        if node.cache is not None:  # the node's option `cache=`: equal inputs return the stored result
            key = node.cache.key(node.name, task)
            known, reply = node.cache.get(key)
            if known:
                return reply
        reply = node.fn(task.state) if context is None else node.fn(task.state, context)
    except BaseException as error:
        reply = outcome(task, error, services.control, context=context)
        if isinstance(reply, BaseException):  # not the outcome of the node
            raise
        if context is not None and reply.__class__ is Failed:
            context._failed_sync(reply.error)  # cancels its remaining model calls
        return reply
    finally:
        SURROUNDINGS.reset(token)
        if context is not None:
            if task.running is context:  # inlined `_end`, to save a call: the context refuses actions from now on
                task.running = None
            if context._reason is None:
                context._reason = ENDED
        if started:
            task.duration_s = monotonic() - started
    if node.cache is not None:
        node.cache.put(key, reply)
    if context is not None and context._suspended:  # it asked a question but returned nevertheless
        return swallowed(task)
    # `_charged` marks a reply whose model calls count against a token budget in the state. Only a context with cached
    # values (`_kept`) can have made calls.
    return reply if context is None or context._kept is None else context._charged(reply)


@final
class _Watched:
    """Reports the begin and the outcome of the attempt inside the `with` block to the run's watcher."""

    __slots__ = ("_end", "reply")

    def __init__(self, watcher: RunWatcher, task: Task) -> None:
        self._end = watcher.attempt(task.id, task.node.name, task.attempt)
        self.reply: Any = STOPPED
        """The reply of the attempt; this default remains if it raises."""

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(*outcome_of(self.reply))


def outcome_of(reply: Any) -> tuple[str, str | None]:
    """Return the outcome of an attempt with *reply* for a `RunWatcher`: a word, and the class of an error."""
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
    """Publish in the stream mode `live` that an attempt of *task* starts."""
    if services.emit is not None:
        services.emit("live", live(task, "started", task.attempt), task)


def finish(services: RunServices, effect: Await) -> Any:
    """Run a coroutine that a plain function returned on the private loop thread, and return the task's reply.

    The sync driver performs `Await` with this. Only `async def` marks a node as async, so this one was called as a sync
    node.
    """

    async def body() -> Any:
        """Await it on the loop thread."""
        return await afinish(services, effect)

    return services.loop().run(body)


async def afinish(services: RunServices, effect: Await) -> Any:
    """Await a coroutine that a plain function returned, and return the task's reply. Performs `Await` on a loop."""
    import asyncio

    caller = asyncio.current_task()
    try:
        return await effect.coroutine
    except BaseException as error:
        reply = outcome(effect.task, error, services.control, caller=caller)
        if isinstance(reply, BaseException):
            raise
        return reply


def on_loop(services: RunServices, task: Task) -> Any:
    """Run an async node on the private loop thread and wait for its reply: STOPPED if a halt cancelled it."""
    from graphrt._drivers.loop_thread import LoopCancelledError

    # None, because it does not drive nested graphs.
    running = services.loop().submit(lambda: ainvoke(services, task, None))
    control = services.control
    control.on_halt.append(running.cancel)
    try:
        if control.halt is not None:  # the halt may have come before the callback was registered
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
        services: Services shared by the tasks of the run.
        task: The task to run.
        drive: Drives the flow of a nested graph, and returns its reply. None on the private loop, where only async
            nodes run: a sync run drives nested graphs in the thread of their task.
        is_watched: As for `invoke`.

    Raises:
        CancelledError: The surrounding asyncio task was cancelled.
        StoreError: A nested graph could not be stored, or a child thread could not be created or read.
        BaseException: The node raised an error that is not an Exception.
    """
    import asyncio

    node = task.node
    if services.watcher is not None and not is_watched:
        with _Watched(services.watcher, task) as watched:
            watched.reply = await ainvoke(services, task, drive, is_watched=True)
        return watched.reply
    if services.control.live:
        started_live(services, task)
    started = monotonic() if services.timed else 0.0  # steps show durations
    caller = asyncio.current_task()
    ambient = surroundings()
    context = Context(services, task, caller, ambient.attempt) if node.wants_context else None
    key: Any = None
    limit: asyncio.Timeout | None = None
    time: AttemptTime | None = None
    token = entered(WithoutContext(services, task) if context is None else context, services.watcher, ambient)
    attempt: Attempt | None = context
    try:
        if node.child is not None and drive is not None:
            attempt = Attempt(services.control, task, ambient.attempt)
            with inside(attempt=attempt):
                return await drive(nested(task, services.control), task)
        if node.cache is not None:
            key = node.cache.key(node.name, task)
            known, reply = node.cache.get(key)
            if known:
                return reply
        if not is_timed(task):
            reply = node.fn(task.state) if context is None else node.fn(task.state, context)
            # Test the exact class first: isawaitable() is slow, and nearly every reply here is a coroutine.
            if reply.__class__ is CoroutineType or inspect.isawaitable(reply):
                reply = await reply
        else:
            loop = asyncio.get_running_loop()
            time = AttemptTime(task, loop.time)
            limit = _timeout(loop, time)
            if attempt is not None:
                attempt._bound(limit)
            async with limit:
                reply = await _called(task, context)
            if limit.expired():  # the node swallowed its cancellation, so its result is too late
                give_up(task, TIMED_OUT)
                return time.reply()
    except BaseException as error:
        # asyncio.timeout() and the node raise the same class, but only the former makes `limit` expire.
        if time is not None and limit is not None and limit.expired() and _is_late(task, error):
            give_up(task, TIMED_OUT)  # cancels the work that it started
            return time.reply()
        reply = outcome(task, error, services.control, context=context, caller=caller)
        if isinstance(reply, BaseException):  # not the outcome of the node
            raise
        if context is not None and reply.__class__ is Failed:
            await context._failed(reply.error)
        return reply
    finally:
        SURROUNDINGS.reset(token)
        if attempt is not None:
            attempt._end(task)
        if services.timed:
            task.duration_s = monotonic() - started
    if node.cache is not None:
        node.cache.put(key, reply)
    if context is not None and context._suspended:
        return swallowed(task)
    return reply if context is None or context._kept is None else context._charged(reply)


def _is_late(task: Task, error: BaseException) -> bool:
    """Return whether a node's *error* is a timeout: reported by asyncio, or because `ctx` refused to act."""
    return isinstance(error, TimeoutError) or is_refusal(task, error)


async def _called(task: Task, context: Context[Any] | None) -> Any:
    """Call the function of the task's node, and return its result. If that is awaitable, it is awaited."""
    reply = task.node.fn(task.state) if context is None else task.node.fn(task.state, context)
    return await reply if inspect.isawaitable(reply) else reply


def _timeout(loop: asyncio.AbstractEventLoop, time: AttemptTime) -> asyncio.Timeout:
    """Return the timeout of an async node on *loop*.

    With `idle_timeout_s`, each sign of life (`ctx.heartbeat`, a piece of a model's reply) moves `time.until`, and the
    timeout with it.
    """
    import asyncio

    limit = asyncio.timeout_at(time.until)

    def move() -> None:
        """Move the timeout, on the loop."""
        with contextlib.suppress(RuntimeError):  # it has expired, or the node has returned
            limit.reschedule(time.until)

    def moved() -> None:
        """Request that the timeout be moved, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(move)

    time.moved = moved
    return limit
