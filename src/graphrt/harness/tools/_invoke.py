"""The call of the function behind a tool: injected values are looked up, and sync functions run in a worker thread.

`invoke` also calls other functions of the user: that of a `FunctionModel`, and that which waits before a retry.

Nothing is validated here. Exceptions of the function are passed on unchanged. The exceptions are SystemExit, which
would end the program, and StopIteration, which cannot pass through a future.

Worker threads are daemons: one for each call in flight, and up to eight idle ones that are kept for the next calls.
Their number is not limited, and the interpreter does not wait for daemons when it exits. So a tool that hangs blocks
neither other tools nor the end of the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from graphrt.errors import ToolError
from graphrt.errors._codes.tools import INJECTION_MISSING
from graphrt.harness.tools._signature import EMPTY, Injection
from graphrt.harness.tools.protocol import ToolContext


async def injected(tool: str, injections: Iterable[Injection], context: ToolContext) -> dict[str, Any]:
    """Return the values of the injected parameters, by parameter name.

    Args:
        tool: Name of the tool, for errors.
        injections: The parameters that the program fills.
        context: The call that the values are for.

    Raises:
        ToolError: A value is missing from `deps`, or the function that makes it raised (`tool-injection`).
    """
    values: dict[str, Any] = {}
    for injection in injections:
        if injection.source is None:
            values[injection.name] = context
            continue
        try:
            value = injection.source.find(context)
            values[injection.name] = await value if inspect.isawaitable(value) else value
        except LookupError as error:
            if isinstance(injection.source.source, str) and injection.default is not EMPTY:
                continue  # the function applies its own default
            raise _missing(tool, injection, str(error)) from error
        except Exception as error:
            raise _missing(tool, injection, f"its source raised {type(error).__name__}") from error
    return values


def _missing(tool: str, injection: Injection, reason: str) -> ToolError:
    return INJECTION_MISSING(tool=tool, field=injection.name, why=reason)


async def invoke(fn: Callable[..., Any], positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Call *fn*. A sync function runs in a worker thread, with a copy of the caller's context variables.

    Raises:
        RuntimeError: The function raised StopIteration, or SystemExit.
        BaseException: Anything else that the function raises.
    """
    try:
        if _is_async(fn):
            return await fn(*positional, **named)
        result = await _in_a_thread(partial(fn, *positional, **named))
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:
        raise RuntimeError(f"the function called sys.exit({error.code!r})") from error


async def _in_a_thread(call: Callable[[], Any]) -> Any:
    """Run *call* in a worker thread and await its result.

    `asyncio.to_thread` is not used, because its pool is small: tools that hang would keep other tools from running.
    `asyncio.run` would also wait for them when it ends, long after the agent has timed out (decision 0031).
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if outcome.done():
            return  # the caller was cancelled or timed out
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(call)
        except StopIteration as error:  # a future refuses it with a TypeError
            failure = RuntimeError("the function raised StopIteration")
            failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - raised again where the call is awaited
            failure = error
        with suppress(RuntimeError):  # the event loop is closed, and with it the caller is gone
            loop.call_soon_threadsafe(settle, result, failure)

    in_a_worker_thread(work)
    return await outcome


def yields(fn: Callable[..., Any]) -> bool:
    """Return whether *fn* is a generator function, which cannot be a tool: a model gets one result, not a stream."""
    inner = _called(fn)
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)


def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_called(fn))


def _called(fn: Any) -> Any:
    """Return the function that says whether *fn* is async or a generator: for a callable object, its `__call__`.

    Partials, which have `func`, are returned as they are: `inspect` unwraps them itself.
    """
    return fn if inspect.isroutine(fn) or hasattr(fn, "func") or isinstance(fn, type) else type(fn).__call__


_MOST_IDLE: Final = 8
"""Idle threads that are kept. The check takes no lock, so a few more may stay."""
_idle: Final[list[tuple[int, SimpleQueue[Callable[[], None]]]]] = []
"""Inboxes of the idle threads, each with the pid of its process. `append` and `pop` of a list are atomic in CPython."""


def in_a_worker_thread(work: Callable[[], None]) -> None:
    """Run *work*, which must not raise, in an idle worker thread or in a new one."""
    while True:
        try:
            process, inbox = _idle.pop()
        except IndexError:
            break
        if process == os.getpid():  # threads do not survive a fork, and an inbox without a thread would never be read
            inbox.put(work)
            return
    fresh: SimpleQueue[Callable[[], None]] = SimpleQueue()
    fresh.put(work)
    threading.Thread(target=_serve, args=(fresh,), name="graphrt-tool", daemon=True).start()


def _serve(inbox: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        inbox.get()()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append((os.getpid(), inbox))
