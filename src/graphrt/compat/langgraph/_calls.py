"""Calls nodes and routers of LangGraph as LangGraph does, at lower cost.

A plain, untraced function is called directly with the arguments that it declares, such as `config`, `runtime` and
`store`, as `RunnableCallable.invoke` does. Anything else is invoked as a Runnable.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import run_in_executor

from graphrt.compat.langgraph import _langgraph as lg

Call: TypeAlias = Callable[[Any, dict[str, Any]], Any]
"""Takes the input and the config."""
AsyncCall: TypeAlias = Callable[[Any, dict[str, Any]], Awaitable[Any]]

_FROM_RUNTIME: Final[Mapping[str, str]] = {"store": "store", "writer": "stream_writer", "previous": "previous"}
_SYNC_ONLY: Final = frozenset({"AgentMiddleware.awrap_model_call", "AgentMiddleware.awrap_tool_call"})
"""Methods of LangChain's base class that only raise: a middleware that inherits them has no async form."""


def has_sync(runnable: Any) -> bool:
    """Return whether *runnable* has a sync function and no async form of its own.

    A Runnable that has both, such as a model or a `ToolNode`, counts as async and runs on the event loop. A Runnable of
    an agent with sync-only middleware counts as sync.
    """
    if not lg.is_a(runnable, lg.RunnableCallable):
        return False
    if runnable.func is None:
        return False
    if _lacks_async(runnable):
        return True
    other: Any = runnable.afunc
    # LangGraph gives a sync function a second form that runs it in an executor.
    return other is None or (isinstance(other, functools.partial) and other.func is run_in_executor)


def _lacks_async(runnable: Any) -> bool:
    """Return whether the async form of *runnable* would fail because it calls sync-only middleware of an agent.

    `create_agent` composes the middleware into functions, whose closures are searched.
    """
    pending: list[Any] = [runnable.afunc, getattr(runnable, "_awrap_tool_call", None)]
    seen: set[int] = set()
    while pending:
        current: Any = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if inspect.ismethod(current) and current.__func__.__qualname__ in _SYNC_ONLY:
            return True
        if isinstance(current, (list, tuple)):
            pending += cast("list[Any]", current)
            continue
        for cell in getattr(current, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # a cell that is not assigned yet
                pending.append(cell.cell_contents)
        pending.append(getattr(current, "__wrapped__", None))
    return False


def _wanted(runnable: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that *runnable* takes from the config."""
    own: Any = config["configurable"]
    runtime: Any = own.get(lg.CONFIG_KEY_RUNTIME)
    arguments: dict[str, Any] = {}
    for name in runnable.func_accepts:
        if name == "config":
            arguments[name] = config
        elif name == "runtime":
            arguments[name] = runtime
        elif name == "error":
            arguments[name] = own.get(lg.CONFIG_KEY_NODE_ERROR)
        else:
            arguments[name] = getattr(runtime, _FROM_RUNTIME[name], None)
    return arguments


def _is_plain(runnable: Any, *, traced: bool) -> bool:
    """Return whether *runnable* is a function that can be called without LangGraph's `invoke`."""
    kind: Any = runnable.__class__
    return (
        kind is lg.RunnableCallable and not runnable.explode_args and not runnable.kwargs and runnable.trace <= traced
    )


def caller(runnable: Any, *, traced: bool = False) -> Call:
    """Return a function that calls *runnable* in a sync node.

    Args:
        runnable: A Runnable.
        traced: Whether it may be called directly although LangGraph would trace it, because the config has no
            callbacks.
    """
    if not _is_plain(runnable, traced=traced):
        invoke: Call = runnable.invoke
        return invoke
    fn: Any = runnable.func
    accepts = bool(runnable.func_accepts)
    may_recurse: bool = runnable.recurse

    def call(node_input: Any, config: dict[str, Any]) -> Any:
        if traced and config.get("callbacks"):
            return runnable.invoke(node_input, config)
        result = fn(node_input, **_wanted(runnable, config)) if accepts else fn(node_input)
        if may_recurse and result.__class__ is not dict and lg.is_a(result, Runnable):
            return result.invoke(node_input, config)
        return result

    return call


def async_caller(runnable: Any, *, traced: bool = False) -> AsyncCall:
    """Return a function that calls *runnable* in an async node; see `caller`."""
    if not _is_plain(runnable, traced=traced) or runnable.afunc is None:
        ainvoke: AsyncCall = runnable.ainvoke
        return ainvoke
    fn: Any = runnable.afunc
    accepts = bool(runnable.func_accepts)
    may_recurse: bool = runnable.recurse

    async def call(node_input: Any, config: dict[str, Any]) -> Any:
        if traced and config.get("callbacks"):
            return await runnable.ainvoke(node_input, config)
        result = await (fn(node_input, **_wanted(runnable, config)) if accepts else fn(node_input))
        if may_recurse and result.__class__ is not dict and lg.is_a(result, Runnable):
            return await result.ainvoke(node_input, config)
        return result

    return call
