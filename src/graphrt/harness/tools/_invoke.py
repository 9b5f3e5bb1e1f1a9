"""Call the function behind a tool: with what the program injects, off the event loop if it is sync.

Nothing is checked here, and nothing that the function raises is changed.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from graphrt.errors import ToolError
from graphrt.harness.tools._signature import EMPTY, Injection
from graphrt.harness.tools._worker_threads import in_a_worker_thread
from graphrt.harness.tools.protocol import ToolContext


async def injected(tool: str, injections: Iterable[Injection], context: ToolContext) -> dict[str, Any]:
    """The values that the program gives, by parameter.

    Raises:
        ToolError: A value is not there, or what makes it raised.
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
                continue  # the function has its own idea of what to take then
            raise _missing(tool, injection, str(error)) from error
        except Exception as error:
            raise _missing(tool, injection, f"its source raised {type(error).__name__}") from error
    return values


def _missing(tool: str, injection: Injection, why: str) -> ToolError:
    return ToolError(
        f"Tool {tool!r} needs {injection.name!r}, which was not given: {why}.",
        fix="pass it in deps where the agent is run",
        code="tool-injection",
        tool=tool,
        field=injection.name,
    )


async def invoke(fn: Callable[..., Any], positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Call *fn*; a sync one runs in a worker thread that sees the caller's context variables.

    Raises:
        RuntimeError: It raised StopIteration, or tried to end the program.
        BaseException: Whatever else it raises.
    """
    try:
        if _is_async(fn):
            return await fn(*positional, **named)
        result = await _in_a_thread(partial(fn, *positional, **named))
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:
        raise RuntimeError(f"the tool called sys.exit({error.code!r})") from error


async def _in_a_thread(call: Callable[[], Any]) -> Any:
    """Wait for *call* in a worker thread.

    Not `asyncio.to_thread`: its threads are few, so that tools that hang would keep others from running, and
    `asyncio.run` waits for them at its end, though everybody else has given the tool up.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if outcome.done():
            return  # nobody waits any more
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(call)
        except StopIteration as error:  # no future can carry it
            failure = RuntimeError("the tool raised StopIteration")
            failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - raised where the call is awaited
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    in_a_worker_thread(work)
    return await outcome


def yields(fn: Callable[..., Any]) -> bool:
    """Whether *fn* is a generator, whose items no model can wait for."""
    inner = _called(fn)
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)


def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_called(fn))


def _called(fn: Any) -> Any:
    """The function whose kind decides: of a callable object its `__call__`; partials unwrap by themselves."""
    return fn if inspect.isroutine(fn) or hasattr(fn, "func") or isinstance(fn, type) else type(fn).__call__
